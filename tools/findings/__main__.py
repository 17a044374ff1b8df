"""`python -m findings`: audit public systems, run the reproductions, write docs/findings.md.

Every group of systems gets an environment of its own below .venv-findings. What came of it is in
results.json; `--only` does some of it anew and leaves the rest as it was.
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from findings import page
from findings.defects import DEFECTS, Defect
from findings.systems import QUESTIONS, TARGETS, Target

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.json"
SEED = 1
PATIENCE = 1800.0  # seconds for one audit
SOON = 180.0  # seconds for one reproduction


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    results: dict[str, Any] = {"audits": {}, "defects": {}}
    if RESULTS.exists():
        results = json.loads(RESULTS.read_text("utf-8"))
    known = {target.name for target in TARGETS}, {defect.file for defect in DEFECTS}
    for part, names in zip(("audits", "defects"), known, strict=True):
        results[part] = {name: kept for name, kept in results[part].items() if name in names}
    if not options.page:
        _find(options, results)
    page.write(results)
    print(f"wrote {page.PAGE}")


def _find(options: argparse.Namespace, results: dict[str, Any]) -> None:
    targets = [each for each in TARGETS if fnmatch.fnmatch(each.name.lower(), options.only)]
    defects = [each for each in DEFECTS if fnmatch.fnmatch(each.store.lower(), options.only)]
    if options.part == "reproductions":
        targets = []
    if options.part == "audits":
        defects = []
    groups = {target.group for target in targets} | {defect.group for defect in defects}
    for group in sorted(groups):
        _environment(group)
    with _servers() as servers, ThreadPoolExecutor(options.jobs) as pool:
        for defect in defects:
            _keep(results, "defects", defect.file, _reproduce(defect, servers))
        audits = {pool.submit(_audit, target, servers): target for target in targets}
        failed = []
        for audit in as_completed(audits):
            try:
                _keep(results, "audits", audits[audit].name, audit.result())
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed.append(f"{audits[audit].name}: {error}")
    if failed:
        sys.exit("\n".join(failed))


def _keep(results: dict[str, Any], part: str, name: str, found: dict[str, Any]) -> None:
    """At once: a run of an hour that is broken off loses nothing."""
    results[part][name] = found
    results[part] = dict(sorted(results[part].items()))
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{name}: {found.get('shows', found.get('verdicts'))}", flush=True)


# --- environments -----------------------------------------------------------------------


def _environment(group: str) -> Path:
    """Its Python; the house's own if it has no requirements."""
    if not group:
        return Path(sys.executable)
    folder = ROOT / ".venv-findings" / group
    python, stamp = folder / "bin" / "python", folder / ".made-of"
    wanted = HERE / "requirements" / f"{group}.txt"
    made_of = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != made_of:
        print(f"making {folder.relative_to(ROOT)}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        # Everything is named there, so nothing is left for pip to choose.
        install = ("-m", "pip", "--disable-pip-version-check", "-qq", "install", "--no-deps")
        subprocess.run([python, *install, "-r", wanted], check=True)
        stamp.write_text(made_of)
    return python


def _versions(group: str, packages: Sequence[str]) -> dict[str, str]:
    asked = "import sys\nfrom importlib.metadata import version\nprint(*map(version, sys.argv[1:]))"
    said = subprocess.run(
        [_environment(group), "-c", asked, *packages], check=True, capture_output=True, text=True
    )
    return dict(zip(packages, said.stdout.split(), strict=True))


# --- servers ----------------------------------------------------------------------------


@contextmanager
def _servers() -> Iterator[dict[str, str]]:
    """What the audits and reproductions find in their environment."""
    sys.path.append(str(ROOT / "tests"))
    of_redis, of_postgres = import_module("servers.redis"), import_module("servers.postgres")
    binaries = (of_redis.binary("redis").parent, of_postgres.wheel_binaries())
    programs = (*map(str, binaries), os.environ["PATH"])
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stateward-findings-"))
        redis = of_redis.RedisServer(Path(folder), "redis").start()
        stack.callback(redis.stop)
        postgres = of_postgres.PostgresServer().start()
        stack.callback(postgres.remove)
        yield {
            **{name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ},
            "PATH": os.pathsep.join(programs),
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONHASHSEED": "0",
            "REDIS_URL": redis.url,
            "DATABASE_URL": postgres.url,
            # Vendors' own reports home and model downloads are no part of this.
            **{"ANONYMIZED_TELEMETRY": "false", "MEM0_TELEMETRY": "false"},
            **{"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"},
            **{"AGNO_TELEMETRY": "false", "HF_HUB_OFFLINE": "1"},
        }


# --- what is done -----------------------------------------------------------------------


def _audit(target: Target, servers: dict[str, str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stateward-findings-") as folder:
        python = str(_environment(target.group))
        command = [python, "-m", "stateward", "audit", target.target, "--yes"]
        command += ["--seed", str(SEED), "--output", folder, "--only", ",".join(QUESTIONS)]
        if target.server is not None:
            command += ["--with-server", target.server]
        files = Path(folder) / "files"
        files.mkdir()
        said = subprocess.run(
            command,
            cwd=HERE / "memories",
            env=servers | {"FINDINGS_FOLDER": str(files), "CHAINLIT_APP_ROOT": str(files)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        report = Path(folder) / "report.json"
        if not report.exists():
            raise RuntimeError(f"no report\n{said.stdout[-2000:]}{said.stderr[-4000:]}")
        answers = {each["id"]: each for each in json.loads(report.read_text("utf-8"))["answers"]}
    return {
        "date": _today(),
        "versions": _versions(target.group, target.packages),
        "verdicts": {id: _verdict(answers[id]) for id in QUESTIONS},
        "summaries": {id: answers[id]["summary"] for id in QUESTIONS},
    }


def _verdict(answer: dict[str, Any]) -> str:
    """The audit's; but a call that took too long may be this machine's fault, and is no finding."""
    late = answer["verdict"] == "fail" and "TimeoutError" in answer["counter_example"]
    return "unknown" if late else str(answer["verdict"])


def _reproduce(defect: Defect, servers: dict[str, str]) -> dict[str, Any]:
    """It exits with 1 if the defect shows, with 0 if not; all else is no result."""
    with tempfile.TemporaryDirectory(prefix="stateward-findings-") as folder:
        said = subprocess.run(
            [_environment(defect.group), HERE / "reproductions" / defect.file],
            cwd=folder,
            env=servers,
            capture_output=True,
            text=True,
            timeout=SOON,
        )
    lines = [line for line in said.stdout.splitlines() if re.match("expected: |found: ", line)]
    if said.returncode not in (0, 1) or len(lines) != 2 or "Traceback" in said.stderr:
        sys.exit(f"{defect.file}: no result\n{said.stdout[-2000:]}{said.stderr[-4000:]}")
    return {
        "date": _today(),
        "versions": _versions(defect.group, defect.packages),
        "shows": bool(said.returncode),
        "expected": lines[0].partition(": ")[2],
        "found": lines[1].partition(": ")[2],
    }


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m findings", description=__doc__)
    parser.add_argument("--only", default="*", help="of which systems, e.g. 'langchain*'")
    parser.add_argument("--part", choices=("audits", "reproductions"), help="not the other one")
    parser.add_argument("--page", action="store_true", help="write the page from what was saved")
    parser.add_argument("--jobs", type=int, default=1, help="audits at the same time")
    options = parser.parse_args(arguments)
    options.only = options.only.lower()
    return options


if __name__ == "__main__":
    main()
