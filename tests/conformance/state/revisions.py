"""Conversations that are rewritten: messages changed or removed, the end cut off, all anew."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside
from conformance.state.threads import numbered
from conformance.state.windows import said
from stateward.context.compaction import Compaction
from stateward.errors import InvalidInput, NotYoursError, Reset, StateConflictError
from stateward.state.thread_listener import ThreadListener
from stateward.testing.conformance.harness import raises

POPPERS, POPS = 4, 10


@case
async def an_edit_returns_what_it_has_changed(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t")
        await thread.append(*numbered(1, 2, 3), key="k")
        await thread.append(*numbered(4))
        changed = await thread.edit({3: {"n": "three"}, 1: None, 99: None})
        assert [(c.version, c.message, c.key) for c in changed] == [
            (1, {"n": 1}, None),
            (3, {"n": 3}, "k"),
        ]
        assert await other.thread("t").edit({1: None, 99: {"n": 99}}) == []
        assert (await thread.load()).messages == [{"n": 2}, {"n": "three"}, {"n": 4}]
        assert [c.message for c in await thread.edit({3: None})] == [{"n": "three"}]
        assert await store.thread("none").edit({1: None}) == []
        assert not (await store.thread("none").load()).exists


@case
async def an_edit_of_many_messages_returns_them_all(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*numbered(*range(1, 451)))
        every_other = range(1, 451, 2)
        changed = await thread.edit(dict.fromkeys(every_other))
        assert [c.version for c in changed] == list(every_other)
        changed = await thread.edit(dict.fromkeys(range(1, 451)))
        assert [c.version for c in changed] == list(range(2, 451, 2))
        window = await thread.load()
        assert (window.messages, window.version, window.exists) == ([], 450, True)


@case
async def a_message_that_several_remove_at_once_is_given_to_one(h: StoreHarness) -> None:
    async def pop(store: Any) -> Any:
        while True:
            window = await store.thread("t").load(last=1, exact=True, entries=True)
            if not window.entries:
                return None
            removed = await store.thread("t").edit({window.entries[0].version: None}, expect=window)
            if removed:
                return removed[0].message["n"]

    async def pops(store: Any) -> list[Any]:
        return [await pop(store) for _ in range(POPS)]

    async with h.store() as store, h.store() as other:
        await store.thread("t").append(*numbered(*range(POPPERS * POPS)))
        poppers = [Beside(pops, each) for each in (store, other) * (POPPERS // 2)]
        popped = [n for popper in poppers for n in await popper.result()]
        assert sorted(popped) == list(range(POPPERS * POPS))
        assert await pop(store) is None


@case
async def a_rewrite_that_expects_another_version_changes_nothing(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t")
        await thread.append(*numbered(1, 2))
        window = await thread.load()
        await other.thread("t").append({"n": 3})
        for stale in (window, window.cursor, str(window.cursor), 2, 4, "3.another"):
            with raises(StateConflictError) as caught:
                await thread.edit({1: None}, expect=stale)
            assert caught.error.current == 3
            with raises(StateConflictError):
                await thread.edit({99: None}, expect=stale)
            with raises(StateConflictError):
                await thread.truncate(after=1, expect=stale)
            with raises(StateConflictError):
                await thread.replace(numbered(9), expect=stale)
        assert (await thread.load()).messages == numbered(1, 2, 3)
        with raises(StateConflictError):
            await store.thread("none").edit({1: None}, expect=1)
        await thread.edit({1: {"n": "one"}}, expect=await thread.load())
        await thread.truncate(after=2, expect=3)
        await thread.replace(numbered(9), expect=await thread.load())
        assert (await thread.load()).messages == numbered(9)


@case
async def a_thread_is_truncated_after_a_place(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        await thread.append(*numbered(*range(1, 4)), key="k")
        place = (await thread.load()).cursor
        await thread.append(*numbered(*range(4, 451)))
        await thread.vars.put({"topic": "steak"})
        removed = await other.thread("t", user="u").truncate(after=place)
        assert [c.message for c in removed] == numbered(*range(4, 451))
        window = await thread.load(last=20)
        assert (window.messages, window.version, window.omitted) == (numbered(1, 2, 3), 450, 0)
        assert (await thread.vars.get()).value == {"topic": "steak"}
        assert await thread.truncate(after=place) == []
        assert (await thread.append({"n": "new"}, expect=window)).version == 451
        assert (await thread.load()).messages == [*numbered(1, 2, 3), {"n": "new"}]
        assert (await thread.append(*numbered(1, 2, 3), key="k")).status == "duplicate"
        assert [c.version for c in await thread.truncate(after=2)] == [3, 451]
        assert len(await thread.truncate(after=0)) == 2
        assert (await thread.load()).messages == []
        assert await store.thread("none").truncate(after=0) == []
        for wrong in (452, "2.another"):
            with raises(Reset):
                await thread.truncate(after=wrong)
        with raises(NotYoursError):
            await store.thread("t", user="v").truncate(after=0)


@case
async def a_thread_is_replaced_as_a_whole(h: StoreHarness) -> None:
    async with h.store(retain=1000.0) as store, h.store() as other:
        thread = store.thread("t", user="u")
        begun = await thread.replace([said("system", "be kind"), said("user", "hello")])
        assert (begun.status, begun.version) == ("stored", 2)
        await thread.append(*(said("user", f"{n}") for n in range(450)), key="k")
        await thread.vars.put({"topic": "steak"})
        before = await thread.load()
        for round in range(3):
            new = [said("system", f"be short {round}"), said("user", "hello"), said("user", "you?")]
            replaced = await other.thread("t", user="u").replace(new)
            window = await thread.load()
            assert window.messages == new
            assert window.cursor == replaced.cursor
            assert (window.version, window.omitted) == (452 + 3 * (round + 1), 0)
            short = await thread.load(last=1)
            assert (short.messages, short.pinned) == ([new[0], new[2]], 1)
        with raises(StateConflictError):
            await thread.append({"n": 1}, expect=before)
        info = await anext(store.threads())
        assert (info.user, info.messages) == ("u", 3)
        assert (await thread.vars.get()).value == {"topic": "steak"}
        emptied = await thread.replace(())
        assert emptied.version == 461
        window = await thread.load()
        assert (window.messages, window.exists) == ([], True)
        assert (await thread.replace(())).version == 461
        assert (await store.thread("none").replace(())).version == 0
        assert not (await store.thread("none").load()).exists
        for wrong in (["text"], [{"n": float("nan")}], "text"):
            with raises(InvalidInput):
                await thread.replace(wrong)  # type: ignore[arg-type]
        with raises(NotYoursError):
            await store.thread("t", user="v").replace(numbered(1))


@case
async def a_summary_of_what_is_removed_goes_with_it(h: StoreHarness) -> None:
    async with h.store() as store:
        how = Compaction(lambda previous, messages: "they spoke", after=2, keep=1)
        for rewrite in ("truncate", "replace", "edit"):
            thread = store.thread(rewrite)
            for n in range(4):
                await thread.append(said("user", f"q{n}"), said("assistant", f"a{n}"))
            assert await thread.compact(how) is not None
            if rewrite == "truncate":
                await thread.truncate(after=1)
            elif rewrite == "replace":
                await thread.replace([said("user", "anew")])
            else:
                await thread.edit({1: said("user", "q0, without the secret")})
            assert await thread.summary() is None


@case
async def a_listener_is_told_of_what_was_rewritten(h: StoreHarness) -> None:
    told: list[Any] = []

    class Listener(ThreadListener):
        def appended(self, *args: Any) -> None:
            told.append(args[3:])

        def edited(self, namespace: str, thread: str) -> None:
            told.append(thread)

    async with h.store(listener=Listener()) as store:
        await store.thread("t").append({"n": 1}, {"n": 2})
        await store.thread("t").truncate(after=1)
        await store.thread("t").replace([{"n": 3}])
        assert told == [(({"n": 1}, {"n": 2}), 2), "t", "t", (({"n": 3},), 3)]
