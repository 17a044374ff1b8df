"""A restore writes into an empty namespace, can be interrupted, and leaves the erased out."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

import stateward
from backup.conftest import PERSISTENT, NewStore
from backup.states import everything, fill
from stateward import sync
from stateward.engine import SyncEngine
from stateward.engines.registry import create_sync_engine, parse
from stateward.kinds import ERASED, RESTORING
from stateward.ops import Commit, Entity, Op, Outcome, Put, Restore
from stateward.transfer import target
from stateward.transfer.backup import backup, copy, restore, verify
from stateward.transfer.erasures import Erasures, marker, marks_of
from stateward.transfer.format import BackupFile
from stateward.transfer.lines import Content
from stateward.transfer.target import ENTRIES, RestoreTarget
from stateward.world import World

RESTORER = Path(__file__).parent.parent / "roles" / "restorer.py"


@pytest.fixture(autouse=True)
def _short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "LEASE", 0.3)


@pytest.fixture
def made(new_store: NewStore, tmp_path: Path) -> tuple[str, str]:
    """A store, and a backup of it with several parts."""
    url = new_store("sqlite")
    fill(url)
    with sync.open(url) as store:
        for number in range(40):
            store.thread(f"t-{number}").append(*({"t": f"{number} {n}" * 60} for n in range(40)))
    path = str(tmp_path / "made.backup")
    backup(url, path)
    return url, path


# --- into what --------------------------------------------------------------------------


def test_a_namespace_in_use_is_refused(made: tuple[str, str], new_store: NewStore) -> None:
    into = new_store("sqlite")
    with sync.open(into) as store:
        store.shared("mine").put({"n": 1})
    before = everything(into)
    with pytest.raises(stateward.StateConflictError, match="not empty"):
        restore(made[1], into)
    with pytest.raises(stateward.StateConflictError, match="not empty"):
        copy(made[0], into)
    assert everything(into) == before
    restore(made[1], into, namespace="other")
    assert everything(into, "other") == everything(made[0])


def test_heartbeats_are_left_out_and_in_nobodys_way(
    made: tuple[str, str], new_store: NewStore, tmp_path: Path
) -> None:
    into = new_store("sqlite")
    with sync.open(into, heartbeat=0.1) as store:
        end = time.monotonic() + 30
        while not store.replicas():
            assert time.monotonic() < end
            time.sleep(0.01)
        restore(made[1], into)
        assert store.replicas()
    assert backup(into, str(tmp_path / "b.backup")).entities == verify(made[1]).entities
    assert copy(into, new_store("sqlite")).entities == verify(made[1]).entities


def test_what_was_deleted_before_does_not_count(made: tuple[str, str], new_store: NewStore) -> None:
    into = new_store("sqlite")
    with sync.open(into) as store:
        store.thread("s-9").append({"n": 1})
        store.thread("s-9").delete()
    restore(made[1], into)
    with sync.open(into) as store:
        assert store.thread("s-9", user="u-1").load().version == 18


def test_a_copy_onto_itself_is_refused(made: tuple[str, str]) -> None:
    with pytest.raises(stateward.InvalidInput, match="the same"):
        copy(made[0], made[0])


# --- interrupted ------------------------------------------------------------------------


@contextmanager
def restorer(path: str, url: str, lease: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-W", "error", str(RESTORER), path, url, str(lease)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=30)


def steps(child: subprocess.Popen[str], count: int) -> None:
    """Let it go on so many times; then it waits."""
    assert child.stdout is not None
    assert child.stdin is not None
    for number in range(count):
        assert child.stdout.readline().strip().isdigit()
        if number < count - 1:
            child.stdin.write("\n")
            child.stdin.flush()


@pytest.mark.parametrize("engine", PERSISTENT)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_restore_that_was_killed_is_run_again(
    engine: str, count: int, made: tuple[str, str], new_store: NewStore
) -> None:
    source, path = made
    into = new_store(engine)
    with restorer(path, into, 0.3) as child:
        steps(child, count)
        child.kill()
    with pytest.raises(stateward.StateConflictError, match="not finished"):
        everything(into)
    with pytest.raises(stateward.StateConflictError, match="not finished"):
        backup(into, path + "2")
    assert restore(path, into).resumed
    assert everything(into) == everything(source)
    with pytest.raises(stateward.StateConflictError, match="not empty"):
        restore(path, into)


def test_another_backup_is_refused_until_the_first_is_finished(
    made: tuple[str, str], new_store: NewStore, tmp_path: Path
) -> None:
    into = new_store("sqlite")
    with restorer(made[1], into, 0.3) as child:
        steps(child, 1)
    before = everything(made[0])
    with sync.open(made[0]) as store:  # else both would be the same, byte for byte
        store.thread("t-0").append({"n": 1})
    other = str(tmp_path / "other.backup")
    backup(made[0], other)
    with pytest.raises(stateward.StateConflictError, match=r"made\.backup is being restored"):
        restore(other, into)
    with pytest.raises(stateward.StateConflictError, match="finish that first"):
        copy(made[0], into)
    moved = Path(made[1]).rename(tmp_path / "moved.backup")
    assert restore(str(moved), into).resumed, "the same, whatever it is called"
    assert everything(into) == before


def test_two_processes_do_not_restore_at_once(made: tuple[str, str], new_store: NewStore) -> None:
    into = new_store("sqlite")
    with restorer(made[1], into, 30.0) as child:
        steps(child, 1)
        with pytest.raises(stateward.StateConflictError, match="another process"):
            restore(made[1], into)


def test_one_that_was_frozen_does_not_go_on(made: tuple[str, str], new_store: NewStore) -> None:
    """It would overwrite what agents have written since."""
    into = new_store("sqlite")
    with restorer(made[1], into, 0.2) as child:
        steps(child, 1)
        restore(made[1], into)
        with sync.open(into) as store:
            store.thread("t-39").append({"new": True})
        said, errors = child.communicate("\n" * 100, timeout=30)
        assert child.returncode != 0
        assert "done" not in said
        assert "StateConflictError" in errors
    with sync.open(into) as store:
        assert store.thread("t-39").load(last=1).messages == [{"new": True}]


class Freezing:
    """An engine whose caller stands still before a chosen batch of what is restored goes out."""

    def __init__(self, engine: SyncEngine, before: int, meanwhile: Callable[[], None]) -> None:
        self._engine = engine
        self._left = before
        self._meanwhile = meanwhile
        self.froze = False

    def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        if any(isinstance(op, Commit) and isinstance(op.writes[0], Restore) for op in ops):
            self._left -= 1
            if self._left == 0:
                self.froze = True
                self._meanwhile()
        return self._engine.execute(ops)


@pytest.mark.parametrize(
    ("engine", "resumed"),
    [("memory", False), ("memory", True), ("sqlite", False), ("postgres", True), ("valkey", True)],
)
def test_what_was_on_its_way_overwrites_nothing_after_another_has_finished(
    engine: str, resumed: bool, new_store: NewStore, tmp_path: Path
) -> None:
    """The lease was asked for, then the process froze; every batch is such a moment once."""
    old, path = new_store("memory"), str(tmp_path / "a.backup")
    with sync.open(old) as store:
        store.user("erased").erase()
        for id in ("appended", "deleted"):
            store.thread(id).append({"n": 1})
        store.thread("long").append(*({"n": n} for n in range(ENTRIES)))
        store.thread("long").vars.put({"by": "a backup"})
    backup(old, path)

    def go_on(namespace: str) -> None:
        """What others do: they finish the restore, and agents come in."""
        assert restore(path, into, namespace=namespace).resumed
        with sync.open(into, namespace=namespace) as store:
            store.user("erased").erase()
            store.thread("appended").append({"new": True})
            store.thread("deleted").delete()
            store.thread("long").vars.put({"by": "an agent"})

    into, batches = new_store(engine), 1
    for before in range(1, 20):
        namespace = f"n{before}"
        opened = create_sync_engine(parse(into), World())
        opened.open()
        if resumed:
            first = RestoreTarget(opened, namespace, sha256_of(path), "a test")
            first.begin()
            with BackupFile(path) as file:
                first.put(file.lines(), Erasures())
        frozen = Freezing(opened, before, partial(go_on, namespace))
        target = RestoreTarget(frozen, namespace, sha256_of(path), "a test")
        target.begin()
        with BackupFile(path) as file:
            marks = Erasures()
            marks.add_all(marks_of(file.lines()), source=True)
            try:
                target.put_marks(marks)
                target.put(file.lines(), marks)
            except stateward.StateConflictError:
                assert frozen.froze
            else:
                assert not frozen.froze
        if frozen.froze:
            with sync.open(into, namespace=namespace) as store:
                assert store.thread("appended").load().messages == [{"n": 1}, {"new": True}]
                assert not store.thread("deleted").load().exists
                assert store.thread("long").vars.get().value == {"by": "an agent"}
        opened.close()
        if not frozen.froze:
            break
        batches = before
    assert batches >= 4  # the mark; the short ones; both parts of the long one


def sha256_of(path: str) -> str:
    with BackupFile(path) as file:
        list(file.lines())
        assert file.end is not None
        return file.end.sha256


def test_an_interrupted_copy_is_run_again_and_drops_what_is_gone(
    made: tuple[str, str], new_store: NewStore
) -> None:
    source, into = made[0], new_store("sqlite")
    seen = 0

    def stop(what: str, done: int, total: int) -> None:
        nonlocal seen
        seen += 1
        if done > 0.9 * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(source, into, progress=stop)
    with sync.open(source) as store:
        store.thread("s-1", user="u-1").delete()
        store.thread("t-0").append({"more": 1})
    assert copy(source, into).resumed
    assert everything(into) == everything(source)


def test_agents_that_write_while_it_is_restored_are_noticed(
    new_store: NewStore, tmp_path: Path
) -> None:
    """The second part of a conversation comes after an agent has deleted the first."""
    old, into = new_store("memory"), new_store("memory")
    with sync.open(old) as store:
        store.thread("long").append(*({"n": n} for n in range(3000)))
    path = str(tmp_path / "a.backup")
    backup(old, path)

    def lines(file: BackupFile) -> Iterator[Content]:
        for number, line in enumerate(file.lines()):
            if number == 1500:
                with sync.open(into) as store:
                    assert store.thread("long").load().version == ENTRIES
                    store.thread("long").delete()
            yield line

    engine = create_sync_engine(parse(into), World())
    engine.open()
    target = RestoreTarget(engine, "default", "a test", "a test")
    target.begin()
    with (
        BackupFile(path) as file,
        pytest.raises(stateward.StateConflictError, match="was changed while"),
    ):
        target.put(lines(file), Erasures())
    engine.close()


def test_a_marker_of_somebody_else_is_respected(made: tuple[str, str], new_store: NewStore) -> None:
    into = new_store("memory")
    engine = create_sync_engine(parse(into), World())
    engine.open()
    engine.execute([Commit(marker("default"), "op", (Put(RESTORING, "{}"),))])
    engine.close()
    with pytest.raises(stateward.StateConflictError, match="something else is being restored"):
        restore(made[1], into)


# --- the erased -------------------------------------------------------------------------


def users_in(url: str) -> set[str]:
    with sync.open(url) as store:
        owners = {info.user for info in store.threads()}
        return {user or "" for user in owners}


def test_who_was_erased_since_stays_erased(new_store: NewStore, tmp_path: Path) -> None:
    url = new_store("sqlite")
    path = str(tmp_path / "a.backup")
    fill(url)
    backup(url, path)
    with sync.open(url) as store:
        removed = store.user("u-1").erase().removed
        store.thread("back again", user="u-1").append({"n": 1})
    after = str(tmp_path / "after.backup")
    backup(url, after)
    for erasures in ([url], [after], [new_store("sqlite"), url, after]):
        into = new_store("sqlite")
        if len(erasures) == 3:
            migrate(erasures[0])
        report = restore(path, into, erasures=erasures)
        assert report.erased == sum(removed.values()) > 4
        assert users_in(into) == {"", "u-0", "u-2", "u-3"}
        with sync.open(into) as store:
            assert not store.user("u-1").get().exists
            assert store.workflow("refund-1").info() is None
        # The mark came along: whoever restores from here knows it too.
        assert restore(path, new_store("memory"), erasures=[into]).erased == report.erased
    into = new_store("sqlite")
    assert restore(after, into).erased == 0
    assert users_in(into) == {"", "u-0", "u-1", "u-2", "u-3"}, "what came after the erasure is kept"
    assert everything(into) == everything(url)


def migrate(url: str) -> None:
    engine = create_sync_engine(parse(url), World())
    engine.migrate()
    engine.close()


def test_the_target_itself_knows_who_was_erased(new_store: NewStore, tmp_path: Path) -> None:
    url = new_store("sqlite")
    path = str(tmp_path / "a.backup")
    fill(url)
    backup(url, path)
    with sync.open(url) as store:
        store.user("u-3").erase()
        for user in ("u-0", "u-1", "u-2"):
            for info in list(store.threads(user=user)):
                store.thread(info.id, user=user).delete()
    into = new_store("sqlite")
    with sync.open(into) as store:
        store.user("u-3").erase()
    report = restore(path, into)
    assert report.erased > 0
    assert "u-3" not in users_in(into)


def test_what_was_claimed_after_an_erasure_is_not_left_out(
    new_store: NewStore, tmp_path: Path
) -> None:
    """Though it was begun before, by nobody; the erasure did not mean it."""
    url = new_store("sqlite")
    with sync.open(url) as store:
        store.thread("s-1").append({"n": 1})
        store.user("u-1").erase()
        store.thread("s-1").claim(user="u-1").append({"n": 2})
    path = str(tmp_path / "a.backup")
    backup(url, path)
    restored, copied, copied_again = (new_store("sqlite") for _ in range(3))
    assert restore(path, restored).erased == 0
    assert copy(url, copied).erased == copy(copied, copied_again).erased == 0
    for into in (restored, copied, copied_again):
        with sync.open(into) as store:
            assert store.thread("s-1", user="u-1").load().version == 2
    with sync.open(url) as store:
        store.user("u-1").erase()
    assert restore(path, new_store("sqlite"), erasures=[url]).erased == 1, "a later one means it"


def test_a_backup_made_in_the_middle_of_an_erasure_does_not_bring_back(
    new_store: NewStore, tmp_path: Path
) -> None:
    """The mark comes first: what it covers is left out, though it is in the file too."""
    url, into = new_store("sqlite"), new_store("sqlite")
    fill(url)
    mark = Entity("default", ERASED, sha256(b"u-1").hexdigest())
    engine = create_sync_engine(parse(url), World())
    engine.open()
    engine.execute([Commit(mark, "op", (Put(ERASED, "{}"),))])
    engine.close()
    path = str(tmp_path / "a.backup")
    backup(url, path)
    assert restore(path, into).erased > 4
    assert "u-1" not in users_in(into)
