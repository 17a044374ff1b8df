"""For those who want more than a prompt: numbers, times and keys, and exactly the newest."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.threads import numbered
from conformance.state.windows import SIZES, said
from stateward.context.compaction import Compaction
from stateward.errors import InvalidInput
from stateward.testing.conformance.harness import raises

CALL = {"role": "assistant", "tool_calls": [{"id": "c"}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "in the van"}


@case
async def a_window_may_have_the_number_time_and_key_of_each_message(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", user="u")
        await thread.append(said("system", "be kind"))
        await thread.append(said("user", "where?"), CALL, RESULT, key="k")
        await thread.append(said("assistant", "in the van"))
        await thread.append(said("user", "thanks"), said("assistant", "you are welcome"))
        await thread.edit({4: RESULT | {"content": "elsewhere"}})
        changes = [change async for change in thread.changes(follow=False)]
        bounds: tuple[dict[str, Any], ...] = (
            {},
            {"last": 2},
            {"last": 6},
            {"turns": 1},
            {"turns": 2},
            {"max_tokens": 100_000},
            {"after": 2},
            {"upto": 4},
            {"last": 3, "exact": True},
        )
        for asked in bounds:
            plain, window = await thread.load(**asked), await thread.load(entries=True, **asked)
            assert window.messages == plain.messages
            assert [entry.message for entry in window.entries] == window.messages
            assert all(entry in changes for entry in window.entries)
            numbers = [entry.version for entry in window.entries]
            assert numbers == sorted(numbers)
        window = await thread.load(last=2, entries=True)
        assert [entry.version for entry in window.entries] == [1, 6, 7]
        assert [entry.key for entry in (await thread.load(entries=True)).entries] == [
            *(None, None, None, "k"),
            *(None, None, None),
        ]
        assert (await store.thread("none").load(entries=True)).entries == ()
        for asked in (bounds[1], bounds[3], bounds[-1]):
            context = await store.context(user="u", thread="t", entries=True, **asked)
            assert context.thread == await thread.load(entries=True, **asked)
        with raises(InvalidInput):
            (await thread.load()).entries  # noqa: B018


@case
async def a_window_with_gaps_cuts_and_a_summary_knows_its_entries(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        for n in range(1, 8):
            await thread.append(said("user", f"q{n}"), said("assistant", f"a{n} " + "word " * 200))
        await thread.edit({2: None, 7: None})
        how = Compaction(lambda previous, messages: "before", after=6, keep=4)
        asked: tuple[dict[str, Any], ...] = (
            {"last": 20},
            {"summarize": how},
            {"max_tokens": 60, "oversized": "shorten"},
        )
        whole = {
            entry.version: entry.message for entry in (await thread.load(entries=True)).entries
        }
        assert whole.keys() == set(range(1, 15)) - {2, 7}
        for bounds in asked:
            window = await thread.load(entries=True, **bounds)
            assert [entry.message for entry in window.entries] == window.messages
            for entry in window.entries:
                assert entry.message["role"] == whole[entry.version]["role"]
                assert entry.message["content"][:2] == whole[entry.version]["content"][:2]


@case
async def exactly_the_newest_messages_come_if_they_are_asked_for(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        messages = [said("system", "be kind"), said("user", "where?"), CALL, RESULT]
        await thread.append(*messages, said("assistant", "in the van"))
        messages.append(said("assistant", "in the van"))
        for last in (1, 2, 3, 4, 5, 6, 1000):
            window = await thread.load(last=last, exact=True)
            assert window.messages == messages[-last:]
            assert (window.omitted, window.pinned) == (5 - len(window.messages), 0)
        assert (await thread.load(last=2, after=1, upto=4, exact=True)).messages == messages[2:4]
        assert (await thread.load(exact=True)).messages == messages
        for size in SIZES:
            thread, every = store.thread(f"{size}"), numbered(*range(size))
            await thread.append(*every)
            for last in (1, 199, 200, 201, 400, 10_000):
                window = await thread.load(last=last, exact=True, entries=True)
                assert window.messages == every[-last:]
                assert window.entries[-1].version == size
        wrong: tuple[dict[str, Any], ...] = (
            {"turns": 1},
            {"max_tokens": 100},
            {"last": 3, "max_tokens": 100},
            {"summarize": Compaction(lambda previous, messages: "x")},
            {"last": 0},
        )
        for bounds in wrong:
            with raises(InvalidInput):
                await thread.load(exact=True, **bounds)
