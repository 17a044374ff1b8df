"""What is gone is gone from the file too, not only from the answers."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import stateward.sync
from stateward.engine import GRACE
from stateward.ops import Applied, Commit, Entity, Replace, Trim, Write
from stateward.sync.store import Store
from stateward.testing.clock import SteppableWorld

SECRET = "a phrase that stands nowhere else"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def opened(path: Path, world: SteppableWorld) -> Store:
    return stateward.sync.open(f"sqlite:///{path}", retain=100.0, world=world)


def rows_with_the_secret(path: Path) -> int:
    """In any column of any table."""
    connection = apsw.Connection(str(path))
    tables = [name for (name,) in connection.execute("SELECT name FROM pragma_table_list")]
    found = 0
    for table in tables:
        if not table.startswith("sqlite_"):
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                found += any(SECRET in str(value) for value in row)
    connection.close()
    return found


def tell(store: Store) -> None:
    """The secret as message, key, variable and document."""
    store.thread("t", user="u").append({"text": SECRET}, {"text": SECRET}, key=f"key {SECRET}")
    store.thread("t", user="u").vars.put({"text": SECRET})
    store.user("u").put({"text": SECRET}, "notes")


def sweep_all(store: Store, limit: int = 1000) -> None:
    while store.sweep(limit).more:
        pass


def rows_of_state(path: Path) -> int:
    connection = apsw.Connection(str(path))
    tables = ("entities", "log", "documents", "ops")
    counts = [connection.execute(f"SELECT count(*) FROM {table}").get for table in tables]
    connection.close()
    return sum(counts)


def test_an_erasure_leaves_no_row(path: Path) -> None:
    with opened(path, SteppableWorld()) as store:
        tell(store)
        assert rows_with_the_secret(path) > 3
        store.user("u").erase()
        assert rows_with_the_secret(path) == 0


def test_an_erasure_of_what_has_expired_or_lived_before_leaves_no_row(path: Path) -> None:
    world = SteppableWorld()
    with opened(path, world) as store:
        tell(store)
        world.advance(101.0)
        store.thread("t", user="u").append({"text": "a new life"})
        store.thread("expired", user="u").append({"text": SECRET})
        world.advance(101.0)
        assert rows_with_the_secret(path) > 3
        store.user("u").erase()
        assert rows_with_the_secret(path) == 0


def test_a_former_life_is_swept_though_a_new_one_began(path: Path) -> None:
    with opened(path, SteppableWorld()) as store:
        tell(store)
        store.thread("t", user="u").delete()
        store.thread("t", user="u").append({"text": "a new life"})
        store.user("u").delete("notes", forget=True)
        sweep_all(store, limit=1)
        assert rows_with_the_secret(path) == 0
        assert store.thread("t", user="u").load().messages == [{"text": "a new life"}]


def test_what_has_expired_is_swept_after_the_grace(path: Path) -> None:
    world = SteppableWorld()
    with opened(path, world) as store:
        tell(store)
        store.user("u").delete("notes", forget=True)
        world.advance(101.0)
        sweep_all(store)
        assert rows_with_the_secret(path) > 2, "late callers still meet it"
        world.advance(GRACE)
        sweep_all(store)
        assert rows_with_the_secret(path) == 0
        store.user("u").erase()
        world.advance(GRACE)
        sweep_all(store, limit=1)
        # That the user was erased, and that it was done: a head, two documents, two ops.
        assert rows_of_state(path) == 5, "the mark of the erasure is all that is left"


def test_what_was_trimmed_or_removed_leaves_at_once(path: Path) -> None:
    """A redaction does not wait for a sweep; a key is remembered without what it stood for."""
    with opened(path, SteppableWorld()) as store:
        for number in range(4):
            store.thread("t").append({"text": SECRET}, {"text": SECRET}, key=f"{number}")
        it = Entity("default", "thread", "t")
        assert rows_with_the_secret(path) > 7
        commit(store, it, Trim(3))
        assert [m["text"] for m in store.thread("t").load().messages] == [SECRET] * 5
        commit(store, it, Replace(dict.fromkeys(range(4, 9))))
        assert rows_with_the_secret(path) == 0
        again = store.thread("t").append({"text": SECRET}, {"text": SECRET}, key="0")
        assert again.status == "duplicate"


def commit(store: Store, entity: Entity, write: Write) -> None:
    """What no public method does yet, through the store's own engine."""
    (outcome,) = store._scope.execute([Commit(entity, store._scope.world.new_id(), (write,))])
    assert isinstance(outcome, Applied)
