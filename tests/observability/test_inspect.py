"""`stateward inspect`, as people and scripts run it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

from stateward import sync
from stateward.cli import main
from stateward.observe.exporters.prometheus import serve
from stateward.ops import Acquire, Commit

EVIL = "s-evil\x1b[31m\nforged line"


class Ran(NamedTuple):
    """What a command said, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, cwd: Path, url: str | None = "sqlite:///agents.db") -> Ran:
    """The command in this process: starting one for each takes longer than all of them."""
    said, complained = io.StringIO(), io.StringIO()
    environment = {} if url is None else {"STATEWARD_URL": url}
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, environment),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(complained),
    ):
        code = main(_command(*map(str, arguments)))
    return Ran(code, said.getvalue(), complained.getvalue())


LISTED = ("threads", "users", "workflows", "tasks", "locks")  # by commands of their own


def _command(*words: str) -> list[str]:
    """`inspect`, or the list of a kind of thing."""
    which = next((word for word in words if word in LISTED), None)
    if which is None:
        return ["inspect", *words]
    return [which.removesuffix("s"), "list", *(word for word in words if word != which)]


def shown(*arguments: object, cwd: Path) -> str:
    ran = run(*arguments, cwd=cwd)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def told(*arguments: object, cwd: Path) -> Any:
    return json.loads(shown(*arguments, "--json", cwd=cwd))


def divide(by: int) -> float:
    return 1 / by


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with some of everything."""
    path = tmp_path_factory.mktemp("inspected")
    with sync.open(f"sqlite:///{path}/agents.db") as store:
        for n in range(7):
            thread = store.thread(f"s-{n}", user=f"u-{n % 2}")
            for turn in range(3):
                question = {"role": "user", "content": f"question {turn}"}
                thread.append(question, {"role": "assistant", "content": "answer"}, key=f"t{turn}")
        thread.vars.put({"topic": "steak"})
        store.thread(EVIL).append({"role": "user", "content": "\x1b]0;owned\x07"})
        store.user("u-1").put({"name": "Noor"})
        store.user("u-1").put({"beta": True}, name="flags")
        with store.workflow("refund-1", kind="refund", user="u-1", input={"order": 991}) as work:
            work.step("fetch", str, 991)
        with store.workflow("refund-2", kind="refund") as work:
            work.wait("approval", timeout=3600)
        store.once("charge-1", str, 3)
        with pytest.raises(ZeroDivisionError):
            store.once("charge-2", divide, 0)
        with store.lock("inventory"):
            pass
        leader = store._scope.entity("leader", "scheduler")
        store._scope.execute([Commit(leader, "op-1", (Acquire("nonce", 600.0, "replica-7"),))])
    return path


def test_without_a_section_it_shows_what_is_stored_by_kind(folder: Path) -> None:
    said = told(cwd=folder)
    assert said["section"] == "storage"
    assert said["about"]["engine"].startswith("sqlite ")
    assert said["about"]["bytes"] > 10_000
    kinds = {row["kind"]: (row["entities"], row["entries"]) for row in said["rows"]}
    assert kinds == {
        "thread": (8, 43),
        "user": (1, 2),  # what its documents were
        "workflow": (2, 2),
        "task": (2, 0),
        "lock": (1, 0),
        "leader": (1, 0),
    }
    sizes = {row["kind"]: row["bytes_estimated"] for row in said["rows"]}
    assert sizes["thread"] > sizes["user"] > 0
    assert "thread" in shown(cwd=folder)


def test_threads_are_a_table_with_whose_they_are_and_how_long(folder: Path) -> None:
    lines = shown("threads", "--user", "u-1", cwd=folder).splitlines()
    assert lines[0].split()[:4] == ["id", "user", "messages", "version"]
    assert [line.split()[:4] for line in lines[1:]] == [
        [f"s-{n}", "u-1", "6", "6"] for n in (1, 3, 5)
    ]


def test_pages_follow_each_other_without_gap_or_overlap(folder: Path) -> None:
    seen: list[str] = []
    after: list[str] = []
    pages = 0
    while True:
        said = told("threads", "--limit", 3, *after, cwd=folder)
        seen += [row["id"] for row in said["rows"]]
        pages += 1
        if said["next"] is None:
            break
        after = ["--after", said["next"]]
    assert pages == 3
    assert sorted(seen) == sorted([EVIL, *(f"s-{n}" for n in range(7))])
    assert "next page: --after" in shown("threads", "--limit", 3, cwd=folder)


def test_locks_and_leaders_come_in_pages_too(folder: Path) -> None:
    whole = told("locks", cwd=folder)["rows"]
    assert [(row["what"], row["id"], row["holder"]) for row in whole] == [
        ("lock", "inventory", None),
        ("leader", "scheduler", "replica-7"),
    ]
    first = told("locks", "--limit", 1, cwd=folder)
    rest = told("locks", "--limit", 1, "--after", first["next"], cwd=folder)
    assert first["rows"] + rest["rows"] == whole
    assert rest["next"] is None


def test_users_workflows_and_tasks_have_tables_of_their_own(folder: Path) -> None:
    (user,) = told("users", cwd=folder)["rows"]
    assert (user["id"], user["documents"]) == ("u-1", ["default", "flags"])
    done, waiting = told("workflows", cwd=folder)["rows"]
    assert (done["id"], done["kind"], done["status"], done["steps"]) == (
        "refund-1", "refund", "completed", 1,
    )  # fmt: skip
    assert (waiting["id"], waiting["status"]) == ("refund-2", "active")
    (active,) = told("workflows", "--status", "active", cwd=folder)["rows"]
    assert active["id"] == "refund-2"
    paid, failed = told("tasks", cwd=folder)["rows"]
    assert (paid["id"], paid["status"], paid["failures"]) == ("charge-1", "completed", 0)
    assert (failed["status"], failed["failures"]) == ("failed", 1)
    assert failed["error"] == "ZeroDivisionError: division by zero"
    assert "ZeroDivisionError" in shown("tasks", cwd=folder)


def test_replicas_are_shown_with_whether_they_live_and_what_they_count(folder: Path) -> None:
    url = f"sqlite:///{folder / 'agents.db'}"
    with sync.open(url, namespace="beating", heartbeat=0.1) as store:
        store.thread("t").append({"n": 1})
        end = time.monotonic() + 30
        while not any(info.counts.writes for info in store.replicas()):
            assert time.monotonic() < end
            time.sleep(0.01)
        (row,) = told("replicas", "--namespace", "beating", cwd=folder)["rows"]
        assert (row["pid"], row["writes"], row["failures"]) == (os.getpid(), 1, 0)
        assert row["status"] in ("alive", "gone")  # on a machine that stood still
    (row,) = told("replicas", "--namespace", "beating", cwd=folder)["rows"]
    assert row["status"] == "closed"
    text = shown("replicas", "--namespace", "beating", cwd=folder)
    assert "last beat" in text
    assert row["id"] in text
    assert "no replicas" in shown("replicas", "--namespace", "nobody", cwd=folder)


def test_one_conversation_is_shown_in_full_with_versions_and_times(folder: Path) -> None:
    said = told("thread", "s-6", cwd=folder)
    assert [row["version"] for row in said["rows"]] == [1, 2, 3, 4, 5, 6]
    assert said["rows"][0]["entry"] == {"role": "user", "content": "question 0"}
    assert said["rows"][0]["stamp"] == said["rows"][1]["stamp"] != said["rows"][2]["stamp"]
    assert [row["key"] for row in said["rows"]] == [None, "t0", None, "t1", None, "t2"]
    assert said["about"]["version"] == 6
    assert said["about"]["documents"]["vars"]["value"] == {"topic": "steak"}
    text = shown("thread", "s-6", cwd=folder)
    assert "question 2" in text
    assert "steak" in text
    later = told("thread", "s-6", "--limit", 4, "--after", 4, cwd=folder)
    assert [row["version"] for row in later["rows"]] == [5, 6]
    assert told("thread", "s-6", "--limit", 4, cwd=folder)["next"] == "4"


@pytest.mark.parametrize(
    ("words", "part"),
    [(("user", "u-1"), "Noor"), (("workflow", "refund-1"), "991"), (("task", "charge-1"), "3")],
)
def test_other_things_are_shown_in_full_as_well(
    words: tuple[str, str], part: str, folder: Path
) -> None:
    assert part in shown(*words, cwd=folder)


def test_what_is_stored_cannot_harm_the_terminal(folder: Path) -> None:
    for words in (("threads",), ("thread", EVIL)):
        text = shown(*words, cwd=folder)
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\nforged" not in text


def test_the_url_may_stand_before_or_after_the_section(folder: Path) -> None:
    before = run("sqlite:///agents.db", "thread", "s-1", cwd=folder, url=None)
    after = run("thread", "s-1", "sqlite:///agents.db", cwd=folder, url=None)
    assert before.stdout == after.stdout == shown("thread", "s-1", cwd=folder)


def test_inspecting_changes_nothing(folder: Path) -> None:
    before = told(cwd=folder)["rows"]
    for section in ("threads", "users", "workflows", "tasks", "locks", "storage"):
        shown(section, cwd=folder)
    assert told(cwd=folder)["rows"] == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nosuch",), "there is no section 'nosuch'"),
        (("thread",), "name one: stateward inspect URL thread ID"),
        (("thread", "s-none"), "there is no thread 's-none'"),
        (("thread", "s-1", "--after", "x"), "--after must be the version"),
        (("locks", "--after", "x"), "--after must be what the previous page printed"),
        (("threads", "--limit", "0"), "--limit must be at least 1"),
        (("threads", "--limit", "5000"), "--limit must be at least 1 and at most 1000"),
        (("storage", "--limit", "5000"), "--limit must be at least 1 and at most 1000"),
        (("storage", "--watch"), "leave the section out"),
        (("--watch", "--every", "0"), "--every must be from"),
        (("--watch", "--times", "1", "--scrape", "nowhere"), "--scrape must be the address"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], words: str, folder: Path) -> None:
    ran = run(*arguments, cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert words in ran.stderr


@pytest.mark.parametrize("what", LISTED)
def test_a_list_is_said_to_have_a_command_of_its_own(what: str, folder: Path) -> None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(["inspect", f"sqlite:///{folder}/agents.db", what]) == 2
    assert f"stateward {what.removesuffix('s')} list URL" in said.getvalue()


def test_a_store_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    ran = run("threads", cwd=tmp_path)
    assert ran.returncode == 1
    assert "there is no store" in ran.stderr
    assert list(tmp_path.iterdir()) == []


# --- live -------------------------------------------------------------------------------


def test_watching_shows_the_store_again_and_again(folder: Path) -> None:
    text = shown("--watch", "--times", 2, "--every", 0.1, cwd=folder)
    assert text.count("sqlite:///agents.db: answers") == 2
    assert "p95 ms" in text
    assert "capacity_bytes" in text
    assert "\x1b" not in text  # no terminal here


def test_watching_as_json_gives_a_line_a_look(folder: Path) -> None:
    lines = shown("--watch", "--times", 3, "--every", 0.1, "--json", cwd=folder).splitlines()
    looks = [json.loads(line) for line in lines]
    assert len(looks) == 3
    counted = []
    for look in looks:
        families = {family["name"]: family for family in look["metrics"]["families"]}
        counted.append(families["agent_state_lookup_success_total"]["samples"][0]["value"])
        assert look["problem"] is None
    assert counted == sorted(counted)
    assert counted[0] > 0


def test_watching_shows_the_metrics_of_running_agents(folder: Path) -> None:
    with sync.open("memory://") as store, serve(store, port=0) as endpoint:
        for _ in range(12):
            store.thread("s-1").load()
        arguments = ("--watch", "--times", 1, "--scrape", endpoint.url)
        said = told(*arguments, cwd=folder)["agents"][endpoint.url]
        assert (said["lookups"], said["failed"], said["suppressed"]) == (12, 0, 0)
        assert 0 < said["p50 ms"] <= said["p95 ms"] <= said["p99 ms"]
        assert endpoint.url in shown(*arguments, cwd=folder)
    gone = told(*arguments, cwd=folder)["agents"][endpoint.url]
    assert "refused" in gone["problem"]
