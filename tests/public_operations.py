"""Every public operation, with how to see afterwards how often it took effect."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateward import Policy, StateConflictError, Store
from stateward.state.personal_data import erased_at

POLICY = Policy(1.0, 5.0, threads="raise", breaker_failures=1_000_000)
READ = POLICY.read_timeout
PAGE = 3  # small, so that a few messages or threads already take several calls
OLD, QUESTION, ANSWER = {"n": 0}, {"n": 1}, {"n": 2}


@dataclass(frozen=True)
class Operation:
    """What is done, and how to see afterwards how often it took effect."""

    prepare: Callable[[Store], Awaitable[object]]
    act: Callable[[Store, Path], Awaitable[Any]]
    right: Callable[[Any], bool]  # whether the answer is as it should be
    effect: Callable[[Store, Path], Awaitable[int]] | None = None  # None: it only reads
    repeatable: bool = False  # also when nobody knows whether it was applied
    refused: type[Exception] | None = None  # what a repeat may say if it was applied
    most: int = 1  # how often an applied operation that is repeated may show
    several: bool = False  # several commits: "no" speaks of the last one alone
    deadline: float = POLICY.write_timeout


async def nothing(store: Store) -> None:
    """No need to prepare."""


async def loaded(store: Store, id: str = "t") -> list[dict[str, Any]]:
    return (await store.thread(id, user="u").load()).messages


# --- conversations ----------------------------------------------------------------------


async def begun(store: Store) -> None:
    await store.thread("t", user="u").append(OLD)


async def turns_stored(store: Store, _folder: Path) -> int:
    old, *new = await loaded(store)
    assert old == OLD
    times, half = divmod(len(new), 2)
    assert not half
    assert new == [QUESTION, ANSWER] * times
    return times


def appending(**options: Any) -> Callable[[Store, Path], Awaitable[Any]]:
    async def act(store: Store, _folder: Path) -> Any:
        return await store.thread("t", user="u").append(QUESTION, ANSWER, **options)

    return act


async def long_thread(store: Store) -> None:
    for n in range(2 * PAGE + 1):
        await store.thread("t", user="u").append({"n": n})
    await store.thread("t", user="u").vars.put({"topic": "tea"})


async def load(store: Store, _folder: Path) -> Any:
    return await loaded(store)


async def follow(store: Store, _folder: Path) -> Any:
    changes = store.thread("t", user="u").changes(follow=False)
    return [change.message async for change in changes]


async def update_vars(store: Store, _folder: Path) -> Any:
    return (await store.thread("t", user="u").vars.update(add_one)).value


async def vars_count(store: Store, _folder: Path) -> int:
    return int((await store.thread("t", user="u").vars.get()).value.get("n", 0))


async def fork(store: Store, _folder: Path) -> Any:
    return await store.thread("t", user="u").fork(to="f")


async def forks(store: Store, _folder: Path) -> int:
    window = await store.thread("f", user="u").load()
    if not window.exists:
        return 0
    assert window.messages == [{"n": n} for n in range(2 * PAGE + 1)]
    assert (await store.thread("f", user="u").vars.get()).value == {"topic": "tea"}
    return 1


async def begun_by_nobody(store: Store) -> None:
    await store.thread("t").append(OLD)


async def claim(store: Store, _folder: Path) -> Any:
    return (await store.thread("t").claim(user="u")).user


async def claims(store: Store, _folder: Path) -> int:
    assert (await store.thread("t").load()).messages == [OLD]
    return len([thread async for thread in store.threads(user="u")])


async def delete_thread(store: Store, _folder: Path) -> Any:
    return await store.thread("t", user="u").delete()


async def thread_gone(store: Store, _folder: Path) -> int:
    window = await store.thread("t", user="u").load()
    variables = await store.thread("t", user="u").vars.get()
    assert window.exists == variables.exists == bool(window.messages)
    return int(not window.exists)


async def many_threads(store: Store) -> None:
    for n in range(2 * PAGE + 1):
        await store.thread(f"t{n}", user="u").append(OLD)


async def list_threads(store: Store, _folder: Path) -> Any:
    return [thread.id async for thread in store.threads(user="u")]


# --- documents --------------------------------------------------------------------------


def add_one(value: dict[str, Any]) -> None:
    value["n"] = value.get("n", 0) + 1


async def known(store: Store) -> None:
    await store.user("u").put({"n": 0, "likes": "tea"})


async def put(store: Store, _folder: Path) -> Any:
    return (await store.user("u").put({"n": 1})).version


async def puts(store: Store, _folder: Path) -> int:
    document = await store.user("u").get()
    assert document.value == ({"n": 1} if document.version > 1 else {"n": 0, "likes": "tea"})
    return document.version - 1


async def put_expecting(store: Store, _folder: Path) -> Any:
    return (await store.user("u").put({"n": 1}, expect=1)).version


async def update(store: Store, _folder: Path) -> Any:
    return (await store.user("u").update(add_one)).value["n"]


async def update_after_another(store: Store, _folder: Path) -> Any:
    """Somebody else is faster, so that the change is made a second time."""
    faster = [True]

    async def change(value: dict[str, Any]) -> None:
        if faster:
            faster.clear()
            await store.user("u").update(lambda theirs: theirs | {"likes": "rain"})
        add_one(value)

    return (await store.user("u").update(change)).value


async def count_beside_another(store: Store, _folder: Path) -> int:
    return int((await store.user("u").get()).value["n"])


async def count(store: Store, _folder: Path) -> int:
    document = await store.user("u").get()
    assert document.value == {"n": document.version - 1, "likes": "tea"}
    return document.version - 1


async def patch(store: Store, _folder: Path) -> Any:
    return (await store.user("u").patch({"n": 1, "likes": None})).version


async def delete_document(store: Store, _folder: Path) -> Any:
    return await store.user("u").delete()


async def document_gone(store: Store, _folder: Path) -> int:
    return int(not (await store.user("u").get()).exists)


# --- all that belongs to a user ---------------------------------------------------------


async def settled(store: Store) -> None:
    await store.user("u").put({"likes": "tea"})
    await store.user("u").put({"likes": "rain"}, "weather")
    for n in range(PAGE + 1):
        await store.thread(f"t{n}", user="u").append(QUESTION, ANSWER)


async def context(store: Store, _folder: Path) -> Any:
    found = await store.context(user="u", thread="t0")
    return found.thread.messages, {name: d.value for name, d in found.user.items()}


async def list_documents(store: Store, _folder: Path) -> Any:
    return [name async for name, _ in store.user("u").list()]


async def erase(store: Store, _folder: Path) -> Any:
    return (await store.user("u").erase()).removed


async def erased(store: Store, _folder: Path) -> int:
    left = [thread.id async for thread in store.threads(user="u")]
    for id in left:
        assert await loaded(store, id) == [QUESTION, ANSWER], "half erased"
    names = [name async for name, _ in store.user("u").list()]
    assert names in ([], ["default", "weather"]), "half erased"
    if left or names:
        return 0
    assert await erased_at(store._scope, "u") is not None, "erased without a mark"
    return 1


async def export(store: Store, folder: Path) -> Any:
    return (await store.user("u").export(str(folder / "u.jsonl"))).messages


async def exports(_store: Store, folder: Path) -> int:
    assert "u.jsonl.part" not in listing(folder), "a piece of a file is left"
    if "u.jsonl" not in listing(folder):
        return 0
    kinds = [line.get("is") for line in lines(folder / "u.jsonl")]
    assert kinds.count("message") == 2 * (PAGE + 1)
    assert kinds.count("document") == 2
    return 1


def listing(folder: Path) -> set[str]:
    """The names of the files, that of an unfinished export as u.jsonl.part."""
    names = (path.name for path in folder.iterdir())
    return {"u.jsonl.part" if name.startswith(".stateward-") else name for name in names}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# --- what is done by hand ---------------------------------------------------------------


async def look_by_hand(store: Store, _folder: Path) -> Any:
    return await store.operations.record("ann", "thread show", "thread", "t")


async def do_by_hand(store: Store, _folder: Path) -> Any:
    async with store.operations.recording("ann", "lock break", "lock", "l") as found:
        found["broken"] = True
    return found


async def entries_begun(store: Store, _folder: Path) -> int:
    """How many deeds the log knows of; and nobody has torn its chain."""
    assert (await store.operations.verify()).ok
    return len([each async for each in store.operations.entries() if each.of is None])


def stored_once(appended: Any) -> bool:
    return bool(appended.status == "stored" and appended.version == 3)


LONG = [{"n": n} for n in range(2 * PAGE + 1)]
DOCUMENTS = {"default": {"likes": "tea"}, "weather": {"likes": "rain"}}

OPERATIONS: dict[str, Operation] = {
    "append": Operation(begun, appending(), stored_once, turns_stored),
    "append with a key": Operation(
        begun, appending(key="k"), stored_once, turns_stored, repeatable=True
    ),
    "append expecting a version": Operation(
        begun,
        appending(expect=1),
        stored_once,
        turns_stored,
        repeatable=True,
        refused=StateConflictError,
    ),
    "load": Operation(long_thread, load, LONG.__eq__, deadline=READ),
    "changes": Operation(long_thread, follow, LONG.__eq__, deadline=READ),
    "fork": Operation(
        long_thread,
        fork,
        lambda forked: bool(forked.id == "f"),
        forks,
        repeatable=True,
        refused=StateConflictError,
    ),
    "claim": Operation(begun_by_nobody, claim, "u".__eq__, claims, repeatable=True, several=True),
    "delete a thread": Operation(
        long_thread, delete_thread, lambda _: True, thread_gone, repeatable=True
    ),
    "list threads": Operation(
        many_threads, list_threads, [f"t{n}" for n in range(2 * PAGE + 1)].__eq__, deadline=READ
    ),
    "update variables": Operation(nothing, update_vars, {"n": 1}.__eq__, vars_count),
    "put": Operation(known, put, (2).__eq__, puts, repeatable=True, most=2),
    "put expecting a version": Operation(
        known, put_expecting, (2).__eq__, puts, repeatable=True, refused=StateConflictError
    ),
    "update": Operation(known, update, (1).__eq__, count),
    "update after another": Operation(
        known, update_after_another, {"n": 1, "likes": "rain"}.__eq__, count_beside_another
    ),
    "patch": Operation(known, patch, (2).__eq__, puts, repeatable=True, most=2),
    "delete a document": Operation(
        known, delete_document, lambda _: True, document_gone, repeatable=True
    ),
    "context": Operation(settled, context, ([QUESTION, ANSWER], DOCUMENTS).__eq__, deadline=READ),
    "list documents": Operation(
        settled, list_documents, ["default", "weather"].__eq__, deadline=READ
    ),
    "erase": Operation(
        settled,
        erase,
        {"thread": PAGE + 1, "user": 1}.__eq__,
        erased,
        repeatable=True,
        several=True,
    ),
    "record what was read by hand": Operation(nothing, look_by_hand, (1).__eq__, entries_begun),
    "record what is done by hand": Operation(
        nothing, do_by_hand, {"broken": True}.__eq__, entries_begun, several=True
    ),
    "export": Operation(
        settled, export, (2 * (PAGE + 1)).__eq__, exports, repeatable=True, deadline=READ
    ),
}
