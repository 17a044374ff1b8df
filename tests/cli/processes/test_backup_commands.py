"""`stateward backup`, `verify`, `restore` and `copy`, as people and cron jobs run them."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.test_cli import assert_one_line, environment, run
from stateward import sync

URL = "sqlite:///agents.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a store in it."""
    with sync.open(f"sqlite:///{tmp_path}/agents.db") as store:
        for number in range(3):
            thread = store.thread(f"s-{number}", user=f"u-{number}")
            thread.append({"role": "user", "content": "hello"}, key="k")
        store.user("u-1").put({"name": "Noor"})
    return tmp_path


def test_there_and_back(folder: Path) -> None:
    made = run("backup", URL, "a.backup", cwd=folder)
    assert (made.returncode, made.stderr) == (0, "")
    assert "3 messages, 1 documents of the namespace 'default'" in made.stdout
    assert "a snapshot of one moment" in made.stdout
    said = run("verify", "a.backup", cwd=folder)
    assert "a.backup is a complete backup, taken from sqlite at 20" in said.stdout
    back = run("restore", "a.backup", "sqlite:///new.db", "--namespace", "old", cwd=folder)
    assert (back.returncode, back.stderr) == (0, "")
    copied = run("copy", "sqlite:///new.db", URL, "--namespace", "old", "--to", "new", cwd=folder)
    assert (copied.returncode, copied.stderr) == (0, "")
    with sync.open(f"sqlite:///{folder}/agents.db", namespace="new") as store:
        assert store.thread("s-1", user="u-1").load().messages[0]["content"] == "hello"


def test_json_for_machines(folder: Path) -> None:
    made = json.loads(run("backup", URL, "a.backup", "--json", cwd=folder).stdout)
    assert (made["url"], made["file"], made["moment"]) == (URL, "a.backup", "store")
    assert (made["entities"], made["messages"], made["documents"]) == (4, 3, 1)
    assert made["bytes"] == (folder / "a.backup").stat().st_size
    said = json.loads(run("verify", "a.backup", "--json", cwd=folder).stdout)
    assert said == {name: value for name, value in made.items() if name != "url"}
    with sync.open(f"sqlite:///{folder}/agents.db") as store:
        store.user("u-1").erase()
    words = ("restore", "a.backup", "sqlite:///new.db", "--erasures", URL, "--json")
    back = json.loads(run(*words, cwd=folder).stdout)
    assert (back["erased"], back["resumed"], back["sha256"]) == (2, False, made["sha256"])
    copied = json.loads(
        run("copy", "sqlite:///new.db", "sqlite:///b.db", "--json", cwd=folder).stdout
    )
    assert (copied["source"], copied["target"]) == ("sqlite:///new.db", "sqlite:///b.db")
    assert copied["entities"] == 4, "two of the users' threads, one mark, the operations log"


def test_the_url_may_come_from_the_environment(folder: Path) -> None:
    env = {"STATEWARD_URL": URL}
    assert run("backup", "a.backup", cwd=folder, env=env).returncode == 0
    env = {"STATEWARD_URL": "sqlite:///new.db"}
    assert run("restore", "a.backup", cwd=folder, env=env).returncode == 0
    assert (folder / "new.db").exists()


def test_what_cannot_be_done_is_one_line(folder: Path) -> None:
    run("backup", URL, "a.backup", cwd=folder)
    (folder / "half.backup").write_bytes((folder / "a.backup").read_bytes()[:-9])
    assert_one_line(run("backup", URL, "a.backup", cwd=folder), 2, "exists already")
    assert_one_line(run("backup", "sqlite:///typo.db", "b.backup", cwd=folder), 1, "no store")
    assert_one_line(run("verify", "half.backup", cwd=folder), 1, "cut off", "Use another copy")
    assert_one_line(run("verify", "typo.backup", cwd=folder), 2, "cannot be read")
    half = run("restore", "half.backup", "sqlite:///new.db", cwd=folder)
    assert_one_line(half, 1, "cut off")
    assert not (folder / "new.db").exists()
    assert_one_line(run("restore", "a.backup", URL, cwd=folder), 1, "not empty", "--namespace")
    assert_one_line(run("copy", URL, URL, cwd=folder), 2, "the same")
    assert_one_line(run("copy", URL, cwd=folder), 2, "TARGET_URL")
    assert_one_line(run("backup", cwd=folder), 2, "FILE")


def test_a_url_in_the_place_of_a_file_is_not_shown(folder: Path) -> None:
    secret = "postgresql://agent:s3cr3t@127.0.0.1:1/db"
    for words in (
        ("verify", secret),
        ("restore", secret, URL),
        ("backup", URL, secret),
        ("backup", secret, "a.backup"),
        ("copy", secret, URL),
        ("copy", URL, secret),
    ):
        ran = run(*words, cwd=folder)
        assert ran.returncode in (1, 2)
        assert "s3cr3t" not in ran.stdout + ran.stderr
        assert ran.stderr.count("\n") == 1


def test_a_disk_without_room_is_one_line_and_leaves_nothing(folder: Path) -> None:
    with sync.open(f"sqlite:///{folder}/agents.db") as store:
        store.thread("noise").append(*({"t": os.urandom(5000).hex()} for _ in range(100)))
    before = sorted(os.listdir(folder))
    ran = subprocess.run(
        [sys.executable, "-m", "stateward", "backup", f"{URL}?migrate=off", "a.backup"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)),
    )
    assert_one_line(ran, 1, "a.backup could not be written", "free space")
    assert sorted(os.listdir(folder)) == before


def rest_of(watcher: int) -> bytes:
    """What a terminal still shows after its program has ended."""
    said = b""
    while True:
        try:
            part = os.read(watcher, 1000)
        except OSError:  # how Linux says that there is no more
            return said
        if not part:
            return said
        said += part


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_backup_leaves_nothing_behind(folder: Path, number: int) -> None:
    with sync.open(f"sqlite:///{folder}/agents.db") as store:
        for some in range(150):
            store.thread(f"t-{some}").append(*({"n": n} for n in range(400)))
    before = sorted(os.listdir(folder))
    watcher, terminal = pty.openpty()  # the bar tells when it is in the middle
    process = subprocess.Popen(
        [sys.executable, "-m", "stateward", "backup", URL, "a.backup"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=terminal,
        preexec_fn=lambda: signal.signal(
            number, signal.SIG_DFL
        ),  # a job in the background ignores it
    )
    os.close(terminal)
    try:
        said = os.read(watcher, 1000)
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        said += rest_of(watcher)
    finally:
        process.kill()
        os.close(watcher)
    assert process.returncode == 4
    shown = said.decode()
    assert "reading" in shown
    assert "%" in shown
    assert "stateward: interrupted" in shown
    assert (out, sorted(os.listdir(folder))) == (b"", before)
