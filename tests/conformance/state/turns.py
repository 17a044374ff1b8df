"""Turns: a request is answered once, however often, wherever and whenever it is delivered."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside, severable, until
from stateward.context.compaction import Compaction
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    LeaseLost,
    NotYoursError,
    StateConflictError,
    StoreUnavailable,
    WindowTooSmall,
)
from stateward.kinds import turn_of
from stateward.layers.policy import Policy
from stateward.ops import Acquire, Drop, Release
from stateward.records import Appended
from stateward.state.threads import Thread
from stateward.store import Store
from stateward.testing.conformance.harness import raises

QUESTION = {"role": "user", "content": "Where is my order?"}
RENEWED = 1.5  # a ttl that is renewed within the patience of a test
PATIENT = Policy(read_timeout=60.0, write_timeout=60.0)


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def messages(store: Store, id: str = "t") -> list[dict[str, Any]]:
    return (await store.thread(id).load()).messages


async def deliver(thread: Thread, key: str, text: str, **options: Any) -> Any:
    """One delivery, whose model would say this."""
    async with thread.turn(key=key, last=20, **options) as turn:
        if turn.answer is None:
            await turn.store(QUESTION, says(text))
    return turn.answer


# --- the same request, again ------------------------------------------------------------


@case
async def a_repeated_delivery_gets_the_stored_answer(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        thread, theirs = store.thread("t", user="u"), other.thread("t", user="u")
        async with thread.turn(key="r-1", last=20) as turn:
            assert (turn.answer, turn.stored, turn.known) == (None, [], True)
            assert turn.messages == []
            said = await turn.store(QUESTION, says("On its way."))
            assert (said.status, said.version) == ("stored", 2)
            assert turn.answer == says("On its way.")
        await thread.append({"n": 3})
        for replica in (thread, theirs):
            async with replica.turn(key="r-1", last=20) as again:
                assert again.answer == says("On its way.")
                assert again.stored == [QUESTION, says("On its way.")]
                assert again.known
        assert await deliver(theirs, "r-2", "Here.") == says("Here.")
        assert (await messages(store))[:2] == [QUESTION, says("On its way.")]
        assert len(await messages(store)) == 5


@case
async def whoever_stores_without_looking_gets_the_first_answer_too(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        assert await deliver(store.thread("t"), "r", "first") == says("first")
        async with other.thread("t").turn(key="r") as turn:
            said = await turn.store(QUESTION, says("second"))
            assert (said.status, said.version) == ("duplicate", 2)
            assert said.messages == (QUESTION, says("first"))
        assert turn.answer == says("first")
        assert await messages(store) == [QUESTION, says("first")]


@case
async def of_two_that_answer_at_once_the_first_to_store_counts(h: StoreHarness) -> None:
    """As when the first was paused past its lease: it goes on, and is content with the second's."""
    a = await h.replica()
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        async with store.thread("t").turn(key="r", ttl=60) as paused:
            await a.apply(turn_of(h.entity("t", "thread"), "r"), Drop())  # its lease is gone
            assert await deliver(other.thread("t"), "r", "taken over") == says("taken over")
            assert paused.answer is None
            said = await paused.store(QUESTION, says("late"), {"more": 1})
            assert (said.status, said.version) == ("duplicate", 2)
        assert paused.answer == says("taken over")
        assert paused.stored == [QUESTION, says("taken over")]
        assert await messages(store) == [QUESTION, says("taken over")]


@case
async def a_second_delivery_waits_for_the_first(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        asked: list[str] = []

        async def answered(replica: Store, text: str) -> Any:
            async with replica.thread("t").turn(key="r", last=20, ttl=60, wait=None) as turn:
                if turn.answer is None:
                    asked.append(text)
                    await h.world.pause(0.05)
                    await turn.store(QUESTION, says(text))
            return turn.answer

        waiters = [Beside(answered, (store, other)[n % 2], f"{n}") for n in range(6)]
        answers = [await waiter.result() for waiter in waiters]
        assert len(asked) == 1, "the model is asked once"
        assert answers == [says(asked[0])] * 6
        assert await messages(store) == [QUESTION, says(asked[0])]


@case
async def a_second_delivery_waits_no_longer_than_it_is_told(h: StoreHarness) -> None:
    async with (
        h.store(policy=PATIENT) as store,
        h.store(policy=PATIENT) as other,
        store.thread("t", user="u").turn(key="r", ttl=60) as turn,
    ):
        theirs = other.thread("t", user="u")
        for wait in (0, 0.05):
            with raises(LeaseHeld) as caught:
                await deliver(theirs, "r", "other", wait=wait)
            assert "'r'" in str(caught.error)
            assert "'t'" in str(caught.error)
            assert caught.error.remaining > 0
        await turn.store(QUESTION, says("first"))
        assert await deliver(theirs, "r", "other", wait=0) == says("first")


@case
async def a_delivery_that_died_is_succeeded_after_its_ttl(h: StoreHarness) -> None:
    async with severable(h, read_timeout=10, write_timeout=10) as store, h.store() as other:
        turn = store.thread("t").turn(key="r", ttl=h.span)
        await turn.__aenter__()
        store.faults.unavailable()  # it renews nothing any more
        with raises(LeaseHeld):
            await deliver(other.thread("t"), "r", "too early", wait=0)
        await h.pass_time(h.span)
        assert await deliver(other.thread("t"), "r", "successor", wait=5) == says("successor")
        turn.give_up()
        await turn.__aexit__(None, None, None)


@case
async def a_delivery_whose_process_died_before_it_stored_is_succeeded(h: StoreHarness) -> None:
    a = await h.replica()
    await a.apply(turn_of(h.entity("t", "thread"), "r"), Acquire("dead", h.span, "a dead process"))
    async with h.store(policy=PATIENT) as store:
        with raises(LeaseHeld) as caught:
            await deliver(store.thread("t"), "r", "too early", wait=0)
        assert caught.error.holder == "a dead process"
        await h.pass_time(h.span)
        assert await deliver(store.thread("t"), "r", "successor", wait=0) == says("successor")


@case
async def a_long_answer_keeps_its_request(h: StoreHarness) -> None:
    a = await h.replica()
    claim = turn_of(h.entity("t", "thread"), "r")
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        async with store.thread("t").turn(key="r", ttl=RENEWED) as turn:
            first = (await a.head(claim)).lease
            assert first is not None
            await h.pass_time(0.6 * RENEWED)
            renewed = first
            while renewed.until <= first.until:
                await h.world.pause(0.01)
                lease = (await a.head(claim)).lease
                assert lease is not None
                renewed = lease
            await h.pass_time(0.5 * RENEWED)  # now the first grant would be over
            with raises(LeaseHeld):
                await deliver(other.thread("t"), "r", "other", wait=0)
            await turn.store(QUESTION, says("long"))
        assert await deliver(other.thread("t"), "r", "other", wait=0) == says("long")


@case
async def a_turn_that_fails_is_free_at_once(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        with raises(ZeroDivisionError):
            async with store.thread("t").turn(key="r", ttl=60):
                raise ZeroDivisionError("the block's own error comes through")
        async with store.thread("t").turn(key="r", ttl=60, wait=0) as turn:
            assert turn.answer is None, "left without an answer: so that it can be tried again"
            turn.give_up()
        with raises(WindowTooSmall):
            await store.thread("w").append(QUESTION)
            await store.thread("w").turn(key="r", ttl=60, max_tokens=1).__aenter__()
        assert await deliver(other.thread("t"), "r", "again", wait=0) == says("again")
        assert await deliver(other.thread("w"), "r", "again", wait=0) == says("again")


@case
async def a_request_belongs_to_one_conversation(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store:
        for id, key in (("t", "r"), ("t2", "r"), ("t", "2r"), ("t 2", "r")):
            assert await deliver(store.thread(id), key, f"{id} {key}") == says(f"{id} {key}")
        with raises(NotYoursError):
            await store.thread("u", user="u").append(QUESTION)
            await deliver(store.thread("u", user="v"), "r", "theirs")
        assert await deliver(store.thread("u", user="u"), "r", "mine", wait=0) == says("mine")


# --- what was stored --------------------------------------------------------------------


@case
async def all_messages_of_the_request_come_back(h: StoreHarness) -> None:
    many = [QUESTION, *({"role": "tool", "content": f"{n}"} for n in range(250)), says("done")]
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        await store.thread("t").append({"n": 0})
        for key, turn in (("long", many), ("alone", [says("hello")])):
            async with store.thread("t").turn(key=key, last=2) as first:
                await first.store(*turn)
        for key, turn in (("long", many), ("alone", [says("hello")])):
            async with other.thread("t").turn(key=key, last=2) as again:
                assert again.stored == turn
                assert again.answer == turn[-1]


@case
async def an_answer_that_was_edited_comes_back_as_it_is_now(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        for key in ("r-1", "r-2"):
            await deliver(store.thread("t"), key, "a secret")
        await store.thread("t").edit({2: says("(removed)"), 4: None})
        assert await deliver(other.thread("t"), "r-1", "other") == says("(removed)")
        with raises(KeyReusedError) as caught:
            await deliver(other.thread("t"), "r-2", "other")
        assert "removed" in str(caught.error)


@case
async def a_conversation_that_was_begun_anew_has_answered_nothing(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store:
        thread = store.thread("t", user="u")
        assert await deliver(thread, "r", "before", ttl=h.span) == says("before")
        await thread.delete()
        await h.pass_time(h.span)  # so long a request may be taken to be still under way
        assert await deliver(thread, "r", "after", wait=0, ttl=h.span) == says("after")
        await store.user("u").erase()
        await h.pass_time(h.span)
        assert await deliver(thread, "r", "anew", wait=0) == says("anew")


@case
async def nothing_of_a_turn_is_left_of_a_user_who_was_erased(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store(policy=PATIENT) as store:
        await deliver(store.thread("secret-thread", user="secret-user"), "secret-key", "secret")
        receipt = await store.user("secret-user").erase()
        assert receipt.removed == {"thread": 1}
        for entity in await a.list_all(h.namespace, expired=True):
            assert "secret" not in f"{entity} {await a.everything(entity)}", entity


@case
async def every_delivery_gets_what_is_stored_and_not_what_was_redacted(h: StoreHarness) -> None:
    def redact(message: dict[str, Any]) -> dict[str, Any]:
        return message | {"content": message["content"].replace("4111", "…")}

    async with h.store(policy=PATIENT, redact=redact) as store:
        for _ in range(2):
            assert await deliver(store.thread("t"), "r", "card 4111") == says("card …")


# --- what the model is told -------------------------------------------------------------


@case
async def a_turn_begins_with_a_window_as_of_load(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store:
        thread = store.thread("t", user="u")
        for n in range(6):
            await thread.append({"role": "user", "content": f"{n}"}, says(f"{n}"))
        how = Compaction(lambda previous, some: f"{len(some)} messages", after=4, keep=2)
        await thread.compact(how)  # once made, it is the same for both
        wanted: list[dict[str, Any]] = [
            {},
            {"last": 4},
            {"turns": 1},
            {"max_tokens": 40},
            {"last": 4, "max_tokens": 40, "count": lambda message: 20},
            {"summarize": how},
        ]
        for number, options in enumerate(wanted):
            async with thread.turn(key=f"{number}", **options) as turn:
                window = await thread.load(**options)
                assert turn.window == window
                assert turn.messages == window.messages
                assert turn.context is None
                turn.give_up()


@case
async def a_turn_can_bring_the_context_along(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store:
        await store.user("u").put({"name": "Noor"})
        thread = store.thread("t", user="u")
        await deliver(thread, "r-1", "hello")
        async with store.workflow("w", kind="refund", user="u") as run:
            await run.wait("approval")
        async with thread.turn(key="r-2", last=20, context=True) as turn:
            assert turn.context is not None
            turn.give_up()
            assert turn.context == await store.context(user="u", thread="t", last=20)
            assert turn.context.user["default"].value == {"name": "Noor"}
            assert turn.messages == [QUESTION, says("hello")]
        for nobodys in (store.thread("t"), store.thread("t", user=None)):
            with raises(InvalidInput):
                nobodys.turn(key="r-3", context=True)


@case
async def a_successor_sees_what_came_in_meanwhile(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        first = store.thread("t").turn(key="r", ttl=60)
        await first.__aenter__()

        async def waiting() -> list[dict[str, Any]]:
            async with other.thread("t").turn(key="r", last=20, ttl=60) as turn:
                assert turn.answer is None
                turn.give_up()
                return turn.messages

        waiter = Beside(waiting)
        await h.world.pause(0.02)
        await other.thread("t").append(says("meanwhile"))
        first.give_up()
        await first.__aexit__(None, None, None)
        assert await waiter.result() == [says("meanwhile")]


# --- two requests on one conversation ---------------------------------------------------


@case
async def two_requests_at_once_are_both_stored_whole(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        async with (
            store.thread("t").turn(key="r-1") as one,
            other.thread("t").turn(key="r-2", wait=0) as two,
        ):
            await two.store(QUESTION, says("two"))
            await one.store(QUESTION, says("one"))
        assert await messages(store) == [QUESTION, says("two"), QUESTION, says("one")]


@case
async def the_later_of_two_requests_is_told_if_it_expects_to_be_first(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        await store.thread("t").append({"n": 1})
        async with store.thread("t").turn(key="r-1", last=20, ttl=60) as late:
            async with other.thread("t").turn(key="r-2", last=20) as first:
                said = await first.store(QUESTION, says("first"), expect=first.window)
                assert said.version == 3
            with raises(StateConflictError) as caught:
                await late.store(QUESTION, says("late"), expect=late.window)
            assert caught.error.current == 3
            assert late.answer is None
        assert len(await messages(store)) == 3
        async with store.thread("t").turn(key="r-1", last=20, wait=0) as again:
            assert len(again.messages) == 3
            await again.store(QUESTION, says("late"), expect=again.window)
        assert await deliver(other.thread("t"), "r-2", "other") == says("first")


@case
async def with_alone_one_request_follows_the_other(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        inside: list[str] = []
        most: list[int] = []

        async def answered(replica: Store, key: str) -> Any:
            thread = replica.thread("t", user="u")
            async with thread.turn(key=key, last=20, alone=True, ttl=60, wait=None) as turn:
                if turn.answer is None:
                    inside.append(key)
                    most.append(len(inside))
                    await h.world.pause(0.002)
                    inside.remove(key)  # a successor may come in as soon as it is stored
                    await turn.store(QUESTION, says(f"{len(turn.messages)}"))
            return turn.answer

        keys = ["a", "b", "c", "a", "b", "c"]
        beside = [Beside(answered, (store, other)[n % 2], key) for n, key in enumerate(keys)]
        answers = [await each.result() for each in beside]
        assert most == [1] * 3
        assert sorted(answer["content"] for answer in answers) == ["0", "0", "2", "2", "4", "4"]
        assert len(await messages(store)) == 6
        assert (await store.thread("t", user="u").load()).version == 6
        async with store.thread("t", user="u").lead(wait=0):
            with raises(LeaseHeld) as caught:
                await deliver(other.thread("t", user="u"), "d", "d", alone=True, wait=0)
            assert "another request" in str(caught.error)
            assert await deliver(other.thread("t", user="u"), "d", "d") == says("d")


@case
async def whoever_lost_the_lead_stores_nothing_but_a_repeat_still_finds_its_answer(
    h: StoreHarness,
) -> None:
    a = await h.replica()
    it = h.entity("t", "thread")
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        await store.thread("t").append({"n": 1})
        thread, theirs = store.thread("t"), other.thread("t")
        async with thread.turn(key="r-1", alone=True, ttl=60) as paused:
            lease = paused._held
            assert lease is not None
            await a.apply(it, Release(lease.token, lease.nonce))  # as if its time had come
            assert await deliver(theirs, "r-2", "successor", alone=True) == says("successor")
            with raises(LeaseLost):
                await paused.store(QUESTION, says("paused"))
            assert paused.answer is None
            assert await deliver(theirs, "r-1", "taken over", alone=True) == says("taken over")
            said = await paused.store(QUESTION, says("paused"))
            assert said.status == "duplicate"
            assert said.messages == (QUESTION, says("taken over"))
        async with thread.turn(key="r-2", last=20, alone=True, wait=0) as again:
            assert again.answer == says("successor")
            assert len(again.messages) == 5
        async with store.thread("t").lead(wait=0):
            assert len(await messages(store)) == 5  # and nobody leads any more


# --- the store is down ------------------------------------------------------------------


@case
async def while_the_store_is_down_the_answer_goes_on_and_is_stored_once(h: StoreHarness) -> None:
    options: dict[str, Any] = {"read_timeout": 10, "write_timeout": 10, "breaker_seconds": 0.1}
    async with severable(h, **options) as store, h.store(policy=PATIENT) as other:
        await deliver(other.thread("t", user="u"), "r-0", "before")
        with store.faults.unavailable():
            for alone in (False, True):
                async with store.thread("t", user="u").turn(key="r-1", alone=alone) as turn:
                    assert not turn.known
                    assert turn.messages == []
                    assert turn.answer == (says("during") if alone else None)
                    if turn.answer is None:
                        said = await turn.store(QUESTION, says("during"))
                        assert (said.status, said.version) == ("spilled", 0)
                assert turn.answer == says("during")

        async def is_well() -> bool:
            health = await store.health()
            return health.ok and not health.spill_depth

        await until(h, is_well)
        for replica in (store, other):
            again = await deliver(replica.thread("t", user="u"), "r-1", "after")
            assert again == says("during")
        assert await messages(other) == [QUESTION, says("before"), QUESTION, says("during")]
        assert store.counters.lost == 0


# --- append by hand ---------------------------------------------------------------------


@case
async def an_append_can_ask_for_what_was_stored_first(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        thread, theirs = store.thread("t"), other.thread("t")
        first = await thread.append(QUESTION, says("first"), key="r", repeat="first")
        assert (first.status, first.version) == ("stored", 2)
        assert first.messages == (QUESTION, says("first"))
        await thread.append({"n": 3})
        window = await thread.load()
        for again in (
            await theirs.append(QUESTION, says("second"), key="r", repeat="first"),
            await theirs.append(QUESTION, says("first"), key="r", repeat="first"),
            await theirs.append(says("third"), key="r", repeat="first", expect=window),
        ):
            assert again == Appended("duplicate", 2, first.cursor, first.messages)
        with raises(KeyReusedError):
            await theirs.append(QUESTION, says("second"), key="r")
        with raises(StateConflictError):
            await theirs.append(QUESTION, key="r-2", repeat="first", expect=0)
        assert (await thread.append({"n": 4})).messages == ()
        assert len(await messages(store)) == 4


@case
async def a_wrong_repeat_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        wrong: tuple[Any, ...] = ("last", "", True, 1)
        for repeat in wrong:
            with raises(InvalidInput):
                await store.thread("t").append(QUESTION, key="r", repeat=repeat)
        with raises(InvalidInput):
            await store.thread("t").append(QUESTION, repeat="first")
        assert not (await store.thread("t").load()).exists


# --- misuse -----------------------------------------------------------------------------


@case
async def a_turn_is_entered_once_and_stored_once_within_its_block(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store:
        for key in ("", "x" * 513, 7):
            with raises(InvalidInput):
                store.thread("t").turn(key=key)  # type: ignore[arg-type]
        turn = store.thread("t").turn(key="r")
        with raises(InvalidInput):
            await turn.store(QUESTION)
        async with turn:
            with raises(InvalidInput):
                await turn.__aenter__()
            with raises(InvalidInput):
                await turn.store()
            with raises(InvalidInput):
                await turn.store("no message")  # type: ignore[arg-type]
            await turn.store(QUESTION)
            with raises(InvalidInput):
                await turn.store(says("the answer apart"))
        with raises(InvalidInput):
            await turn.store(says("too late"))
        assert await messages(store) == [QUESTION]


@case
async def a_policy_that_raises_is_heeded(h: StoreHarness) -> None:
    async with severable(h, read_timeout=0.2, threads="raise") as store:
        with store.faults.unavailable(), raises(StoreUnavailable):
            await store.thread("t").turn(key="r").__aenter__()


@case
async def a_conversation_that_only_a_lease_has_made_is_not_shown(h: StoreHarness) -> None:
    async with h.store(policy=PATIENT) as store, h.store(policy=PATIENT) as other:
        thread = store.thread("t", user="u")

        async def shown() -> list[str]:
            by_id = [info.id async for info in other.threads(limit=1)]
            recent = [info.id async for info in other.threads(order="recent", limit=1)]
            assert by_id == recent
            assert (await other.thread("t", user="u").load()).exists == (by_id == ["t"])
            assert (await other.thread("t", user="u").load(turns=1)).exists == (by_id == ["t"])
            return by_id

        async def leave() -> None:
            try:
                async with thread.turn(key="r", alone=True):
                    assert await shown() == shown_before
                    raise RuntimeError("the model is down")
            except RuntimeError:
                async with thread.lead():
                    assert await shown() == shown_before

        shown_before: list[str] = []
        await leave()
        assert await shown() == []
        await other.thread("z", user="u").append(QUESTION)
        assert [info.id async for info in other.threads(limit=1)] == ["z"], "a later one is shown"
        await other.thread("z", user="u").delete()
        await thread.vars.put({"topic": "tea"})
        shown_before = ["t"]
        await leave()
        assert await shown() == ["t"]
        async with thread.turn(key="r", last=20, alone=True) as turn:
            await turn.store(QUESTION, says("here"))
        assert await messages(other) == [QUESTION, says("here")]
