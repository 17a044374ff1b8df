"""Full and read-only disks: the error names the file, reads go on, nothing is half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest

import stateward.sync
from processes.children import ROLES
from processes.conftest import Start
from stateward import sync
from stateward.cli.audit.output import write_all


def disks_can_be_mounted() -> bool:
    """Root may usually give a process a disk of its own; then the faults happen there too."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, str(ROLES / "small_disk.py"), folder]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


MOUNTS = disks_can_be_mounted()
COLOURS = ["async", "sync"]
TURN = [1, 2]


def check_refusal(error: dict[str, Any], path: Path) -> None:
    """The right class, in words that help, with the driver's own error kept."""
    assert error["error"] == "DiskProblem", error
    assert str(path) in error["message"]
    assert "free space" in error["message"]
    assert error["causes"][-1] in ("FullError", "IOError"), error
    if error["applied"] == "unknown":
        assert "not stored" not in error["message"], "it says what nobody can know"


def check_file(path: Path) -> None:
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


# --- full -------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("fault", ["limit", "disk"] if MOUNTS else ["limit"])
def test_a_disk_that_fills_up_refuses_writes_and_reads_go_on(
    start: Start, tmp_path: Path, colour: str, fault: str
) -> None:
    path = tmp_path / "agents.db"
    facts = start("full_disk", tmp_path, colour, fault).report()
    for error in facts["refused"]:
        check_refusal(error, path)
    assert facts["before"]["threads"]["t-1"] == TURN * 3
    assert facts["before"]["user"] == {"n": 3}
    assert facts["during"] == facts["before"]  # reads go on, and nothing of it was stored
    assert facts["after"]["threads"]["t-1"] == TURN * 6  # room again: writes go on by themselves
    assert facts["after"]["user"] == {"n": 6}
    if fault == "limit":
        check_file(path)


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("fault", ["limit", "disk"] if MOUNTS else ["limit"])
def test_many_writers_on_a_full_disk_are_all_told_and_no_turn_is_stored_by_half(
    start: Start, tmp_path: Path, colour: str, fault: str
) -> None:
    path = tmp_path / "agents.db"
    facts = start("full_disk", tmp_path, colour, fault).report()
    for number, error in enumerate(facts["crowd"]):
        check_refusal(error, path)
        assert facts["after_crowd"]["threads"][f"big-{number}"] == []
        assert facts["after"]["threads"][f"big-{number}"] == []


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("fault", ["limit", "disk"] if MOUNTS else ["limit"])
def test_a_store_first_used_on_a_full_disk_says_so_and_works_when_there_is_room(
    start: Start, tmp_path: Path, colour: str, fault: str
) -> None:
    facts = start("full_disk", tmp_path, colour, f"{fault}-before").report()
    (error,) = facts["refused"]
    check_refusal(error, tmp_path / "agents.db")
    assert error["applied"] == "no"
    assert facts["after"]["threads"]["t-1"] == TURN * 3
    assert facts["after"]["user"] == {"n": 3}


# --- read-only --------------------------------------------------------------------------


@pytest.mark.parametrize("colour", COLOURS)
def test_a_read_only_file_refuses_writes_and_reads_go_on(
    start: Start, tmp_path: Path, colour: str
) -> None:
    facts = start("unwritable", tmp_path, colour, "file").report()
    assert facts["read"] == [{"n": 1}, {"n": 2}]
    error = facts["write"]
    assert error["error"] == "DiskProblem", error
    assert str(tmp_path / "agents.db") in error["message"]
    assert "permissions" in error["message"]
    assert (error["applied"], error["causes"][-1]) == ("no", "ReadOnlyError")
    with stateward.sync.open(f"sqlite:///{tmp_path}/agents.db") as store:
        assert store.thread("t-1").load().messages == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("fault", ["folder", "new", "disk"] if MOUNTS else ["folder", "new"])
def test_a_store_in_a_read_only_place_says_that_it_may_not_write_there(
    start: Start, tmp_path: Path, colour: str, fault: str
) -> None:
    """SQLite needs its -shm file even to read, so here reading is refused as well."""
    facts = start("unwritable", tmp_path, colour, fault).report()
    for error in (facts["read"], facts["write"]):
        assert "StoreUnavailable" in error["kinds"], error
        assert str(tmp_path / "agents.db") in error["message"]
        assert "write" in error["message"]
        assert error["applied"] == "no"
        assert error["causes"][-1] in ("CantOpenError", "ReadOnlyError")
    assert facts["left"] == ([] if fault == "new" else ["agents.db"])


def test_what_the_product_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask: conversations are nobody else's, nor are reports of them."""
    before = os.umask(0o022)
    try:
        with sync.open(f"sqlite:///{tmp_path}/a.db") as store:
            store.thread("s-1", user="u").append({"role": "user", "content": "secret"})
            stores = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        write_all(str(tmp_path / "reports" / "new"), {"report.json": b"{}"})
    finally:
        os.umask(before)
    assert stores == dict.fromkeys(("a.db", "a.db-wal", "a.db-shm"), 0o600)
    for folder in (tmp_path / "reports", tmp_path / "reports" / "new"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "reports" / "new" / "report.json").stat().st_mode & 0o777 == 0o600


def test_a_store_file_keeps_the_mode_that_it_was_given(tmp_path: Path) -> None:
    """Who shares it with a group on purpose goes on to."""
    path = tmp_path / "a.db"
    path.touch()
    path.chmod(0o660)
    with sync.open(f"sqlite:///{path}") as store:
        store.thread("s-1").append({"n": 1})
        modes = {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {0o660}
