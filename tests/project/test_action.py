"""The GitHub Action: its steps are run as the runner runs them, one after the other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

import stateward
from stateward import cli

ROOT = Path(__file__).resolve().parent.parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["name"]: step for step in ACTION["runs"]["steps"]}
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")  # what `shell: bash` means
EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")


class Job:
    """A job's workspace, and what the runner knows of it."""

    def __init__(self, folder: Path, python: Path, **inputs: str) -> None:
        self.folder = folder
        self.values = {
            f"inputs.{name}": inputs.get(name, given["default"])
            for name, given in ACTION["inputs"].items()
        }
        self.summary = folder / "summary.md"
        self._outputs = folder / "outputs"
        self.env = {
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(self._outputs),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        machine = ("TMPDIR", "SSL_", "PIP_")  # how this one reaches a package index
        self.env |= {name: value for name, value in os.environ.items() if name.startswith(machine)}

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        step = STEPS[name]
        env = {key: self._evaluated(value) for key, value in step.get("env", {}).items()}
        script = self.folder / "step.sh"
        script.write_text(step["run"], "utf-8")
        ran = subprocess.run(
            (*BASH, script),
            cwd=self.folder,
            env=self.env | env,
            capture_output=True,
            text=True,
            timeout=280,
        )
        script.unlink()
        if "id" in step and self._outputs.exists():
            for line in self._outputs.read_text("utf-8").splitlines():
                key, _, value = line.partition("=")
                self.values[f"steps.{step['id']}.outputs.{key}"] = value
        return ran

    def _evaluated(self, value: str) -> str:
        return EXPRESSION.sub(lambda match: self.values[match[1]], value)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job whose Python has the package already."""
    return Job(tmp_path, Path(sys.executable))


def test_it_installs_the_package_of_its_own_checkout(tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    venv.create(fresh, with_pip=True)
    job = Job(tmp_path, fresh / "bin" / "python", extras="")
    ran = job.run("Install")
    assert ran.returncode == 0, ran.stderr
    said = subprocess.run(
        [fresh / "bin" / "stateward", "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert said.stdout == f"stateward {stateward.__version__}\n"


@pytest.mark.parametrize(
    ("target", "code", "verdict"), [("", "0", "pass"), ("naive:process-dict", "1", "fail")]
)
def test_it_audits_shows_the_report_and_ends_as_the_audit_did(
    target: str, code: str, verdict: str, tmp_path: Path
) -> None:
    job = Job(
        tmp_path,
        Path(sys.executable),
        target=target,
        profile="quick",
        args="--only\nsessions\n\n--seed\n5\n",
    )
    ran = job.run("Audit")
    assert ran.returncode == 0, ran.stderr  # the report is shown before the job fails
    assert job.values["steps.audit.outputs.exit-code"] == code, ran.stdout
    report = json.loads((tmp_path / job.values["steps.audit.outputs.report"]).read_text())
    assert job.run("Summary").returncode == 0
    assert job.summary.read_text() == (tmp_path / "audit" / "report.md").read_text()
    assert {"report.json", "report.html", "report.md", "junit.xml"} <= {
        path.name for path in (tmp_path / "audit").iterdir()
    }
    assert [answer["verdict"] for answer in report["answers"]] == [verdict]
    assert job.run("Verdict").returncode == int(code)


def test_inputs_are_never_commands(tmp_path: Path) -> None:
    job = Job(
        tmp_path, Path(sys.executable), target="$(touch hit)", args="`touch hit`\n; touch hit"
    )
    job.run("Audit")
    assert job.values["steps.audit.outputs.exit-code"] == "2"
    assert not (tmp_path / "hit").exists()
    assert job.run("Summary").returncode == 0  # without a report there is nothing to show
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")


def test_every_input_is_used_and_every_option_it_passes_exists() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text, name
    options = cli.command_parser("audit")._option_string_actions
    passed = re.findall(r"--[a-z]+", STEPS["Audit"]["run"])
    assert passed
    assert set(passed) <= options.keys()


# --- the comment ------------------------------------------------------------------------


class Comments(BaseHTTPRequestHandler):
    """GitHub's routes for the comments of an issue, as its REST reference describes them."""

    kept: dict[int, str]
    permitted: bool

    def do_GET(self) -> None:
        query = dict(part.split("=") for part in self.path.partition("?")[2].split("&"))
        size, page = int(query["per_page"]), int(query["page"])
        shown = list(self.kept.items())[size * (page - 1) : size * page]
        self._answer(200, [{"id": number, "body": body} for number, body in shown])

    def do_POST(self) -> None:
        self._write("/repos/o/r/issues/7/comments", max(self.kept, default=0) + 1, 201)

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition("/")[2])
        self._write(f"/repos/o/r/issues/comments/{number}", number, 200)

    def _write(self, path: str, number: int, status: int) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        if self.path != path or len(body) > 65_536:
            self._answer(422, {})
        elif not self.permitted or self.headers["Authorization"] != "Bearer secret":
            self._answer(403, {"message": "Resource not accessible by integration"})
        else:
            self.kept[number] = body
            self._answer(status, {"id": number})

    def _answer(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def github(job: Job) -> Iterator[type[Comments]]:
    """A pull request that has 120 comments of others."""
    others = dict.fromkeys(range(1, 121), "looks good")
    handler = type("Handler", (Comments,), {"kept": others, "permitted": True})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    event = job.folder / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    job.env |= {
        "GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": "o/r",
    }
    job.values |= {"inputs.token": "secret"}
    (job.folder / "audit").mkdir()
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


def commented(job: Job, report: str) -> str:
    (job.folder / "audit" / "report.md").write_text(report, "utf-8")
    ran = job.run("Comment")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_report_is_one_comment_that_later_runs_renew(job: Job, github: type[Comments]) -> None:
    assert commented(job, "# First\n") == ""
    assert github.kept[121].endswith("# First\n")
    assert commented(job, "# Second\n") == ""
    job.values["inputs.artifact"] = "another-audit"
    assert commented(job, "# Another\n") == ""
    assert len(github.kept) == 122
    assert github.kept[121].endswith("# Second\n")
    assert github.kept[122].endswith("# Another\n")


def test_a_long_report_is_cut_at_a_line(job: Job, github: type[Comments]) -> None:
    assert commented(job, "a line of the report\n" * 5_000) == ""
    last = github.kept[121].splitlines()
    assert last[-3:-1] == ["a line of the report", ""]
    assert "`stateward-audit`" in last[-1]


def test_a_token_that_may_not_comment_is_a_warning(job: Job, github: type[Comments]) -> None:
    github.permitted = False
    said = commented(job, "# First\n")
    assert said.startswith("::warning::")
    assert "pull-requests: write" in said
    assert len(github.kept) == 120


def test_a_github_that_does_not_answer_is_a_warning(job: Job, github: type[Comments]) -> None:
    job.env["GITHUB_API_URL"] = "http://127.0.0.1:9"
    assert commented(job, "# First\n").startswith("::warning::")
