"""What changed since: every entity that was touched, at least once, and resumable anywhere."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from stateward.engine import MINUTE, OVERLAP
from stateward.errors import InvalidInput
from stateward.ops import Drop, Entity
from stateward.records import EntityChange
from stateward.store import Store
from stateward.testing.conformance.harness import Caller, raises
from stateward.testing.conformance.recent import LONG_AGO, touched

MANY = 450  # more than two pages


async def told(store: Store, after: str | None = None, **options: Any) -> list[EntityChange]:
    """All there is to tell up to now."""
    return [change async for change in store.changes(after=after, wait=False, **options)]


async def ids(store: Store, after: str | None = None, **options: Any) -> list[str]:
    return [change.id for change in await told(store, after, **options)]


def following(store: Store, **options: Any) -> Any:
    """A feed that is closed at the end of its block."""
    return aclosing(store.changes(**options))


async def touch(h: StoreHarness, a: Caller, times: dict[str, float]) -> None:
    """Entities that were touched at these times, and never since."""
    await a.execute(*[touched(Entity(h.namespace, "thread", id), at) for id, at in times.items()])


@case
async def everything_that_was_touched_is_told(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        assert await told(store) == []
        await other.thread("t", user="u").append({"n": 1}, {"n": 2})
        await other.user("u").put({"n": 1}, "p")
        await other.shared("s").put({"n": 1}, "p")
        await other.journal("j").append({"n": 1})
        await other.once("k", h.new_id, fingerprint="")
        async with other.lock("l"):
            pass
        changes = await told(store)
        kinds = {change.kind: change for change in changes}
        assert sorted(kinds) == ["journal", "lock", "shared", "task", "thread", "user"]
        assert len(changes) == len(kinds), "each once"
        thread = kinds["thread"]
        assert (thread.id, thread.user, thread.version, thread.commits) == ("t", "u", 2, 1)
        assert thread.updated_at == (await store.thread("t").load()).updated_at
        assert (kinds["user"].id, kinds["shared"].user) == ("u", None)
        times = [change.updated_at for change in changes]
        assert times == sorted(times), "of one page in the order of the touches"


@case
async def a_feed_is_of_the_kinds_that_are_asked_for(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        await store.user("u").put({"n": 1}, "p")
        assert await ids(store, kinds="thread") == ["t"]
        assert sorted(await ids(store, kinds=["thread", "user"])) == ["t", "u"]
        assert await ids(store, kinds=["workflow"]) == []
        (cursor,) = [change.cursor for change in await told(store, kinds="thread")]
        assert await ids(store, cursor, kinds="user") == ["u"], "which that cursor says nothing of"
        wrong: tuple[Any, ...] = ("threads", [], ["thread", "heartbeat"])
        for kinds in wrong:
            with raises(InvalidInput) as caught:
                await told(store, kinds=kinds)
            assert "use one of: thread, user" in str(caught.error)
        unreadable: tuple[Any, ...] = ("nonsense", "é", "", 7, "e30x")
        for cursor in unreadable:
            with raises(InvalidInput) as caught:
                await told(store, cursor)
            assert "not a cursor of a change feed" in str(caught.error)


@case
async def a_feed_goes_on_after_any_change(h: StoreHarness) -> None:
    a = await h.replica()
    # Many in one minute, a few alone in theirs.
    times = {f"m{number}": LONG_AGO for number in range(MANY)}
    times |= {f"a{number}": LONG_AGO + (number - 9) * MINUTE for number in range(40)}
    await touch(h, a, times)
    async with h.store() as store, h.store() as other:
        changes = await told(store)
        assert sorted(change.id for change in changes) == sorted(times), "each once"
        for number in (0, 1, 9, 10, 198, 199, 200, 201, 399, 400, 401, len(times) - 1):
            before = {change.id for change in changes[: number + 1]}
            rest = await ids(other, changes[number].cursor)
            assert before | set(rest) == set(times), "none is missing"
            assert len(rest) == len(set(rest)), "each once"
        rest = await ids(store, changes[-1].cursor)
        last = max(times.values()) - OVERLAP * MINUTE
        assert sorted(rest) == sorted(id for id, at in times.items() if at >= last)


@case
async def a_consumer_that_is_stopped_at_each_change_comes_to_the_end(h: StoreHarness) -> None:
    a = await h.replica()
    times = {f"m{number}": LONG_AGO + number // 100 * MINUTE for number in range(MANY)}
    await touch(h, a, times)
    async with h.store() as store:
        dealt_with: set[str] = set()
        cursor: str | None = None
        for _ in range(6):
            number = 0
            async with following(store, after=cursor, wait=False) as changes:
                async for change in changes:
                    number += 1
                    dealt_with.add(change.id)
                    cursor = change.cursor
                    if number == 201:
                        break
        assert dealt_with == times.keys()


@case
async def what_is_touched_again_is_told_again_and_newer(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = other.thread("t")
        await thread.append({"n": 1})
        async with following(store, poll=0.01) as changes:
            for number in range(1, 6):
                change = await anext(changes)
                assert (change.id, change.version, change.commits) == ("t", number, number)
                await thread.append({"n": number + 1})
            change = await anext(changes)
            await other.thread("another").append({"n": 1})
            assert (await anext(changes)).id == "another"
        (last,) = [c for c in await told(store, change.cursor) if c.id == "t"]
        assert last.commits == 6


@case
async def a_new_life_is_told(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        async with following(store, poll=0.01) as changes:
            assert (await anext(changes)).version == 1
            await a.apply(Entity(h.namespace, "thread", "t"), Drop())
            await store.thread("u").append({"n": 1})
            assert (await anext(changes)).id == "u", "a deletion is not told"
            await store.thread("t").append({"n": 1})
            change = await anext(changes)
            assert (change.id, change.version, change.commits) == ("t", 1, 3)


@case
async def what_is_entered_late_is_told(h: StoreHarness) -> None:
    a = await h.replica()
    await touch(h, a, {"a": LONG_AGO, "b": LONG_AGO + MINUTE})
    async with h.store() as store:
        changes = await told(store)
        assert [change.id for change in changes] == ["a", "b"]
        await touch(h, a, {"late": LONG_AGO - (OVERLAP - 1) * MINUTE})
        assert await ids(store, changes[-1].cursor) == ["late", "a", "b"]


@case
async def a_time_that_is_yet_to_come_hides_nothing(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        await touch(h, a, {"future": h.world.now() + 1000 * MINUTE})
        (change,) = await told(store)
        await store.thread("now").append({"n": 1})
        assert await ids(store, change.cursor) == ["now", "future"]


@clock_case
async def a_feed_that_waits_looks_back_now_and_then(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        await store.thread("a").append({"n": 1})
        async with following(store, poll=0.01) as changes:
            assert (await anext(changes)).id == "a"
            await h.pass_time(OVERLAP * MINUTE)
            await store.thread("b").append({"n": 1})
            assert (await anext(changes)).id == "b"
            await touch(h, a, {"late": h.world.now() - (OVERLAP - 2) * MINUTE})
            await h.pass_time(MINUTE)
            assert (await anext(changes)).id == "late"


@clock_case
async def a_clock_that_is_set_back_hides_nothing(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("a").append({"n": 1})
        async with following(store, poll=0.01) as changes:
            assert (await anext(changes)).id == "a"
            h.step_back(3 * OVERLAP * MINUTE)
            await store.thread("b").append({"n": 1})
            assert (await anext(changes)).id == "b"
