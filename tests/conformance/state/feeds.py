"""What enters a thread, in order, each message once; and what was missed is said."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.threads import numbered
from stateward.errors import InvalidInput, Reset, Truncated
from stateward.ops import Replace, Trim
from stateward.records import Change
from stateward.state.threads import Thread
from stateward.testing.conformance.harness import raises


async def caught_up(thread: Thread, after: Any = 0) -> list[Change]:
    """All changes up to now."""
    return [change async for change in thread.changes(after, follow=False)]


def following(thread: Thread, after: Any = 0) -> Any:
    """A feed that is closed at the end of its block."""
    return aclosing(thread.changes(after))


@case
async def a_feed_gives_every_message_once_and_in_order(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        await thread.append({"n": 1}, {"n": 2}, key="k")
        appended = await thread.append({"n": 3})
        changes = await caught_up(other.thread("t", user="u"))
        assert [change.message for change in changes] == numbered(1, 2, 3)
        assert [change.version for change in changes] == [1, 2, 3]
        assert [change.key for change in changes] == [None, "k", None]
        assert [change.cursor.version for change in changes] == [1, 2, 3]
        assert changes[0].cursor.stamp == changes[1].cursor.stamp != changes[2].cursor.stamp
        assert changes[2].cursor == appended.cursor
        window = await thread.load()
        assert window.updated_at == changes[2].at


@case
async def a_long_feed_has_no_gap_and_no_repetition(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        for start in range(0, 700, 175):
            await thread.append(*numbered(*range(start, start + 175)))
        changes = await caught_up(thread)
        assert [change.message for change in changes] == numbered(*range(700))
        assert [change.version for change in changes] == [*range(1, 701)]


@case
async def a_feed_resumes_from_any_place(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t")
        await thread.append({"n": 1}, {"n": 2}, {"n": 3})
        window = await thread.load()
        await thread.append({"n": 4}, {"n": 5})
        changes = await caught_up(thread)
        for change in changes:
            rest = changes[change.version :]
            for place in (change.cursor, str(change.cursor), change.version, str(change.version)):
                assert await caught_up(other.thread("t"), place) == rest
        assert await caught_up(thread, window) == changes[3:]
        assert await caught_up(thread, 0) == changes


@case
async def a_feed_follows_what_another_replica_writes(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread, theirs = store.thread("t"), other.thread("t")
        await theirs.append({"n": 1})
        async with following(thread) as changes:
            for number in range(1, 6):
                change = await anext(changes)
                assert (change.message, change.version) == ({"n": number}, number)
                await theirs.append({"n": number + 1})


@case
async def the_feed_of_an_absent_thread_is_empty(h: StoreHarness) -> None:
    async with h.store() as store:
        assert await caught_up(store.thread("t")) == []
        await store.thread("t").vars.put({"n": 1})
        assert await caught_up(store.thread("t")) == []
        await store.thread("t").append({"n": 1})
        assert len(await caught_up(store.thread("t"))) == 1


@case
async def a_feed_from_a_place_that_is_no_place_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        wrong: tuple[Any, ...] = (-1, "x", "", ".stamp", "-1", 1.5, None, b"1", [])
        for place in wrong:
            with raises(InvalidInput):
                await caught_up(store.thread("t"), place)


# --- another history --------------------------------------------------------------------


@case
async def a_feed_says_when_its_history_is_gone(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t")
        await thread.append({"n": 1}, {"n": 2})
        first, second = await caught_up(thread)
        await other.thread("t").delete()
        for place in (first.cursor, str(second.cursor), 2):
            with raises(Reset):
                await caught_up(thread, place)
        await other.thread("t").append({"n": 1}, {"n": 2}, {"n": 3})
        for place in (first.cursor, second.cursor, str(second.cursor), 4):
            with raises(Reset):
                await caught_up(thread, place)
        assert [change.message for change in await caught_up(thread)] == numbered(1, 2, 3)


@case
async def a_feed_under_way_says_when_its_history_is_gone(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for id, again in (("deleted", 0), ("shorter", 1), ("as long", 2), ("longer", 3)):
            thread = store.thread(id)
            await thread.append({"n": 1}, {"n": 2})
            async with following(thread) as changes:
                assert (await anext(changes)).version == 1
                assert (await anext(changes)).version == 2
                await other.thread(id).delete()
                if again:
                    await other.thread(id).append(*numbered(*range(again)))
                with raises(Reset):
                    await anext(changes)


@case
async def a_feed_says_when_its_history_has_expired(h: StoreHarness) -> None:
    async with h.store(retain=h.span) as store:
        thread = store.thread("t")
        await thread.append({"n": 1})
        change = (await caught_up(thread))[0]
        await h.pass_time(h.span)
        with raises(Reset):
            await caught_up(thread, change.cursor)
        await thread.append({"n": 2})
        with raises(Reset):
            await caught_up(thread, change.cursor)


# --- what was trimmed or removed --------------------------------------------------------


@case
async def a_feed_says_what_was_trimmed_before_it_was_read(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append({"n": 1}, {"n": 2}, {"n": 3})
        await thread.append({"n": 4})
        changes = await caught_up(thread)
        await a.apply(h.entity("t", "thread"), Trim(2))
        for place in (0, 1, changes[0].cursor, str(changes[0].cursor)):
            with raises(Truncated) as caught:
                await caught_up(thread, place)
            assert caught.error.base == 2
        assert await caught_up(thread, 2) == changes[2:]
        assert await caught_up(thread, changes[1].cursor) == changes[2:]
        assert await caught_up(thread, str(changes[2].cursor)) == changes[3:]


@case
async def a_feed_under_way_says_what_was_trimmed(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append({"n": 1})
        async with following(thread) as changes:
            await anext(changes)
            await thread.append({"n": 2}, {"n": 3})
            await a.apply(h.entity("t", "thread"), Trim(2))
            with raises(Truncated) as caught:
                await anext(changes)
            assert caught.error.base == 2


@case
async def a_feed_passes_over_removed_messages_and_sees_rewritten_ones(h: StoreHarness) -> None:
    a = await h.replica()
    it = h.entity("t", "thread")
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*numbered(1, 2, 3, 4))
        await a.apply(it, Replace({1: None, 2: '{"n":"redacted"}', 4: None}))
        changes = await caught_up(thread)
        assert [(change.version, change.message["n"]) for change in changes] == [
            (2, "redacted"),
            (3, 3),
        ]
        assert await caught_up(thread, changes[-1].cursor) == []
        await thread.append({"n": 5})
        assert [c.version for c in await caught_up(thread, changes[-1].cursor)] == [5]
        async with following(thread, 3) as feed:
            assert (await anext(feed)).version == 5


@case
async def a_feed_goes_on_behind_a_page_of_removed_messages(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*numbered(*range(1, 901)))
        await a.apply(h.entity("t", "thread"), Replace(dict.fromkeys(range(2, 900))))
        assert [change.version for change in await caught_up(thread)] == [1, 900]
