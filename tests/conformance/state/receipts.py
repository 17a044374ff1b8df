"""Receipts: what an agent was given when it said a turn, and what of that is still there."""

from __future__ import annotations

from random import Random
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import severable, until
from stateward.context.compaction import Compaction
from stateward.errors import ConversationDeletedError, InvalidInput, NotKept, NotYoursError, Reset
from stateward.ops import Fetch, Fetched, Log, Replace, Restore, Trim
from stateward.records import Appended, Cursor
from stateward.state.window_record import Gone, Knowledge, Window
from stateward.store import Store
from stateward.testing.conformance.harness import raises

Message = dict[str, Any]


def ask(n: int) -> Message:
    return {"role": "user", "content": f"question {n}"}


def say(n: int) -> Message:
    return {"role": "assistant", "content": f"answer {n}"}


async def known(store: Store, version: int, id: str = "t") -> Knowledge:
    found = await store.knew(id, version)
    assert found is not None
    return found


async def turns(store: Store, first: int, last: int, id: str = "t") -> None:
    for n in range(first, last + 1):
        await store.thread(id, user="u").append(ask(n), say(n))


# --- keeping ----------------------------------------------------------------------------


@case
async def a_turn_keeps_what_its_window_gave(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await turns(store, 1, 5)
        thread = store.thread("t", user="u")
        window = await thread.load(last=4)
        said = await thread.append(ask(6), say(6), saw=window)
        await turns(store, 7, 9)
        for version in (said.version, said.version - 1, str(said.cursor), said.cursor):
            then = await other.knew("t", version, user="u")
            assert then is not None
            assert (then.thread, then.version, then.gone) == ("t", 12, ())
            assert then.messages == window.messages == [ask(4), say(4), ask(5), say(5)]
            assert then.receipt == window.receipt
            assert (then.summary, then.user, then.workflows) == (None, {}, [])
            assert then.numbers == (7, 8, 9, 10)
        receipt = window.receipt
        assert (receipt.version, receipt.stamp) == (10, window.cursor.stamp)
        assert (receipt.given, receipt.last, receipt.omitted) == (4, 4, 6)
        assert receipt.left_out == {"outside": 6}


@case
async def a_turn_keeps_what_its_context_gave(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 2)
        await store.user("u").put({"name": "Noor"})
        await store.user("u").document("taste").put({"tea": True})
        run = store.workflow("w", kind="refund", user="u", input=1)
        await run.__aenter__()
        context = await store.context(user="u", thread="t")
        said = await store.thread("t", user="u").append(ask(3), say(3), saw=context)
        then = await known(store, said.version)
        assert then.messages == context.thread.messages
        assert then.user == context.user
        assert then.workflows == context.workflows
        assert (then.receipt, then.gone) == (context.receipt, ())
        await store.user("u").put({"name": "Nora"})
        await store.user("u").document("taste").delete()
        await run.__aexit__(None, None, None)
        then = await known(store, said.version)
        assert (then.user, then.workflows) == (context.user, []), "documents remember"
        assert [(gone.what, gone.why) for gone in then.gone] == [("workflow", "changed")]
        await store.user("u").document("taste").delete(forget=True)
        then = await known(store, said.version)
        assert then.user.keys() == {"default"}
        assert ("document", "taste", "deleted") in [(g.what, g.name, g.why) for g in then.gone]


@case
async def without_a_history_what_changed_is_named(h: StoreHarness) -> None:
    async with h.store(keep=0) as store:
        await turns(store, 1, 1)
        await store.user("u").put({"name": "Noor"})
        await store.user("u").document("taste").put({"tea": True})
        context = await store.context(user="u", thread="t")
        said = await store.thread("t", user="u").append(ask(2), say(2), saw=context)
        await store.user("u").put({"name": "Nora"})
        await store.user("u").document("taste").delete()
        then = await known(store, said.version)
        assert then.user == {}
        assert sorted((gone.what, gone.why) for gone in then.gone) == [
            ("document", "changed"),
            ("document", "deleted"),
        ]
        await store.user("u").document("taste").put({"tea": True})
        then = await known(store, said.version)
        assert then.user == {}, "another document of the same name, value and version"


@case
async def a_turn_that_was_entered_keeps_what_it_gave(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 3)
        await store.user("u").put({"name": "Noor"})
        for n, context in ((4, False), (5, True)):
            async with store.thread("t", user="u").turn(
                key=f"r-{n}", last=2, context=context
            ) as turn:
                given = turn.context or turn.window
                said = await turn.store(ask(n), say(n))
            assert given is not None
            then = await known(store, said.version)
            assert then.messages == turn.messages
            assert then.receipt == given.receipt
            assert set(then.user) == (set(turn.context.user) if turn.context else set())


@case
async def the_first_ones_receipt_stays(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 3)
        thread = store.thread("t", user="u")
        first, second = await thread.load(last=2), await thread.load(last=4)
        said = await thread.append(ask(4), say(4), key="k", saw=first)
        again = await thread.append(ask(4), say(4), key="k", saw=second)
        other = await thread.append(ask(4), say(5), key="k", saw=second, repeat="first")
        assert (again.status, other.status) == ("duplicate", "duplicate")
        assert (await known(store, said.version)).receipt == first.receipt


@case
async def a_receipt_may_come_with_anything_that_an_append_takes(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 3)
        thread = store.thread("t", user="u")
        async with thread.lead() as lease:
            taken: list[Any] = [
                {"key": "k"},
                {"expect": 8},
                {"fence": lease},
                {"vars": {"topic": "tea"}},
            ]
            for n, options in enumerate(taken, 4):
                window = await thread.load(last=3)
                said = await thread.append(ask(n), say(n), saw=window, **options)
                then = await known(store, said.version)
                assert (then.messages, then.gone) == (window.messages, ())
        kept = store.thread("t", user="u", retain=3600)
        window = await kept.load(last=3)
        said = await kept.append(ask(9), saw=window)
        assert (await known(store, said.version)).receipt == window.receipt


@case
async def a_turn_that_was_kept_during_an_outage_brings_its_receipt(h: StoreHarness) -> None:
    options: dict[str, Any] = {"read_timeout": 10, "write_timeout": 10, "breaker_seconds": 0.1}
    async with severable(h, **options) as store, h.store() as other:
        await turns(other, 1, 3)
        thread = store.thread("t", user="u")
        window = await thread.load(last=2)
        with store.faults.unavailable():
            assert (await thread.append(ask(4), say(4), saw=window)).status == "spilled"

        async def is_well() -> bool:
            health = await store.health()
            return health.ok and not health.spill_depth

        await until(h, is_well)
        then = await known(other, 8)
        assert (then.messages, then.receipt) == (window.messages, window.receipt)
        assert then.numbers == (5, 6)
        assert not then.receipt.unread
        with store.faults.unavailable():
            async with thread.turn(key="r-5", last=2) as turn:
                assert (await turn.store(ask(5), say(5))).status == "spilled"
        await until(h, is_well)
        then = await known(other, 10)
        assert (then.messages, then.numbers, then.gone) == ([], (), ())
        assert then.receipt.unread, "it was given nothing, and says so"


@case
async def what_was_given_is_that_of_the_same_thread_and_user(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 2)
        await turns(store, 1, 2, id="other")
        thread = store.thread("t", user="u")
        other = await store.thread("other", user="u").load(last=2)
        context = await store.context(user="u", thread="t")
        wrong: Any
        for wrong in (other, "the window", [ask(1)], 7, Window([], 0, False, 0, other.cursor)):
            with raises(InvalidInput):
                await thread.append(ask(3), saw=wrong)
        with raises(InvalidInput):
            await store.thread("t").append(ask(3), saw=context)
        assert (await thread.load()).version == 4


@case
async def a_turn_without_a_receipt_says_so(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 2)
        assert await store.knew("t", 2) is None
        for version in (5, 100):
            with raises(InvalidInput):
                await store.knew("t", version)
        with raises(InvalidInput):
            await store.knew("nowhere", 1)
        with raises(NotYoursError):
            await store.knew("t", 2, user="v")
        with raises(Reset):
            await store.knew("t", "2.another")
        await store.thread("t", user="u").append(ask(3), saw=await store.thread("t").load())
        await store.thread("t", user="u").delete()
        with raises(InvalidInput):
            await store.knew("t", 5)


@case
async def an_empty_thread_is_known_to_have_been_empty(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", user="u")
        said = await thread.append(ask(1), say(1), saw=await thread.load(last=20))
        then = await known(store, said.version)
        assert (then.messages, then.receipt.version, then.gone) == ([], 0, ())


# --- what is not there any more ---------------------------------------------------------


@case
async def what_was_edited_or_removed_since_is_named(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 5)
        thread = store.thread("t", user="u")
        await thread.edit({3: None, 8: {"role": "assistant", "content": "before"}})
        window = await thread.load(last=6)
        said = await thread.append(ask(6), say(6), saw=window)
        assert (await known(store, said.version)).messages == window.messages
        await thread.edit({7: say(0), 9: None, 1: None, 2: ask(0)})
        then = await known(store, said.version)
        assert then.messages == [window.messages[n] for n in (0, 1, 3, 5)]
        assert then.gone == (Gone("message", "7", "edited"), Gone("message", "9", "removed"))
        await thread.truncate(after=4)
        with raises(InvalidInput):
            await store.knew("t", said.version)


@case
async def what_was_removed_before_it_was_read_is_not_missed(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 8)
        thread = store.thread("t", user="u")
        await thread.edit(dict.fromkeys((2, 3, 9, 10, 14)))
        wanted: list[Any] = [{"last": 5}, {"turns": 3}, {}, {"last": 4, "exact": True}]
        for bounds in wanted:
            window = await thread.load(**bounds)
            said = await thread.append(ask(9), saw=window)
            then = await known(store, said.version)
            assert (then.messages, then.gone) == (window.messages, ())
            if not bounds:
                await thread.edit({said.version: None})


@case
async def system_messages_and_pairs_are_found_again(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", user="u")
        await thread.append({"role": "system", "content": "Be kind."}, ask(1), say(1))
        calls = [{"id": "lost", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        await thread.append(ask(2), {"role": "assistant", "content": None, "tool_calls": calls})
        await turns(store, 3, 6)
        wanted: list[Any] = [{"last": 8}, {"max_tokens": 100}, {"turns": 5}, {"last": 20}]
        window, said = await thread.load(), Appended("stored", 0, Cursor(0))
        for bounds in wanted:
            window = await thread.load(**bounds)
            assert window.pinned == 1
            said = await thread.append(ask(7), say(7), saw=window)
            then = await known(store, said.version)
            assert (then.messages, then.gone) == (window.messages, ())
            assert then.receipt.tokens == window.tokens
            assert sum(then.receipt.left_out.values()) == window.omitted
        await thread.edit({1: None})
        then = await known(store, said.version)
        assert then.messages == window.messages[1:]
        assert then.gone == (Gone("message", "1", "removed"),)


@case
async def a_summary_is_shown_as_long_as_it_is_the_same(h: StoreHarness) -> None:
    async def summarize(previous: str | None, messages: list[Message]) -> str:
        return f"{previous or ''}+{len(messages)}"

    compaction = Compaction(summarize, after=6, keep=2)
    async with h.store() as store:
        await turns(store, 1, 5)
        thread = store.thread("t", user="u")
        window = await thread.load(summarize=compaction)
        assert window.summary == "+8"
        said = await thread.append(ask(6), say(6), saw=window)
        then = await known(store, said.version)
        assert (then.summary, then.messages, then.gone) == ("+8", window.messages, ())
        assert then.receipt.left_out == {"summarised": 8}
        await turns(store, 7, 9)
        await thread.load(summarize=compaction)
        then = await known(store, said.version)
        assert (then.summary, then.gone) == (None, (Gone("summary", "", "changed"),))
        await thread.edit({1: None})
        assert (await known(store, said.version)).gone == (Gone("summary", "", "deleted"),)


@case
async def texts_that_were_cut_are_named(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", user="u")
        await thread.append({"role": "user", "content": "long " * 500})
        window = await thread.load(max_tokens=50, oversized="shorten")
        assert window.shortened
        said = await thread.append(say(1), saw=window)
        assert (await known(store, said.version)).gone == (Gone("message", "", "shortened"),)


@case
async def what_others_removed_without_a_trace_is_not_guessed(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        await turns(store, 1, 4)
        thread = store.thread("t", user="u")
        said = await thread.append(ask(5), say(5), saw=await thread.load(last=3))
        await a.apply(thread.handle.entity, Replace({7: None}))
        then = await known(store, said.version)
        assert (then.messages, then.gone) == ([], (Gone("message", "", "unknown"),))


@case
async def what_was_trimmed_is_named_by_number(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        await turns(store, 1, 4)
        thread = store.thread("t", user="u")
        window = await thread.load(last=4)
        said = await thread.append(ask(5), say(5), saw=window)
        await a.apply(thread.handle.entity, Trim(6))
        then = await known(store, said.version)
        assert then.messages == window.messages[2:]
        assert then.gone == (Gone("message", "5", "trimmed"), Gone("message", "6", "trimmed"))


@case
async def what_answers_a_window_of_a_life_before_is_not_stored_in_this_one(h: StoreHarness) -> None:
    async with h.store() as store:
        await turns(store, 1, 2)
        thread = store.thread("t", user="u")
        window = await thread.load(last=2)
        await thread.delete()
        await turns(store, 1, 2)
        with raises(ConversationDeletedError):
            await thread.append(ask(3), saw=window)
        assert (await thread.load()).version == 4


# --- forks ------------------------------------------------------------------------------


@case
async def the_turns_that_a_fork_shares_have_their_receipts_with_its_origin(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", user="u")
        await turns(store, 1, 2)
        await thread.edit({2: None, 3: None})
        windows = {}
        for n in (3, 4, 5):
            windows[n] = await thread.load(last=2)
            await thread.append(ask(n), say(n), saw=windows[n])
        fork = await thread.fork(to="fork", at=8)  # messages 1, 4, 5, 6, 7 and 8 of the origin
        own = await fork.load(last=3)
        said = await fork.append(ask(6), say(6), saw=own)
        await fork.fork(to="twig")
        for number in (3, 4):
            then = await known(store, number, "fork")
            assert (then.thread, then.version, then.messages) == ("t", 6, windows[3].messages)
        assert await store.knew("fork", 1) is None, "it has none in the origin either"
        with raises(Reset):
            await store.knew("fork", "1.another")
        assert (await known(store, said.version, "fork")).messages == own.messages
        await fork.edit({5: say(0), 6: None})
        with raises(InvalidInput):
            await store.knew("fork", 6)
        then = await known(store, 6, "twig")
        assert (then.thread, then.messages, then.gone) == ("t", windows[4].messages, ())
        then = await known(store, 8, "twig")
        assert (then.thread, then.version) == ("fork", said.version)
        assert [(gone.name, gone.why) for gone in then.gone] == [("5", "edited"), ("6", "removed")]
        await thread.truncate(after=6)
        assert (await known(store, 4, "twig")).messages == windows[3].messages
        with raises(NotKept):
            await store.knew("twig", 6)
        await thread.delete()
        await turns(store, 1, 5)
        with raises(NotKept):
            await store.knew("fork", 4)


# --- together ---------------------------------------------------------------------------


@case
async def whatever_happens_each_turn_is_shown_as_it_was_or_named(h: StoreHarness) -> None:
    a, chance = await h.replica(), Random(17)
    given: dict[int, list[Message]] = {}
    async with h.store() as store:
        thread = store.thread("t", user="u")
        for n in range(60):
            bounds: Any = chance.choice(
                ({"last": 6}, {"turns": 2}, {"max_tokens": 80}, {}, {"last": 5, "exact": True})
            )
            window = await thread.load(**bounds)
            said = await thread.append(ask(n), say(n), saw=window)
            given[said.version] = window.messages
            if chance.random() < 0.2 and n:
                numbers = {chance.randint(1, said.version) for _ in range(chance.randint(1, 3))}
                await thread.edit({of: chance.choice((None, say(1000 * of + n))) for of in numbers})
            if chance.random() < 0.05:
                await thread.truncate(after=said.version - chance.randint(1, 5))
        entity = thread.handle.entity
        before = {version: await shown(store, "t", version) for version in given}
        (seen,) = await a.execute(Fetch(entity, log=Log(whole=True), all_documents=True))
        assert isinstance(seen, Fetched)
        copy = h.entity("copy", "thread")
        await a.apply(copy, Restore(seen.head, seen.entries, seen.documents))
        for version, messages in given.items():
            then = before[version]
            assert await shown(store, "copy", version) == then
            if then is not None:
                found, gone = then
                rest = [message for message in messages if message not in found]
                assert len(messages) == len(found) + len(gone), (version, messages, then)
                assert [m for m in messages if m in found] == found
                assert bool(rest) == bool(gone)
        assert sum(then is not None for then in before.values()) > 30
        assert any(then is not None and then[1] for then in before.values())


async def shown(store: Store, id: str, version: int) -> tuple[list[Message], Any] | None:
    """What the store says of a turn; None: the turn, or its end, is not there any more."""
    try:
        then = await store.knew(id, version)
    except InvalidInput:
        return None
    return None if then is None else (then.messages, then.gone)
