"""A memory in another language: the Node example, as it is and broken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stateward import cli
from stateward.audit.targets import http

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "node" / "memory.mjs"
SIZES = """
[sizes]
replicas = 2
threads = 6
turns = 3
race_turns = 20
race_history = 200
version_races = 15
tasks = 8
long_task = 4.5
long_step = 3.0
lock_rounds = 1
updates = 15
conflicts = 8
looks = 6
workflows = 2
outage = 1.0
[waive.backup]
reason = "the file is copied with the machine's snapshots"
until = 2999-01-01
[waive.monitoring]
reason = "measured by the proxy before it"
until = 2999-01-01
[waive.settings]
reason = "it has none"
until = 2999-01-01
"""
ASKED = (
    "sessions,preferences,workflows,sharing,races,updates,conflicts,outage,"
    "fidelity,windows,keys,locks,tasks,isolation"
)


def audited(script: Path, folder: Path, only: str = ASKED) -> tuple[int, dict[str, Any]]:
    config = folder / "audit.toml"
    config.write_text(SIZES)
    options = ("--profile", "ci", "--seed", "3", "--faults", "crash,refuse")
    asked = ("--config", str(config), "--output", str(folder / "out"), "--only", only, "--yes")
    status = cli.main(["audit", "--start-command", f"node {script}", *options, *asked])
    report = json.loads((folder / "out" / "report.json").read_text())
    return status, {answer["id"]: answer for answer in report["answers"]}


def test_the_node_example_holds(tmp_path: Path) -> None:
    status, answers = audited(EXAMPLE, tmp_path)
    verdicts = {id: answer["verdict"] for id, answer in answers.items()}
    assert verdicts.pop("outage") == "warn", answers["outage"]  # its client keeps nothing for later
    assert set(verdicts.values()) == {"pass"}, answers
    assert status == 0


@pytest.mark.soak
def test_the_node_example_holds_in_every_question(tmp_path: Path) -> None:
    status, answers = audited(EXAMPLE, tmp_path, ",".join(map(str, range(1, 31))))
    assert status == 0, answers


@pytest.mark.parametrize(
    ("line", "broken", "question", "said"),
    [
        (
            '  fs.writeSync(file, JSON.stringify(entry) + "\\n");\n  fs.fdatasyncSync(file);\n',
            '  setTimeout(() => fs.writeSync(file, JSON.stringify(entry) + "\\n"), 3000);\n',
            "outage",
            r"of \d+ accepted turns lost .the server is killed",
        ),
        (
            ".keys.has(key)) return [204];",
            ".keys.has(key + 0)) return [204];",
            "races",
            "duplicated",
        ),
        ("if (expected !== undefined &&", "if (expected === 0 &&", "conflicts", "not detected"),
    ],
    ids=["acknowledges early", "ignores keys", "ignores versions"],
)
def test_broken_it_fails_with_the_right_finding(
    tmp_path: Path, line: str, broken: str, question: str, said: str
) -> None:
    source = EXAMPLE.read_text()
    assert source.count(line) == 1
    script = tmp_path / "memory.mjs"
    script.write_text(source.replace(line, broken))
    status, answers = audited(script, tmp_path, question)
    assert status == 1
    assert answers[question]["verdict"] == "fail"
    assert re.search(said, answers[question]["summary"]), answers[question]["summary"]


def test_the_published_contract_has_the_routes_that_are_used() -> None:
    published = yaml.safe_load((ROOT / "docs/reference/memory.openapi.yaml").read_text())
    routes = {
        f"{method.upper()} {path}"
        for path, methods in published["paths"].items()
        for method in methods
        if method != "parameters"
    }
    used = re.findall(r"^ +([A-Z]+) +(/\S+)", http.__doc__ or "", re.MULTILINE)
    assert routes == {f"{method} {path}" for method, path in used}
    assert len(routes) == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["http://127.0.0.1:1", "--url", "redis://x"], "leave --url out"),
        (["http://127.0.0.1:1?x=1"], "option 'x' is not known"),
        (["http://127.0.0.1:1#x"], "ends with its path"),
        (["--start-command", ""], "names a program"),
        (["--start-command", "no-such-program-here"], "cannot be run"),
        (["--start-command", "node x", "--with-server", "redis"], "pass one"),
        (["http://127.0.0.1:1", "--start-command", "node x"], "leave the URL out"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["audit", *arguments, "--yes"]) == 2
    assert said in capsys.readouterr().err
