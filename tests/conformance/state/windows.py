"""What a thread gives a prompt: the last messages, the last turns, or what lies between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.threads import numbered
from stateward.engines.passthrough import Passthrough
from stateward.errors import InvalidInput, Reset, WindowTooSmall
from stateward.ops import Fetched, Op, Outcome, Replace, Trim
from stateward.store import Store
from stateward.testing.conformance.harness import raises

SIZES = (1, 199, 200, 201, 400, 401, 450)  # around what engines read at once


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


@case
async def loading_gives_the_last_messages_or_all_of_them(h: StoreHarness) -> None:
    async with h.store() as store:
        for size in SIZES:
            thread = store.thread(f"{size}")
            every = numbered(*range(size))
            await thread.append(*every)
            window = await thread.load()
            assert (window.messages, window.omitted, window.version) == (every, 0, size)
            for last in (1, 20, 199, 200, 201, 400, 10_000):
                window = await thread.load(last=last)
                assert window.messages == every[-last:]
                assert window.omitted == size - len(window.messages)
                assert window.version == size


@case
async def loading_gives_what_lies_between_two_places(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        every = numbered(*range(450))
        await thread.append(*every[:225])
        middle = await thread.load()
        await thread.append(*every[225:])
        for after in (0, 1, 100, 225, 250, 449, 450):
            for upto in (None, 0, 1, 225, 300, 450, 9999):
                for last in (None, 1, 210, 9999):
                    window = await thread.load(after=after, upto=upto, last=last)
                    wanted = every[after:upto] if upto is None or upto > after else []
                    assert window.messages == (wanted if last is None else wanted[-last:])
                    assert (window.version, window.omitted) == (450, 450 - len(window.messages))
        for place in (middle, middle.cursor, str(middle.cursor), 225, "225"):
            assert (await thread.load(after=place)).messages == every[225:]
            assert (await thread.load(upto=place)).messages == every[:225]


@case
async def loading_after_a_place_that_is_not_in_this_history_is_a_reset(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append({"n": 1})
        window = await thread.load()
        with raises(Reset):
            await thread.load(after=2)
        with raises(Reset):
            await thread.load(after="1.another", last=5)
        await thread.delete()
        with raises(Reset):
            await thread.load(after=window)
        await thread.append({"n": 1})
        with raises(Reset):
            await thread.load(after=window)
        with raises(Reset):
            await thread.load(after=window, last=1)


@case
async def a_turn_starts_where_the_user_speaks(h: StoreHarness) -> None:
    messages = [
        said("system", "be kind"),
        said("user", "one"),
        said("assistant", [{"type": "tool_use", "id": "1"}]),
        said("user", [{"type": "tool_result", "tool_use_id": "1"}]),
        said("assistant", "first"),
        said("user", [{"type": "text", "text": "two"}]),
        {"role": "assistant", "tool_calls": [{"id": "2"}]},
        {"role": "tool", "tool_call_id": "2", "content": "result"},
        said("user", "three"),
    ]
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*messages)
        for turns, start in ((1, 8), (2, 5), (3, 1), (4, 1), (99, 1)):
            window = await thread.load(turns=turns)
            assert window.messages == messages[:1] + messages[start:]
            assert (window.omitted, window.pinned) == (start - 1, 1)
        assert (await thread.load(turns=1, upto=8)).messages == messages[:1] + messages[5:8]
        assert (await thread.load(turns=9, after=5)).messages == messages[5:]
        assert (await thread.load(turns=9, after=2, upto=5)).messages == messages[2:5]


@case
async def turns_are_found_however_long_they_are(h: StoreHarness) -> None:
    turn = [said("user", "question")] + [said("assistant", n) for n in range(149)]
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*(turn * 4))
        for turns in (1, 2, 3, 4, 5):
            assert (await thread.load(turns=turns)).messages == turn * min(turns, 4)


@case
async def a_load_is_asked_for_in_numbers_and_places(h: StoreHarness) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"last": 0},
        {"last": -1},
        {"last": 1.5},
        {"last": "5"},
        {"last": True},
        {"turns": 0},
        {"turns": "1"},
        {"last": 1, "turns": 1},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"max_tokens": 9, "count": 4},
        {"max_tokens": 9, "count": lambda message: "4"},
        {"max_tokens": 9, "oversized": "ignore"},
        {"summarize": lambda previous, messages: "a summary"},
        {"after": -1},
        {"after": "x"},
        {"after": "-1"},
        {"after": 1.5},
        {"after": "1" * 5000},
        {"upto": "\u0661"},
        {"upto": -1},
        {"upto": b"1"},
    )
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        for options in wrong:
            with raises(InvalidInput):
                await store.thread("t").load(**options)
        window = await store.thread("t").load(last=10**30)
        assert window.messages == numbered(1)


@case
async def loading_passes_over_what_was_trimmed_or_removed(h: StoreHarness) -> None:
    replica = await h.replica()
    it = h.entity("t", "thread")
    async with h.store() as store:
        thread = store.thread("t")
        every = numbered(*range(1, 451))
        await thread.append(*every)
        await replica.apply(it, Replace(dict.fromkeys(range(100, 440))))
        await replica.apply(it, Trim(10))
        held = every[10:99] + every[439:]
        window = await thread.load()
        assert (window.messages, window.omitted, window.version) == (held, 0, 450)
        for last in (1, 11, 12, 99):
            window = await thread.load(last=last)
            assert window.messages == held[-last:]
            assert window.omitted == len(held) - last


class Bodies(Passthrough):
    """An engine that counts its round trips, and the messages that it gives."""

    given = trips = 0

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = await super().execute(ops, deadline=deadline)
        self.trips += 1
        self.given += sum(o.count for o in outcomes if isinstance(o, Fetched))
        return outcomes


@case
async def a_window_reads_no_more_than_it_needs(h: StoreHarness) -> None:
    engine = Bodies(h.make_engine())
    async with Store(engine, namespace=h.namespace, world=h.world) as store:
        thread = store.thread("t")
        rule = said("system", "be kind")
        await thread.append(rule)
        for _ in range(10):
            await thread.append(*([said("user", "question"), said("assistant", "x" * 150)] * 500))
        wanted: tuple[dict[str, Any], ...] = (
            {"last": 20},
            {"turns": 10},
            {"max_tokens": 1000},
            {"max_tokens": 1000, "last": 500},
        )
        for options in wanted:
            engine.given = engine.trips = 0
            window = await thread.load(**options)
            assert window.messages[0] == rule
            assert window.messages[1]["role"] == "user"
            assert window.omitted == 10_001 - len(window.messages) > 9900
            assert engine.given < 300
            assert engine.trips <= 2
            if "max_tokens" in options:
                assert window.tokens is not None
                assert 800 < window.tokens <= 1000


@case
async def a_tool_call_is_never_without_its_results(h: StoreHarness) -> None:
    def call(*ids: str) -> dict[str, Any]:
        return {"role": "assistant", "tool_calls": [{"id": id} for id in ids]}

    def result(id: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": id, "content": "done"}

    work = [said("user", "go"), call("1", "2"), result("2"), result("1"), call("3"), result("3")]
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(said("user", "hello"), said("assistant", "hi"), *work)
        lasts = {2: work[4:], 3: [work[0], *work[4:]], 5: [work[0], *work[4:]], 6: work, 7: work}
        for last, messages in lasts.items():
            assert (await thread.load(last=last)).messages == messages
        with raises(WindowTooSmall):
            await thread.load(last=1)
        await thread.append(call("4", "5"), result("4"))
        window = await thread.load(turns=1)  # whoever goes on has a result to add first
        assert (window.messages, window.pending) == ([*work, call("4", "5"), result("4")], ("5",))
        await thread.append(said("user", "never mind"), said("assistant", "all right"))
        window = await thread.load(turns=2)
        assert window.messages[:6] == work
        assert window.messages[6:] == [said("user", "never mind"), said("assistant", "all right")]
        assert (window.pending, window.omitted) == ((), 4)


@case
async def results_whose_call_was_trimmed_are_left_out(h: StoreHarness) -> None:
    replica = await h.replica()
    calls = [{"type": "tool_use", "id": "1"}, {"type": "tool_use", "id": "2"}]
    messages = [
        said("user", "go"),
        said("assistant", calls),
        said("user", [{"type": "tool_result", "tool_use_id": "1"}]),
        said("user", [{"type": "tool_result", "tool_use_id": "2"}]),
        said("assistant", [{"type": "text", "text": "done"}]),
        said("user", "thanks"),
    ]
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*messages)
        await replica.apply(h.entity("t", "thread"), Trim(2))
        wanted: tuple[dict[str, Any], ...] = ({"last": 9}, {"turns": 9}, {"max_tokens": 999})
        for options in wanted:
            window = await thread.load(**options)
            assert (window.messages, window.omitted) == (messages[5:], 3)
        assert (await thread.load()).messages == messages[2:]


@case
async def a_message_over_the_budget_is_refused_or_shortened(h: StoreHarness) -> None:
    rule, long = said("system", "be kind"), said("user", "word " * 2000)
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(rule, said("user", "hello"), said("assistant", "hi"), long)
        with raises(WindowTooSmall):
            await thread.load(max_tokens=500)
        window = await thread.load(max_tokens=500, oversized="shorten")
        assert window.messages[0] == rule
        text = window.messages[1]["content"]
        assert "characters left out" in text
        assert (window.shortened, window.omitted, len(window.messages)) == (1, 2, 2)
        assert window.tokens is not None
        assert 300 < window.tokens <= 500
        with raises(WindowTooSmall):
            await thread.load(max_tokens=9)
        with raises(WindowTooSmall):
            await thread.load(max_tokens=9, oversized="shorten")
        assert (await thread.load()).messages[-1] == long

        def words(message: dict[str, Any]) -> int:
            return len(message["content"].split())

        window = await thread.load(max_tokens=2002, count=words)
        assert (window.messages, window.tokens) == ([rule, long], 2002)
        window = await thread.load(max_tokens=2005, count=words)
        assert (len(window.messages), window.tokens) == (4, 2004)


@case
async def a_turn_of_thousands_of_steps_keeps_its_question(h: StoreHarness) -> None:
    question = said("user", "count to 1500")
    steps: list[dict[str, Any]] = []
    for n in range(1500):
        steps.append(said("assistant", [{"type": "tool_use", "id": f"{n}"}]))
        steps.append(said("user", [{"type": "tool_result", "tool_use_id": f"{n}"}]))
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(said("user", "hello"), said("assistant", "hi"), question, *steps)
        window = await thread.load(last=5)
        assert window.messages == [question, *steps[-4:]]
        assert window.omitted == 3003 - 5
        lost = [{"type": "tool_result", "tool_use_id": "lost"}]
        await thread.append(said("assistant", "done"), said("user", lost), said("user", "thanks"))
        assert (await thread.load(last=1)).messages == [said("user", "thanks")]


@case
async def a_beginning_that_another_replica_rewrote_is_seen(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t")
        await thread.append(said("user", "hello"), said("assistant", "hi"))
        await thread.append(said("user", "and now"), said("assistant", "well"))
        assert (await thread.load(last=2)).pinned == 0
        rules = said("system", "be kind")
        await other.thread("t").edit({1: rules})
        assert (await thread.load(last=2)).messages[0] == rules
        await other.thread("t").edit({1: None})
        assert (await thread.load(last=2)).pinned == 0
        await thread.append(said("user", "again"))
        assert (await thread.load(last=1)).pinned == 0
