"""What operators did by hand is in the operations log, and what they looked at is not."""

from __future__ import annotations

import getpass
import json
import socket
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from stateward import cli, sync
from stateward.errors import EffectUnknown
from stateward.kinds import LOCK, OPERATIONS
from stateward.ops import Acquire, Commit, Replace

HELLO = {"role": "user", "content": "my number is 555 0199"}


class Command:
    """The commands on one store."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self._capsys = url, capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        code = cli.main([*words[:2], self.url, *words[2:]])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def told(self, *words: str) -> Any:
        code, out, err = self.run(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    def log(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.told("operations", "list", "--last", "1000")["rows"]
        return rows


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    command = Command(f"sqlite:///{tmp_path}/agents.db", capsys)
    with sync.open(command.url, heartbeat=None) as store:
        store.user("u-1").put({"name": "Noor"})
        for id in ("s-1", "s-2"):
            store.thread(id, "u-1").append(HELLO)
    return command


@pytest.fixture
def store(command: Command) -> Any:
    with sync.open(command.url, heartbeat=None) as store:
        yield store


def test_every_change_by_hand_is_in_the_log_and_nothing_of_what_it_was_about(
    store: sync.Store, command: Command, tmp_path: Path
) -> None:
    with store.workflow("w-1", kind="refund", user="u-1") as work:
        work.step("fetch", str, 9)
        work.wait("approval", timeout=3600)
    with pytest.raises(ZeroDivisionError):
        store.once("fail", divmod, 1, 0)
    with pytest.raises(EffectUnknown):
        store.thread("s-1").effect("c-1", _cut_off)
    (effect,) = [each.id for each in store.effects()]
    secret = "555 0199"
    scope = store.sections["workflows"]
    held = (Acquire("nonce", 600.0, "replica-1"),)
    scope.execute([Commit(scope.entity(LOCK, "inventory"), "op", held)])
    changes = {
        ("workflow", "signal", "w-1", "approval", "--value", f'"{secret}"'): "workflow/w-1",
        ("workflow", "cancel", "w-1", "--reason", secret): "workflow/w-1",
        ("workflow", "retry", "w-1"): "workflow/w-1",
        ("workflow", "fork", "w-1", "--at", "fetch#1", "--to", "w-2"): "workflow/w-1",
        ("task", "retry", "fail"): "task/fail",
        ("task", "cancel", "fail", "--reason", secret): "task/fail",
        ("effect", "resolve", effect, "--done", f'"{secret}"'): f"effect/{effect}",
        ("lock", "break", "inventory"): "lock/inventory",
        ("thread", "delete", "s-2"): "thread/s-2",
        ("user", "erase", "u-1"): f"user/sha256:{sha256(b'u-1').hexdigest()}",
    }
    who = f"{getpass.getuser()}@{socket.gethostname()}"
    for words, target in changes.items():
        before = len(command.log())
        assert command.run(*words, "--dry-run")[0] == 0
        assert len(command.log()) == before
        assert command.run(*words, "--yes")[0] == 0, words
        begun, ended = command.log()[before:]
        assert (begun["outcome"], ended["outcome"]) == ("intended", "done")
        assert ended["of"] == begun["number"]
        for each in (begun, ended):
            assert (each["who"], each["what"]) == (who, " ".join(words[:2]))
            assert each["target"] == target
    file = str(tmp_path / "u-1.jsonl")
    assert command.run("user", "export", "u-1", file, "--by", "ann")[0] == 0
    begun, ended = command.log()[-2:]
    assert (begun["who"], ended["what"], ended["outcome"]) == (who, "user export", "done")
    claimed = command.told("operations", "list", "--last", "2", "--claims")["rows"]
    assert {each["who"] for each in claimed} == {f"{who} (says: ann)"}
    assert secret not in json.dumps(command.log())
    assert "u-1" not in json.dumps(command.log())
    assert len(command.told("operations", "list", "--target", "user/u-1")["rows"]) == 4
    check = command.told("operations", "verify")
    assert (check["ok"], check["unended"]) == (True, [])


def _cut_off() -> None:
    raise TimeoutError("no answer")


def test_what_is_refused_is_in_the_log_as_failed_and_looking_is_not(
    store: sync.Store, command: Command
) -> None:
    for words in (("thread", "show", "s-1"), ("user", "show", "u-1"), ("thread", "list")):
        assert command.run(*words)[0] == 0
    assert command.log() == []
    assert "no such operations" in command.run("operations", "list")[1]
    store.once("charge", str, 9)
    assert command.run("task", "retry", "charge", "--yes")[0] == 1
    begun, ended = command.log()
    assert (begun["outcome"], ended["outcome"]) == ("intended", "failed")
    assert command.run("thread", "delete", "nosuch", "--yes")[0] == 2
    assert len(command.log()) == 2


def test_the_log_is_shown_in_pages_exported_and_trimmed(
    store: sync.Store, command: Command, tmp_path: Path
) -> None:
    for n in range(5):
        store.operations.record("ann", "thread show", "thread", f"s-{n}")
    page = command.told("operations", "list", "--last", "2")
    assert ([row["number"] for row in page["rows"]], page["before"]) == ([4, 5], 4)
    page = command.told("operations", "list", "--last", "3", "--before", "4")
    assert ([row["number"] for row in page["rows"]], page["before"]) == ([1, 2, 3], None)
    out = command.run("operations", "list", "--last", "2")[1]
    assert "thread/s-4" in out
    assert "older entries: --before 4" in out
    path = tmp_path / "log.jsonl"
    assert command.told("operations", "export", str(path))["entries"] == 5
    head, *lines = map(json.loads, path.read_text().splitlines())
    assert head == {"stateward_operations": 1, "namespace": "default"}
    previous = ""
    for line in lines:  # as anybody can check it without this library
        assert line["entry"]["previous"] == previous
        previous = line.pop("hash")
        text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert sha256(text.encode()).hexdigest() == previous
    assert command.run("operations", "export")[1] == path.read_text()
    assert "name a FILE" in command.run("operations", "export", "--json")[2]
    trim = ("operations", "trim", "--days", "0.0000001")
    assert command.told(*trim, "--dry-run")["old"] == 5
    assert "pass --yes" in command.run(*trim)[2]
    assert command.told(*trim, "--yes")["trimmed"] == 5
    check = command.told("operations", "verify", "--head", f"5:{previous}")
    assert (check["ok"], check["base"], check["entries"]) == (True, 5, 2)
    assert command.run("operations", "trim", "--days", "0", "--yes")[0] == 2


def test_tampering_is_told_and_the_exit_code_is_1(store: sync.Store, command: Command) -> None:
    for n in range(3):
        store.operations.record("ann", "thread show", "thread", f"s-{n}")
    code, out, _ = command.run("operations", "verify")
    assert code == 0
    assert "3 entries, no sign of tampering" in out
    head = out.split()[-1]
    assert command.run("operations", "verify", "--head", head)[0] == 0
    scope = store.sections["workflows"]
    entity = scope.entity(OPERATIONS, OPERATIONS)
    scope.execute([Commit(entity, "op", (Replace({2: None}),))])
    code, out, err = command.run("operations", "verify")
    assert code == 1
    assert "entry 2 is missing" in err
    code, out, _ = command.run("operations", "verify", "--head", head, "--json")
    assert (code, json.loads(out)["ok"]) == (1, False)
    assert "a head is NUMBER:HASH" in command.run("operations", "verify", "--head", "x")[2]
    store.operations.record("ann", "thread show", "thread", "s-4")
    assert command.run("operations", "list", "--target", "s-4")[0] == 2
    with pytest.raises(KeyboardInterrupt), store.operations.recording("ann", "x", "task", "t"):
        raise KeyboardInterrupt
    assert "so the outcome is unknown: 5" in command.run("operations", "verify")[1]


def test_a_restore_brings_the_log_and_keeps_one_that_is_there(
    store: sync.Store, command: Command, tmp_path: Path
) -> None:
    store.operations.record("ann", "thread show", "thread", "s-1")
    backup, other = str(tmp_path / "agents.backup"), f"sqlite:///{tmp_path}/other.db"
    assert cli.main(["backup", command.url, backup]) == 0
    with sync.open(other, heartbeat=None) as there:
        there.within("kept").operations.record("bob", "thread delete", "thread", "s-9")
    restore = ["restore", backup, other, "--by", "eve"]
    assert cli.main(restore) == cli.main([*restore, "--namespace", "kept"]) == 0
    with sync.open(other, heartbeat=None) as there:
        for namespace, first in (("default", "ann"), ("kept", "bob")):
            log = there.within(namespace).operations
            assert log.verify().ok
            entry, last = log.entries()
            assert (entry.who, last.who.partition("@")[2]) == (
                first,
                f"{socket.gethostname()} (says: eve)",
            )
            assert (last.what, last.target) == ("restore", f"namespace/{namespace}")
