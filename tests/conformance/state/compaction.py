"""Older turns as one summary: made once, shared by replicas, never of a changed history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conformance.state.belongings import exported
from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.context.compaction import Compaction
from stateward.engines.passthrough import Passthrough
from stateward.errors import InvalidInput, NotYoursError
from stateward.ops import Commit, Op, Outcome, Replace, Trim
from stateward.state.threads import Thread
from stateward.store import Store
from stateward.testing.conformance.harness import raises

Message = dict[str, Any]


def turns(*numbers: int) -> list[Message]:
    """A question and an answer for each number."""
    said: list[Message] = []
    for number in numbers:
        said.append({"role": "user", "content": f"q{number}"})
        said.append({"role": "assistant", "content": f"a{number}"})
    return said


def told(previous: str | None, messages: list[Message]) -> str:
    """A summary that says exactly what it was made of."""
    words = [message["content"] for message in messages if message["role"] != "assistant"]
    return " ".join([previous or "", *words]).strip()


class Told:
    """Summarises, and remembers how often; may do something else meanwhile."""

    def __init__(self, meanwhile: Any = None, error: Exception | None = None) -> None:
        self.calls: list[tuple[str | None, list[Message]]] = []
        self._meanwhile = meanwhile
        self._error = error

    async def __call__(self, previous: str | None, messages: list[Message]) -> str:
        self.calls.append((previous, messages))
        if self._error is not None:
            raise self._error
        if self._meanwhile is not None:
            await self._meanwhile()
        return told(previous, messages)


async def texts(thread: Thread, **options: Any) -> list[str]:
    return [message["content"] for message in (await thread.load(**options)).messages]


@case
async def older_turns_become_a_summary_and_all_stays_stored(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", "u")
        summarize = Told()
        compaction = Compaction(summarize, after=8, keep=4)
        await thread.append(*turns(1, 2, 3, 4))
        window = await thread.load(summarize=compaction)
        assert (window.summary, window.messages) == (None, turns(1, 2, 3, 4))
        await thread.append(*turns(5))
        window = await thread.load(summarize=compaction)
        assert (window.summary, window.messages) == ("q1 q2 q3", turns(4, 5))
        assert (window.omitted, window.summarised, window.version) == (6, 6, 10)
        assert summarize.calls == [(None, turns(1, 2, 3))]
        assert (await thread.load()).messages == turns(1, 2, 3, 4, 5)
        await thread.append(*turns(6, 7))
        theirs = Compaction(Told(), after=8, keep=4)  # another replica, and nothing is due
        window = await other.thread("t", "u").load(summarize=theirs)
        assert (window.summary, window.messages) == ("q1 q2 q3", turns(4, 5, 6, 7))
        assert (await other.thread("t", "u").load(turns=1, summarize=theirs)).messages == turns(7)
        await thread.append(*turns(8))
        window = await other.thread("t", "u").load(summarize=theirs)
        assert (window.summary, window.messages) == ("q1 q2 q3 q4 q5 q6", turns(7, 8))
        assert theirs.summarize.calls == [("q1 q2 q3", turns(4, 5, 6))]  # type: ignore[attr-defined]
        summary = await thread.summary()
        assert summary is not None
        assert (summary.text, summary.upto, summary.messages) == (window.summary, 12, 12)
        context = await store.context(user="u", thread="t", summarize=compaction)
        assert (context.thread.summary, context.thread.messages) == (window.summary, turns(7, 8))
        assert (store.counters.summaries_made, other.counters.summaries_made) == (1, 1)
        with raises(NotYoursError):
            await store.thread("t", "somebody else").summary()


@case
async def a_summary_that_fails_leaves_a_trimmed_window(h: StoreHarness) -> None:
    wrong: tuple[Any, ...] = (
        Told(error=RuntimeError("no answer")),
        lambda previous, messages: None,
        lambda previous, messages: "  ",
    )
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*turns(*range(20)))
        for summarize in wrong:
            before = store.counters.summaries_failed
            compaction = Compaction(summarize, after=4, keep=2)
            window = await thread.load(summarize=compaction)
            assert (window.summary, window.messages) == (None, turns(16, 17, 18, 19))
            assert (window.omitted, store.counters.summaries_failed) == (32, before + 1)
            assert await texts(thread, last=2, summarize=compaction) == ["q19", "a19"]
        failing = Compaction(wrong[0], after=4, keep=2)
        with raises(RuntimeError):
            await thread.compact(failing)
        with raises(InvalidInput):
            await thread.compact(Compaction(wrong[1], after=4, keep=2))
        assert await thread.summary() is None
        assert (await thread.load()).messages == turns(*range(20))


@case
async def two_replicas_do_not_make_the_same_summary(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread, theirs = store.thread("t"), other.thread("t")
        await thread.append(*turns(*range(6)))
        second = Told()
        others = Compaction(second, after=6, keep=2)

        async def meanwhile() -> None:
            window = await theirs.load(summarize=others)
            assert window.summary is None
            await theirs.append(*turns(6))

        first = Told(meanwhile)
        window = await thread.load(summarize=Compaction(first, after=6, keep=2))
        assert window.summary == "q0 q1 q2 q3 q4"
        assert (len(first.calls), len(second.calls), other.counters.summaries_elsewhere) == (
            1,
            0,
            1,
        )
        window = await theirs.load(summarize=others)
        assert (window.summary, window.messages) == ("q0 q1 q2 q3 q4", turns(5, 6))
        assert second.calls == []


@case
async def an_edit_of_what_is_being_summarised_discards_the_summary(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t")
        await thread.append(*turns(*range(6)))

        async def redact() -> None:
            await other.thread("t").edit({1: {"role": "user", "content": "***"}})

        compaction = Compaction(Told(redact), after=6, keep=2)
        window = await thread.load(summarize=compaction)
        assert (window.summary, store.counters.summaries_discarded) == (None, 1)
        assert await thread.summary() is None
        window = await thread.load(summarize=Compaction(Told(), after=6, keep=2))
        assert window.summary == "*** q1 q2 q3 q4"


@case
async def a_summary_does_not_bring_back_a_deleted_thread(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", "u")
        await thread.append(*turns(*range(6)))

        async def erase() -> None:
            await other.user("u").erase()

        compaction = Compaction(Told(erase), after=6, keep=2)
        await thread.load(summarize=compaction)
        assert store.counters.summaries_discarded == 1
        assert not (await thread.load()).exists
        assert [info.id async for info in store.threads()] == []
        await thread.append(*turns(7))
        assert await thread.summary() is None


@case
async def an_edit_below_the_range_drops_the_summary(h: StoreHarness) -> None:
    replica = await h.replica()
    it = h.entity("t", "thread")
    compaction = Compaction(Told(), after=6, keep=4)
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*turns(*range(8)))
        for round in range(5):
            summary = await thread.compact(compaction)
            assert summary is not None
            assert summary.upto == 12
            if round == 0:
                await thread.edit({12: {"role": "assistant", "content": "a secret"}})
            elif round == 1:
                await thread.edit({1: {"role": "user", "content": "x"}, 16: {"role": "user"}})
            elif round == 2:
                await thread.edit({4: None})
            elif round == 3:
                await replica.apply(it, Replace({6: None}))
            else:
                await replica.apply(it, Trim(7))
            assert await thread.summary() is None
        summary = await thread.compact(compaction)
        await thread.edit({14: {"role": "assistant", "content": "above"}, 99: None})
        assert await thread.summary() is None  # a removal, even of what is not there
        summary = await thread.compact(compaction)
        await thread.edit({14: {"role": "assistant", "content": "above"}})
        assert await thread.summary() == summary
        for changes in ({}, {0: None}, {"1": None}, {1: "text"}):
            with raises(InvalidInput):
                await thread.edit(changes)  # type: ignore[arg-type]


@case
async def system_messages_are_not_summarised(h: StoreHarness) -> None:
    rule = {"role": "system", "content": "be kind"}
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(rule, *turns(*range(8)))
        summarize = Told()
        compaction = Compaction(summarize, after=6, keep=2)
        for _ in range(2):
            window = await thread.load(summarize=compaction)
            assert window.messages == [rule, *turns(7)]
            assert (window.summary, window.pinned) == ("q0 q1 q2 q3 q4 q5 q6", 1)
            assert (window.omitted, window.summarised) == (14, 14)
        assert len(summarize.calls) == 1


@case
async def a_long_history_is_summarised_in_parts(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*turns(*range(300)))
        summarize = Told()
        compaction = Compaction(summarize, after=40, keep=20, most=100)
        window = await thread.load(summarize=compaction)  # a turn waits for one part only
        assert (window.summarised, len(window.messages)) == (100, 80)
        summary = await thread.compact(compaction)
        assert summary is not None
        assert summary.text == " ".join(f"q{n}" for n in range(290))
        assert summary.upto == 580
        assert max(len(messages) for _, messages in summarize.calls) == 100
        assert await thread.compact(compaction) == summary
        assert len(summarize.calls) == 6


@case
async def a_summary_is_made_in_the_background(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*turns(*range(8)))
        compaction = Compaction(Told(), after=8, keep=4, background=True)
        window = await thread.load(summarize=compaction)
        assert (window.summary, window.messages) == (None, turns(*range(8)))
        for _ in range(10_000):
            if await thread.summary() is not None:
                break
            await h.world.pause(0.001)
        window = await thread.load(summarize=compaction)
        assert (window.summary, window.messages) == ("q0 q1 q2 q3 q4 q5", turns(6, 7))


@case
async def a_summary_counts_towards_the_tokens(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*turns(*range(8)))
        compaction = Compaction(lambda previous, messages: "a b c", after=8, keep=6)

        def count(message: Message) -> int:
            return len(message["content"].split())

        for most, left in ((9, 6), (7, 4), (5, 2)):
            window = await thread.load(max_tokens=most, count=count, summarize=compaction)
            assert (len(window.messages), window.tokens) == (left, left + 3)


@case
async def a_summary_is_exported_with_its_thread(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", "u")
        await thread.append(*turns(*range(6)))
        await thread.compact(Compaction(Told(), after=6, keep=2))
        path = h.path("export.jsonl")
        await store.user("u").export(path)
        found = [line["value"] for line in exported(path) if line.get("name") == "summary"]
        assert [value["text"] for value in found] == ["q0 q1 q2 q3 q4"]


@case
async def a_compaction_is_asked_for_in_numbers_and_a_function(h: StoreHarness) -> None:
    for options in ({"after": 0}, {"keep": 0}, {"after": 5, "keep": 6}, {"most": "9"}):
        with raises(InvalidInput):
            Compaction(told, **options)
    with raises(InvalidInput):
        Compaction("text")  # type: ignore[arg-type]
    async with h.store() as store:
        with raises(InvalidInput):
            await store.thread("t").load(summarize=Compaction(told), after=1)
        assert await store.thread("t").compact(Compaction(told)) is None
        assert not (await store.thread("t").load(summarize=Compaction(told))).exists


class Written(Passthrough):
    """An engine that counts the commits it is given."""

    commits = 0

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.commits += sum(type(op) is Commit for op in ops)
        return await super().execute(ops, deadline=deadline)


@case
async def a_turn_that_is_too_long_to_be_divided_costs_no_write(h: StoreHarness) -> None:
    engine = Written(h.make_engine())
    async with Store(engine, namespace=h.namespace, world=h.world) as store:
        thread = store.thread("t")
        await thread.append({"role": "user", "content": "do it all"})
        await thread.append(*[{"role": "assistant", "content": f"step {n}"} for n in range(20)])
        summarize = Told()
        compaction = Compaction(summarize, after=8, keep=4)
        before = engine.commits
        for _ in range(3):
            assert (await thread.load(summarize=compaction)).summary is None
        assert await thread.compact(compaction) is None
        assert (engine.commits, summarize.calls) == (before, [])
        await thread.append(*turns(1, 2, 3))
        assert (await thread.load(summarize=compaction)).summary == "do it all q1"
