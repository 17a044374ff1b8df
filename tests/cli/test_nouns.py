"""What operators do to a thread, a user, a lock, a workflow, and what they are shown first."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from inspect import isawaitable
from pathlib import Path
from typing import Any

import pytest
from servers.postgres import PostgresServer
from servers.redis import RedisServer, running

from stateward import cli, sync
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.errors import EffectUnknown, WorkflowFinished
from stateward.kinds import LOCK
from stateward.ops import Acquire, Commit, Fence, Fenced, Put, Release
from stateward.world import World


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("valkey"), "valkey") as server:
        yield server


@pytest.fixture(params=["sqlite", "valkey", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that nobody else uses, but for the namespaces of other tests."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/agents.db"
    server = request.getfixturevalue(request.param)
    if request.param == "valkey":
        return str(server.url)
    name = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    return str(server.url_of(f"nouns_{name}"))


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    return f"of {request.node.name}"


class Terminal(io.StringIO):
    """Somebody who answers when asked, and perhaps does something first."""

    def __init__(self, answer: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self._answer, self._meanwhile = answer, meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self, size: int = -1, /) -> str:
        self._meanwhile()
        return f"{self._answer}\n"


class Command:
    """The commands on one store."""

    def __init__(
        self, url: str, namespace: str, capsys: pytest.CaptureFixture[str], patch: Any
    ) -> None:
        self._where = (url, "--namespace", namespace)
        self._capsys = capsys
        self._patch = patch

    def run(self, *words: str) -> tuple[int, str, str]:
        named = 2 if " ".join(words[:2]) in cli.COMMANDS else 1
        code = cli.main([*words[:named], self._where[0], *words[named:], *self._where[1:]])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def told(self, *words: str) -> Any:
        code, out, err = self.run(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    def refused(self, *words: str) -> str:
        code, out, err = self.run(*words)
        assert (code, out) == (2, "")
        return err

    def asked(self, terminal: Terminal) -> None:
        self._patch.setattr("sys.stdin", terminal)


@pytest.fixture
def command(
    url: str, namespace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Command(url, namespace, capsys, monkeypatch)


@pytest.fixture
def store(url: str, namespace: str) -> Iterator[sync.Store]:
    with sync.open(url, namespace=namespace, heartbeat=None) as store:
        yield store


# --- threads ----------------------------------------------------------------------------


def test_a_thread_is_deleted_after_a_question(store: sync.Store, command: Command) -> None:
    store.thread("s-1", "u-1").append({"role": "user", "content": "hello"})
    store.thread("s-2", "u-1").append({"role": "user", "content": "hello"})
    code, out, _ = command.run("thread", "delete", "s-1", "--dry-run")
    assert code == 0
    assert "would delete the thread 's-1' of the user 'u-1' with 1 message" in out
    assert "there is no terminal to ask on: pass --yes" in command.refused(
        "thread", "delete", "s-1"
    )
    command.asked(Terminal("n"))
    assert "nothing was done" in command.refused("thread", "delete", "s-1")
    assert store.thread("s-1").load().exists
    command.asked(Terminal("y"))
    code, out, err = command.run("thread", "delete", "s-1")
    assert "Delete the thread 's-1'" in err
    assert "the thread 's-1' is deleted" in out
    assert not store.thread("s-1").load().exists
    assert command.told("thread", "delete", "s-2", "--yes")["deleted"] is True
    assert "stateward thread list URL" in command.refused("thread", "delete", "s-1", "--yes")


def test_a_thread_is_exported_as_the_user_would_be(
    store: sync.Store, command: Command, tmp_path: Path
) -> None:
    thread = store.thread("s-1", "u-1")
    thread.append({"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"})
    thread.vars.put({"topic": "steak"})
    code, out, _ = command.run("thread", "export", "s-1")
    assert code == 0
    head, *lines = map(json.loads, out.splitlines())
    assert (head["stateward_export"], head["thread"]) == (1, "s-1")
    store.user("u-1").export(str(tmp_path / "user.jsonl"))
    _, *theirs = map(json.loads, (tmp_path / "user.jsonl").read_text().splitlines())
    assert lines == theirs
    said = command.told("thread", "export", "s-1", str(tmp_path / "one.jsonl"))
    assert (said["messages"], said["documents"]) == (2, 1)
    assert (tmp_path / "one.jsonl").read_text() == out
    assert "name a FILE" in command.refused("thread", "export", "s-1", "--json")


# --- users ------------------------------------------------------------------------------


def test_a_user_is_shown_exported_and_erased(
    store: sync.Store, command: Command, tmp_path: Path
) -> None:
    store.user("u-1").put({"name": "Noor"})
    store.thread("s-1", "u-1").append({"role": "user", "content": "hello"})
    _, out, _ = command.run("user", "show", "u-1")
    assert out.splitlines()[0] == "user u-1: 1 thread and their documents"
    assert '{"name": "Noor"}' in out
    assert command.told("user", "show", "u-1")["owns"] == {"thread": 1, "user": 1}
    wrote = command.told("user", "export", "u-1", str(tmp_path / "u-1.jsonl"))
    assert (wrote["entities"], wrote["messages"], wrote["documents"]) == (2, 1, 1)
    planned = command.told("user", "erase", "u-1", "--dry-run")
    assert (planned["owns"], planned["erased"]) == ({"thread": 1, "user": 1}, False)
    assert "pass --yes" in command.refused("user", "erase", "u-1")
    assert store.thread("s-1").load().exists
    erased = command.told("user", "erase", "u-1", "--yes")
    assert (erased["erased"], erased["removed"]) == (True, {"thread": 1, "user": 1})
    assert not store.thread("s-1").load().exists
    assert "stateward user list URL" in command.refused("user", "show", "u-1")


# --- locks ------------------------------------------------------------------------------


def test_a_lock_is_broken_and_its_holder_named(store: sync.Store, command: Command) -> None:
    with store.lock("inventory", ttl=600) as held:
        planned = command.told("lock", "break", "inventory", "--dry-run")
        assert (planned["holder"], planned["token"]) == (store._scope.world.name(), held.token)
        assert planned["broken"] is False
        assert "pass --yes" in command.refused("lock", "break", "inventory")
        code, out, _ = command.run("lock", "break", "inventory", "--yes")
        assert code == 0
        assert f"{planned['holder']} held it with token {held.token}" in out
        with store.lock("inventory", ttl=600, wait=0) as next_one:
            assert next_one.token > held.token
            entity = store._scope.entity(LOCK, "inventory")
            late = Commit(entity, "late", (Put("x", "{}"),), (Fence(held.token, held.nonce),))
            (outcome,) = store._scope.execute([late])
            assert isinstance(outcome, Fenced)
    assert "the lock 'inventory' is free" in command.refused("lock", "break", "inventory")
    assert "stateward lock list URL" in command.refused("lock", "break", "nosuch", "--yes")


def test_a_leader_is_broken_by_that_name(store: sync.Store, command: Command) -> None:
    with store.elect("scheduler", ttl=600) as held:
        assert "there is no lock" in command.refused("lock", "break", "scheduler", "--yes")
        broken = command.told("lock", "break", "scheduler", "--leader", "--yes")
        assert (broken["what"], broken["token"]) == ("leader", held.token)


def test_a_lock_that_has_another_holder_by_then_is_left_to_it(
    store: sync.Store, command: Command
) -> None:
    entity = store._scope.entity(LOCK, "inventory")

    def execute(op: str, *writes: Any) -> Any:
        return store._scope.execute([Commit(entity, op, writes)])[0]

    first = execute("1", Acquire("a", 600.0, "replica-1")).lease

    def hand_over() -> None:
        execute("2", Release(first.token, "a"))
        execute("3", Acquire("b", 600.0, "replica-2"))

    command.asked(Terminal("yes", hand_over))
    code, out, err = command.run("lock", "break", "inventory")
    assert (code, out) == (2, "")
    assert "replica-1 has held since" in err
    assert "now replica-2 holds it: check again" in err
    (row,) = command.told("lock", "list")["rows"]
    assert row["holder"] == "replica-2"


# --- workflows and tasks ----------------------------------------------------------------


def test_a_workflow_is_shown_and_told_what_it_waits_for(
    store: sync.Store, command: Command
) -> None:
    with store.workflow("w-1", kind="refund", user="u-1", input={"order": 9}) as work:
        work.step("fetch", str, 9)
        work.wait("approval", timeout=3600)
    said = command.told("workflow", "show", "w-1")
    assert (said["workflow"]["kind"], said["workflow"]["input"]) == ("refund", {"order": 9})
    assert [(row["what"], row["value"]) for row in said["records"]] == [
        ("step", "9"),
        ("begun", None),
    ]
    assert "refund" in command.run("workflow", "show", "w-1")[1]
    assert command.told("workflow", "list", "--kind", "refund")["rows"][0]["id"] == "w-1"
    assert command.told("workflow", "list", "--kind", "other")["rows"] == []
    signal = ("workflow", "signal", "w-1", "approval", "--value", '{"by": "Kim"}', "--key", "t-7")
    assert command.told(*signal, "--dry-run")["signalled"] is False
    assert "pass --yes" in command.refused(*signal)
    assert command.told(*signal, "--yes")["signalled"] is True
    assert command.told(*signal, "--yes")["duplicate"] is True
    with store.workflow("w-1") as work:
        work.step("fetch", str, 9)
        assert work.wait("approval", timeout=3600) == {"by": "Kim"}
    assert command.run(*signal, "--key", "t-8", "--yes")[0] == 1
    with pytest.raises(WorkflowFinished):
        store.workflow("w-1").signal("approval")
    bad = command.refused("workflow", "signal", "w-1", "approval", "--value", "yes", "--yes")
    assert "--value must be JSON" in bad
    assert "stateward workflow list URL" in command.refused("workflow", "show", "nosuch")


def test_a_workflow_is_cancelled_retried_and_forked(store: sync.Store, command: Command) -> None:
    with store.workflow("w-1", kind="refund") as work:
        work.step("fetch", str, 9)
        work.wait("approval", timeout=3600, ask={"refund": 9}, for_="finance")
    (row,) = command.told("workflow", "list")["rows"]
    assert (row["waits_for"], row["status"]) == ("signal approval", "active")
    (asked,) = command.told("waiting", "--for", "finance")["rows"]
    assert (asked["workflow"], asked["ask"]) == ("w-1", {"refund": 9})
    assert "finance" in command.run("waiting")[1]
    assert command.told("waiting", "--for", "legal")["rows"] == []
    cancel = ("workflow", "cancel", "w-1", "--reason", "wrong order")
    assert command.told(*cancel, "--dry-run")["cancelled"] is False
    assert "pass --yes" in command.refused(*cancel)
    assert "the workflow 'w-1' is cancelled" in command.run(*cancel, "--yes")[1]
    assert "nothing to do" in command.run(*cancel, "--yes")[1]
    shown = command.told("workflow", "show", "w-1")["workflow"]
    assert (shown["status"], "wrong order" in shown["error"]) == ("cancelled", True)
    assert command.told("waiting")["rows"] == []
    assert "pass --yes" in command.refused("workflow", "retry", "w-1")
    assert command.told("workflow", "retry", "w-1", "--yes")["retried"] is True
    assert command.told("workflow", "show", "w-1")["workflow"]["status"] == "active"
    fork = ("workflow", "fork", "w-1", "--at", "fetch#1", "--to", "w-2")
    assert command.told(*fork, "--dry-run")["forked"] is False
    assert command.told(*fork, "--yes")["forked"] is True
    assert command.run(*fork, "--yes")[0] == 1
    assert command.told("workflow", "show", "w-2")["workflow"]["kind"] == "refund"


def test_a_task_is_shown_with_its_call_and_what_came_of_it(
    store: sync.Store, command: Command
) -> None:
    store.once("charge", str, 9)
    with pytest.raises(ZeroDivisionError):
        store.once("fail", divmod, 1, 0)
    done = command.told("task", "show", "charge")["task"]
    assert (done["function"], done["status"], done["result"]) == ("str", "completed", "9")
    failed = command.told("task", "show", "fail")["task"]
    assert (failed["status"], failed["failures"], failed["args"]) == ("failed", 1, [1, 0])
    assert failed["error"].startswith("ZeroDivisionError")
    assert "ZeroDivisionError" in command.run("task", "show", "fail")[1]
    assert [row["id"] for row in command.told("task", "list", "--status", "failed")["rows"]] == [
        "fail"
    ]
    assert "stateward task list URL" in command.refused("task", "show", "nosuch")


def test_a_task_is_retried_and_cancelled(store: sync.Store, command: Command) -> None:
    with pytest.raises(ZeroDivisionError):
        store.once("fail", divmod, 1, 0)
    assert command.told("task", "retry", "fail", "--dry-run")["retried"] is False
    assert "pass --yes" in command.refused("task", "retry", "fail")
    again = command.told("task", "retry", "fail", "--yes")
    assert (again["retried"], again["before"], again["status"]) == (True, "failed", "pending")
    assert command.run("task", "retry", "fail", "--yes")[0] == 1  # it is pending
    cancel = ("task", "cancel", "fail", "--reason", "paid in cash")
    assert "pass --yes" in command.refused(*cancel)
    assert "the task 'fail' is cancelled" in command.run(*cancel, "--yes")[1]
    assert "nothing to do" in command.run(*cancel, "--yes")[1]
    assert "paid in cash" in command.told("task", "show", "fail")["task"]["error"]
    assert "stateward task list URL" in command.refused("task", "cancel", "nosuch", "--yes")


def test_an_effect_that_nobody_knows_of_is_shown_and_decided(
    store: sync.Store, command: Command
) -> None:
    def charge(_: int) -> str:
        raise TimeoutError

    for call in ("c-1", "c-2"):
        with pytest.raises(EffectUnknown):
            store.thread("t", "u-1").effect(call, charge, 9)
    first, second = command.told("effect", "list", "--status", "unknown")["effects"]
    assert (first["call"], first["user"]) == ("c-1", "u-1")
    assert "charge" in command.run("effect", "show", first["id"])[1]
    resolve = ("effect", "resolve", first["id"], "--done", '{"id": "ch_42"}')
    assert command.told(*resolve, "--dry-run")["status"] == "unknown"
    assert "pass --yes" in command.refused(*resolve)
    command.asked(Terminal("n"))
    assert "nothing was done" in command.refused(*resolve)
    assert command.told(*resolve, "--yes", "--by", "Kim")["status"] == "done"
    assert store.thread("t", "u-1").effect("c-1", charge, 9) == {"id": "ch_42"}
    command.asked(Terminal("y"))
    code, out, err = command.run("effect", "resolve", second["id"], "--failed", "declined")
    assert code == 0
    assert "Decide that" in err
    assert "declined" in out
    assert "stateward effect list URL" in command.refused("effect", "show", "thread/t/nosuch")


# --- namespaces -------------------------------------------------------------------------

NAMES = ["a", "b/c", "z\x00:{}", "ünï"]  # by their bytes


def test_namespaces_are_shown_with_what_they_hold(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with sync.open(url, namespace="opened", heartbeat=None) as store:
        for name in NAMES:
            store.within(name).thread("s").append({"role": "user", "content": "hello"})
        store.within("a").user("u").put({})
        store.within("emptied").user("u").put({})
        store.within("emptied").user("u").erase()

    def told(*more: str) -> Any:
        assert cli.main(["namespaces", url, *more, "--json"]) == 0
        page = json.loads(capsys.readouterr().out)
        return {row["namespace"]: row["holds"] for row in page["rows"]}, page["next"]

    held, following = told("--limit", "1000")
    assert following is None
    assert {name: held[name] for name in NAMES} == {
        name: {"thread": 1} | ({"user": 1} if name == "a" else {}) for name in NAMES
    }
    assert "emptied" not in held
    assert list(held) == sorted(held, key=str.encode)
    pages: list[str] = []
    after: list[str] = []
    while True:
        page, following = told("--limit", "2", *after)
        pages += page
        if following is None:
            break
        after = ["--after", following]
    assert pages == list(held)
    assert cli.main(["namespaces", url]) == 0
    text = capsys.readouterr().out
    assert "\x00" not in text
    assert text.splitlines()[0].split() == [
        "namespace", "threads", "users", "workflows", "tasks", "others",
    ]  # fmt: skip


@pytest.mark.parametrize("made", [create_engine, create_sync_engine])
def test_engines_of_either_colour_name_their_namespaces(url: str, made: Callable[..., Any]) -> None:
    async def asked(where: str) -> list[str]:
        engine = made(parse(where), World())
        calls = (engine.open, engine.namespaces, engine.close)
        answers = [answer if not isawaitable(answer := call()) else await answer for call in calls]
        return list(answers[1])

    memory = f"memory://named-{made.__name__}"
    for where in (url, memory):
        with sync.open(where, namespace="z", heartbeat=None) as store:
            for name in reversed(NAMES):
                store.within(name).user("u").put({})
            found = asyncio.run(asked(where))
        assert [name for name in found if name in NAMES] == NAMES


# --- nouns ------------------------------------------------------------------------------


@pytest.mark.parametrize("noun", cli.NOUNS)
def test_a_noun_alone_says_what_can_be_done(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([noun]) == 0
    shown = capsys.readouterr().out
    verbs = [name for name in cli.COMMANDS if name.startswith(f"{noun} ")]
    assert all(f"  {name} " in shown for name in verbs)
    assert cli.main([noun, "shwo"]) == 2
    assert f"{noun} needs a subcommand" in capsys.readouterr().err
