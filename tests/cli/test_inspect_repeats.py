"""`stateward inspect repeats`, as people run it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stateward import cli, sync

PROFILE = {"email": "ana@example.org"}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "STATEWARD_URL"}
    return subprocess.run(
        [sys.executable, "-m", "stateward", "inspect", *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def asked(*arguments: str, cwd: Path) -> dict[str, Any]:
    """What it says with `--json`; in this process, because a new one takes longer than the rest."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.main(["inspect", "repeats", f"sqlite:///{cwd}/agents.db", "--json", *arguments])
    assert code == 0
    said: dict[str, Any] = json.loads(printed.getvalue())
    return said


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three conversations of two users; two of them show that context was lost."""
    with sync.open(f"sqlite:///{tmp_path}/agents.db") as store:
        store.user("u-1").put(PROFILE, "profile")
        store.thread("s-1", "u-1").append(
            {"role": "user", "content": "I want to order a chair."},
            {"role": "assistant", "content": "What is your email address?"},
            {"role": "user", "content": "ana@example.org"},
        )
        store.thread("s-2", "u-2").append(
            {"role": "user", "content": "I want to order a desk."},
            {"role": "assistant", "content": "What is your email address?"},
            {"role": "user", "content": "ben@example.org"},
        )
        store.user("u-2").put({"email": "ben@example.org"})
        store.thread("s-3", "u-1").append(
            {"role": "assistant", "content": "Which colour do you prefer?"},
            {"role": "user", "content": "Green."},
            {"role": "assistant", "content": "Which colour do you prefer?"},
            {"role": "user", "content": "I already told you."},
        )
    return tmp_path


def test_repeats_are_listed_with_the_versions_of_their_threads(folder: Path) -> None:
    said = asked(cwd=folder)
    assert (said["threads"], said["after"]) == (3, None)
    assert said["url"] == f"sqlite:///{folder}/agents.db"
    found = [(one["thread"], one["kind"], one["at"], one["earlier"]) for one in said["repeats"]]
    assert found == [
        ("s-1", "already_given", 2, None),  # the profile is older than the conversation
        ("s-3", "asked_again", 3, 1),
        ("s-3", "complaint", 4, None),
    ]


def test_people_get_a_table(folder: Path) -> None:
    ran = run("repeats", "sqlite:///agents.db", cwd=folder)
    assert ran.returncode == 0
    assert "Which colour do you prefer?" in ran.stdout
    assert "profile.email" in ran.stdout
    assert ran.stdout.endswith("3 repeats in 3 threads\n")


def test_one_user_or_one_thread_can_be_asked_for(folder: Path) -> None:
    assert asked("--user", "u-2", cwd=folder)["repeats"] == []
    assert asked("--user", "u-1", cwd=folder)["threads"] == 2
    assert {one["thread"] for one in asked("--thread", "s-3", cwd=folder)["repeats"]} == {"s-3"}
    assert asked("--thread", "s", cwd=folder)["threads"] == 0
    assert asked("--namespace", "other", cwd=folder)["threads"] == 0


def test_pages_follow_each_other_without_gap_or_overlap(folder: Path) -> None:
    found: list[Any] = []
    after: tuple[str, ...] = ()
    pages = 0
    while True:
        said = asked("--limit", "1", *after, cwd=folder)
        found += said["repeats"]
        pages += 1
        if said["after"] is None:
            break
        after = ("--after", said["after"])
    assert pages == 3
    assert found == asked(cwd=folder)["repeats"]
    shown = run("repeats", "sqlite:///agents.db", "--limit", "1", cwd=folder)
    assert "more with --after s-1" in shown.stdout


def test_only_the_last_messages_are_read_if_so_wished(folder: Path) -> None:
    (only,) = asked("--thread", "s-3", "--last", "1", cwd=folder)["repeats"]
    assert (only["kind"], only["at"]) == ("complaint", 4)


@pytest.mark.verify
def test_local_embeddings_can_be_used(folder: Path) -> None:
    assert len(asked("--semantic", cwd=folder)["repeats"]) >= 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("repaets", "sqlite:///agents.db"), "there is no section 'repaets'"),
        (("repeats", "sqlite:///agents.db", "--limit", "0"), "--limit must be at least 1"),
        (("repeats", "sqlite:///agents.db", "--last", "-1"), "--last must be at least 1"),
        (("repeats",), "STATEWARD_URL"),
        ((), "STATEWARD_URL"),
        (("repeats", "sqlite:///agents.db", "--user", ""), "a user"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], words: str, folder: Path) -> None:
    ran = run(*arguments, cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert words in ran.stderr


def test_a_store_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    ran = run("repeats", "sqlite:///agnets.db", cwd=tmp_path)
    assert ran.returncode == 1
    assert "there is no store" in ran.stderr
    assert list(tmp_path.iterdir()) == []
