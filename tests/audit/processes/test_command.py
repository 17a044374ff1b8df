"""`stateward audit` as people run it: its options, its exit codes, and how it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stateward.sync
from stateward import cli
from stateward.audit.safety import headroom, isolation

QUICK = ["--replicas", "2", "--duration", "1", "--conversations", "10", "--seed", "5"]


def run(*arguments: str) -> int:
    return cli.main(["audit", *arguments])


def test_a_report_is_written_in_every_form_and_judged_again_from_a_saved_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, out = str(tmp_path / "record.json"), tmp_path / "out"
    assert run(*QUICK, "--only", "1,2", "--save", saved, "--output", str(out)) == 0
    assert {f.name for f in out.iterdir()} == {
        "report.json",
        "report.html",
        "report.md",
        "junit.xml",
    }
    capsys.readouterr()
    assert run("--from", saved, "--json", "--baseline", str(out / "report.json")) == 0
    report = json.loads(capsys.readouterr().out)
    assert [a["verdict"] for a in report["answers"]] == ["pass", "pass"]
    assert report["seed"] == 5
    both = (str(out / "report.json"), str(out / "report.json"))
    assert run("compare", *both, "--output", str(tmp_path / "both")) == 0
    assert "The verdicts differ on 0 of 2 questions." in capsys.readouterr().out
    assert (tmp_path / "both" / "runs.html").exists()
    assert run("compare", str(tmp_path / "none.json")) == 2
    strict = tmp_path / "strict.toml"
    strict.write_text("[thresholds]\nfewest_turns = 100000\n")
    assert run("--from", saved, "--config", str(strict)) == 3


def test_a_waiver_needs_a_reason_and_ends(tmp_path: Path) -> None:
    config, saved = tmp_path / "audit.toml", str(tmp_path / "record.json")
    config.write_text('[waive.workflows]\nreason = "not used yet"\nuntil = 2999-01-01\n')
    arguments = ("naive:process-dict", *QUICK, "--only", "3", "--save", saved)
    assert run(*arguments, "--config", str(config)) == 3  # nothing else was asked
    config.write_text('[waive.workflows]\nreason = "not used yet"\nuntil = 2001-01-01\n')
    assert run("--from", saved, "--config", str(config)) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "is not a target"),
        (["naive:nothing"], "naive:process-dict"),
        (["naive:redis-document"], "--url"),
        (["--profile", "huge"], "quick, ci, full"),
        (["--only", "nothing"], "sessions"),
        (["--conversations", "ten"], "1,10,100"),
        (["redis://127.0.0.1:1"], "--yes"),
        (["--from", "/nowhere"], "is not a saved audit"),
        (["one:two", "three:four"], "one TARGET"),
        (["clean"], "URL"),
        (["compare"], "targets"),
        (["compare", "statefulset:2", "--with-server", "redis"], "for a single audit"),
        (["--with-server", "oracle"], "redis, valkey, postgres"),
        (["--server-setting", "fsync=off"], "--with-server"),
        (["--with-server", "postgres", "--server-setting", "fsync"], "fsync=off"),
        (["--with-server", "postgres", "redis://127.0.0.1:1", "--yes"], "leave the URL out"),
        (["--with-server", "postgres", "--restart-command", "true"], "--restart-command"),
        (["statefulset:2", "--with-server", "postgres"], "uses no server"),
        (["naive:json-files", "--with-server", "postgres"], "uses no server"),
        (["--faults", "fire"], "crash, cut"),
    ],
)
def test_wrong_usage_says_what_to_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_threshold_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "audit.toml"
    config.write_text("[thresholds]\nlookup_p95 = 5\n")
    assert run("--config", str(config)) == 2
    assert "lookup_p95_ms" in capsys.readouterr().err


def test_a_dry_run_says_the_plan_and_does_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    assert run(url, "--dry-run") == 0
    assert "calls/s" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_namespace_that_holds_data_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with stateward.sync.open(url, namespace="mine") as store:
        store.user("u-1").put({"name": "Noor"})
    assert run(url, "--yes", "--namespace", "mine", "--only", "1") == 2
    assert "holds data" in capsys.readouterr().err
    with stateward.sync.open(url, namespace="mine") as store:
        assert store.user("u-1").get().value == {"name": "Noor"}


def test_observing_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with stateward.sync.open(url) as store:
        store.user("u-1").put({"name": "Noor"})
        before = sorted((f.name, f.stat().st_size) for f in tmp_path.iterdir())
        assert run(url, "--observe") == 0
        assert sorted((f.name, f.stat().st_size) for f in tmp_path.iterdir()) == before
    assert "settings" in capsys.readouterr().out


def test_a_server_without_much_memory_left_is_not_loaded() -> None:
    headroom.refuse_full({"settings": {"maxmemory": 100, "used_memory": 79}})
    headroom.refuse_full({"settings": {"maxmemory": 0, "used_memory": 79}})
    with pytest.raises(stateward.InvalidInput, match="81% of its maxmemory"):
        headroom.refuse_full({"settings": {"maxmemory": 100, "used_memory": 81}})


def test_the_template_is_a_target_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "memory_of_mine.py") == 0
    assert run("memory_of_mine:create", *QUICK, "--only", "1,2") == 1
    said = " ".join(capsys.readouterr().out.split())  # wherever lines were broken
    assert "turns lost" in said


def begun(url: str, out: Path) -> subprocess.Popen[bytes]:
    """An audit in a process of its own, once it has begun to write."""
    command = [sys.executable, "-m", "stateward", "audit", url, "--yes", "--seed", "5"]
    audit = subprocess.Popen(
        [*command, "--output", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(out.parent)},
    )
    end = time.monotonic() + 30
    while not asyncio.run(left(url)):
        assert time.monotonic() < end, "the audit does not begin"
        assert audit.poll() is None
        time.sleep(0.05)
    return audit


async def left(url: str) -> list[str]:
    """What audits have written into files of their own and not removed."""
    path, found = Path(url.removeprefix("sqlite:///")), []
    for file in path.parent.glob(f"{path.name}.{isolation.PREFIX}*"):
        namespace = file.name.removeprefix(f"{path.name}.")
        if file.name.endswith(isolation.BESIDE):
            continue
        with contextlib.suppress(stateward.SchemaError):  # it is being made
            there = f"sqlite:///{file}?migrate=off"
            async with stateward.open(there, namespace=namespace, spill=False) as store:
                found += [f"{namespace}/{thread.id}" async for thread in store.threads()]
    return found


def test_an_interrupted_audit_reports_what_it_found_and_removes_what_it_wrote(
    tmp_path: Path,
) -> None:
    url, out = f"sqlite:///{tmp_path}/agents.db", tmp_path / "out"
    with stateward.sync.open(url) as store:
        store.user("u-1").put({"name": "Noor"})
    audit = begun(url, out)
    audit.send_signal(signal.SIGINT)
    audit.communicate(timeout=30)
    assert audit.returncode == 4
    assert json.loads((out / "report.json").read_text())["interrupted"] is True
    assert asyncio.run(left(url)) == []
    with stateward.sync.open(url) as store:
        assert store.user("u-1").get().value == {"name": "Noor"}


def test_what_a_killed_audit_left_is_removed_by_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    audit = begun(url, tmp_path / "out")
    replicas = Path(f"/proc/{audit.pid}/task/{audit.pid}/children").read_text().split()
    assert replicas
    audit.kill()
    audit.communicate(timeout=30)
    end = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{replica}/fd/0") for replica in replicas):
        assert time.monotonic() < end, "replicas outlive their audit"
        time.sleep(0.02)
    assert asyncio.run(left(url)) != []
    assert run("clean", url) == 0
    assert "removed" in capsys.readouterr().out
    assert asyncio.run(left(url)) == []
    assert run("clean", url) == 0
    assert "no audit has left anything" in capsys.readouterr().out
