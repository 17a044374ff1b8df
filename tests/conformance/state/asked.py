"""Questions that are stored before their answers, and turns stored instead of others."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import severable, until
from stateward.errors import (
    ConversationDeletedError,
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    NotYoursError,
    StateConflictError,
    StoreUnavailable,
)
from stateward.kinds import turn_of
from stateward.ops import Acquire, Drop
from stateward.state.threads import Thread
from stateward.store import Store
from stateward.testing.conformance.harness import raises


def asks(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class OutOfTokens(Exception):
    """The answer of a model that is asked too often."""


async def fail(thread: Thread, key: str, text: str, **options: Any) -> None:
    """Deliver a request whose model fails."""
    with raises(OutOfTokens):
        async with thread.turn(key=key, question=asks(text), last=20, **options):
            raise OutOfTokens("429: try again later")


async def answer(thread: Thread, key: str, text: str, **options: Any) -> Any:
    """Deliver a request; return the messages that its model got."""
    async with thread.turn(key=key, question=asks(text), last=20, **options) as turn:
        if turn.answer is None:
            await turn.store(says(f"re: {text}"))
    assert turn.reply == says(f"re: {text}")
    return turn.messages


async def messages(store: Store, id: str = "t") -> list[dict[str, Any]]:
    return (await store.thread(id).load()).messages


# --- stored before the model is asked ---------------------------------------------------


@case
async def a_question_is_seen_by_every_reader_before_it_is_answered(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await store.thread("t", user="u").append(asks("0"), says("0"))
        async with store.thread("t", user="u").turn(key="r", question=asks("1"), last=20) as turn:
            assert turn.messages == [asks("0"), says("0"), asks("1")]
            theirs = other.thread("t", user="u")
            for window in (
                await theirs.load(),
                await theirs.load(last=20),
                await theirs.load(turns=5, max_tokens=1000),
                (await other.context(user="u", thread="t")).thread,
            ):
                assert window.messages == [asks("0"), says("0"), asks("1")]
                assert [each.key for each in window.unanswered] == ["r"]
                assert window.unanswered[0].message == asks("1")
                assert window.version == 2, "the log holds whole turns only"
            numbered = await theirs.load(entries=True)
            assert [entry.version for entry in numbered.entries] == [1, 2]
            assert len(numbered.messages) == 2
            assert len(numbered.unanswered) == 1
            assert [each.version async for each in theirs.changes(follow=False)] == [1, 2]
            stored = await turn.store(says("1"))
            assert (stored.status, stored.version) == ("stored", 4)
            assert stored.messages == (asks("1"), says("1"))
            assert turn.stored == [asks("1"), says("1")]
        window = await theirs.load()
        assert window.messages == [asks("0"), says("0"), asks("1"), says("1")]
        assert window.unanswered == ()
        assert [entry.key for entry in (await theirs.load(entries=True)).entries][3] == "r"


@case
async def a_question_survives_a_model_that_fails(h: StoreHarness) -> None:
    for alone in (False, True):
        id = f"t{alone}"
        async with h.store() as store, h.store() as other:
            await fail(store.thread(id), "r", "1", alone=alone)
            assert await messages(other, id) == [asks("1")]
            await answer(other.thread(id), "r", "1", alone=alone)
            assert await messages(store, id) == [asks("1"), says("re: 1")]
            await answer(store.thread(id), "r", "1", alone=alone)  # and once more
            assert await messages(store, id) == [asks("1"), says("re: 1")]
            assert (await store.thread(id).load()).unanswered == ()


@case
async def a_question_survives_its_process(h: StoreHarness) -> None:
    async with severable(h, read_timeout=10, write_timeout=10) as store, h.store() as other:
        turn = store.thread("t").turn(key="r", question=asks("1"), ttl=h.span)
        await turn.__aenter__()
        store.faults.unavailable()
        with raises(LeaseHeld):
            await answer(other.thread("t"), "r", "1", wait=0)
        assert await messages(other) == [asks("1")]
        await h.pass_time(h.span)
        await answer(other.thread("t"), "r", "1", wait=5)
        assert await messages(other) == [asks("1"), says("re: 1")]
        turn.give_up()
        await turn.__aexit__(None, None, None)


@case
async def the_same_key_with_another_question_is_refused(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await fail(store.thread("t"), "waits", "1")
        await answer(store.thread("t2"), "done", "1")
        for thread, key in ((other.thread("t"), "waits"), (other.thread("t2"), "done")):
            with raises(KeyReusedError) as caught:
                await answer(thread, key, "2")
            assert key in str(caught.error)
        again = {"content": "1", "role": "user"}  # the same, built in another order
        async with other.thread("t").turn(key="waits", question=again, wait=0) as turn:
            await turn.store(again, says("1"))  # as before there was `question`
        assert await messages(store) == [asks("1"), says("1")]
        await store.thread("t2").edit({1: asks("(removed)")})
        await answer(other.thread("t2"), "done", "1")


@case
async def a_window_never_exceeds_its_bounds_for_a_question(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        for n in range(4):
            await thread.append(asks(f"{n}"), says(f"{n}"))
        await fail(thread, "r-1", "x")
        await fail(thread, "r-2", "y")
        assert (await thread.load(last=4)).messages == [asks("3"), says("3"), asks("x"), asks("y")]
        assert (await thread.load(turns=3)).messages == [asks("3"), says("3"), asks("x"), asks("y")]
        assert (await thread.load(last=2)).messages == [asks("x"), asks("y")]
        assert (await thread.load(last=1)).messages == [asks("y")]
        window = await thread.load(max_tokens=50, count=lambda message: 20)
        assert (window.messages, window.tokens) == ([asks("x"), asks("y")], 40)
        window = await thread.load(max_tokens=80, count=lambda message: 20)
        assert window.messages == [asks("3"), says("3"), asks("x"), asks("y")]
        assert (window.tokens, window.omitted) == (80, 6)
        assert (await thread.load(last=3)).messages == [asks("x"), asks("y")]
        assert (await thread.load(after=6)).messages == [*(await thread.load(last=4)).messages]
        assert (await thread.load(upto=2)).messages == [asks("0"), says("0")]


# --- questions of other requests --------------------------------------------------------


@case
async def two_requests_at_once_are_both_stored_whole(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        async with (
            store.thread("t").turn(key="r-1", question=asks("1"), last=20) as one,
            other.thread("t").turn(key="r-2", question=asks("2"), last=20) as two,
        ):
            assert (one.messages, two.messages) == ([asks("1")], [asks("2")])
            assert await messages(store) == [asks("1"), asks("2")]
            await two.store(says("2"))
            assert await messages(store) == [asks("2"), says("2"), asks("1")]
            await one.store(says("1"))
        assert await messages(store) == [asks("2"), says("2"), asks("1"), says("1")]
        assert (await store.thread("t").load()).unanswered == ()


@case
async def the_next_turn_takes_in_a_question_that_nobody_answers(h: StoreHarness) -> None:
    for alone in (False, True):
        id = f"t{alone}"
        async with h.store() as store, h.store() as other:
            await fail(store.thread(id), "r-1", "1", alone=alone)
            seen = await answer(other.thread(id), "r-2", "2", alone=alone)
            assert seen == [asks("1"), asks("2")]
            assert await messages(store, id) == [asks("1"), asks("2"), says("re: 2")]
            window = await store.thread(id).load(last=3)
            assert (window.unanswered, window.version) == ((), 3)
            await fail(other.thread(id), "r-1", "1", alone=alone)  # delivered again, in vain
            assert await messages(store, id) == [asks("1"), asks("2"), says("re: 2")]
            await answer(other.thread(id), "r-1", "1", alone=alone)
            together = [asks("2"), says("re: 2"), asks("1"), says("re: 1")]
            assert await messages(store, id) == together, "moved to its answer, not doubled"
            await answer(other.thread(id), "r-1", "1", alone=alone)
            await answer(other.thread(id), "r-2", "2", alone=alone)
            assert await messages(store, id) == together


@case
async def a_question_whose_process_died_is_taken_in_after_its_ttl(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        await fail(store.thread("t"), "r-1", "1")
        await a.apply(turn_of(h.entity("t", "thread"), "r-1"), Acquire("dead", h.span, "dead"))
        assert await answer(store.thread("t"), "r-2", "2") == [asks("2")]
        assert await messages(store) == [asks("2"), says("re: 2"), asks("1")]
        await h.pass_time(h.span)
        seen = await answer(store.thread("t"), "r-3", "3")
        assert seen == [asks("2"), says("re: 2"), asks("1"), asks("3")]
        assert await messages(store) == [*seen, says("re: 3")]


# --- deleted, rewritten, down -----------------------------------------------------------


@case
async def a_waiting_question_goes_with_its_conversation(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        thread = store.thread("t", user="u")
        await fail(thread, "r", "a secret")
        with raises(NotYoursError):
            await fail(store.thread("t", user="v"), "r-2", "theirs")
        assert [info.id async for info in store.threads(user="u")] == ["t"]
        with raises(ConversationDeletedError):
            async with thread.turn(key="r-3", question=asks("a secret")) as turn:
                await store.user("u").erase()
                await turn.store(says("late"))
        for entity in await a.list_all(h.namespace, expired=True):
            assert "secret" not in f"{entity} {await a.everything(entity)}", entity
        await h.pass_time(h.span)
        await fail(thread, "r", "1")
        assert await thread.truncate(after=0) == []
        assert await messages(store) == []
        await fail(thread, "r-4", "4")
        await thread.replace([asks("5")])
        assert (await thread.load()).messages == [asks("5")]
        assert (await thread.load()).unanswered == ()


@case
async def a_fork_has_whole_turns_only(h: StoreHarness) -> None:
    async with h.store() as store:
        await answer(store.thread("t"), "r-1", "1")
        await fail(store.thread("t"), "r-2", "2")
        fork = await store.thread("t").fork(to="f")
        assert (await fork.load()).messages == [asks("1"), says("re: 1")]


@case
async def an_answer_that_is_spilled_takes_its_question_along(h: StoreHarness) -> None:
    options: dict[str, Any] = {"read_timeout": 10, "write_timeout": 10, "breaker_seconds": 0.1}
    async with severable(h, **options) as store, h.store() as other:
        await fail(other.thread("t"), "r-0", "0")
        async with store.thread("t").turn(key="r-1", question=asks("1"), last=20) as turn:
            with store.faults.unavailable():
                stored = await turn.store(says("1"))
                assert stored.status == "spilled"
                assert turn.reply == says("1")
                async with store.thread("t").turn(key="r-2", question=asks("2")) as down:
                    assert not down.known
                    assert down.messages == [asks("2")]
                    assert (await down.store(says("2"))).status == "spilled"

        async def is_well() -> bool:
            return not (await store.health()).spill_depth

        await until(h, is_well)
        window = await other.thread("t").load()
        assert window.messages == [asks("0"), asks("1"), says("1"), asks("2"), says("2")]
        assert window.unanswered == ()
        await answer(other.thread("t"), "r-0", "0")
        assert await messages(other) == [*window.messages[1:], asks("0"), says("re: 0")]


@case
async def a_spilled_answer_moves_a_question_that_others_have_stored(h: StoreHarness) -> None:
    """Whatever became of the questions meanwhile, each of them is in the log once."""
    options: dict[str, Any] = {"read_timeout": 10, "write_timeout": 10, "breaker_seconds": 0.1}
    for alone in (False, True):
        for earlier in ("answered", "taken in", "waiting"):
            id = f"{earlier} {alone}"
            async with severable(h, **options) as store, h.store() as other:
                theirs = other.thread(id)
                await answer(theirs, "r", "begin")
                await fail(theirs, "r-0", "0")
                await fail(theirs, "r-1", "1")
                mine = store.thread(id).turn(key="r-1", question=asks("1"), alone=alone, ttl=h.span)
                async with mine as turn:
                    with store.faults.unavailable():
                        assert (await turn.store(says("re: 1"))).status == "spilled"
                        await h.pass_time(h.span)  # its lease
                        if earlier == "answered":
                            await answer(theirs, "r-0", "0", alone=alone)
                        elif earlier == "taken in":
                            await answer(theirs, "r-2", "2", alone=alone)

                async def is_well(store: Store = store) -> bool:
                    return not (await store.health()).spill_depth

                await until(h, is_well)
                window = await theirs.load()
                texts = [each["content"] for each in window.messages]
                assert texts[-2:] == ["1", "re: 1"], (id, texts)
                assert len(texts) == len({*texts}), (id, texts)
                assert ("0" in texts, window.unanswered) == (True, ()), (id, texts)
                await answer(theirs, "r-1", "1")
                assert [each["content"] for each in (await theirs.load()).messages] == texts


# --- instead of another turn ------------------------------------------------------------


@case
async def another_answer_is_one_commit_and_keeps_the_first_one_reachable(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread, theirs = store.thread("t", user="u"), other.thread("t", user="u")
        await answer(thread, "r-1", "1")
        await answer(thread, "r-2", "2")
        for again in range(2):
            async with theirs.turn(key="again", last=20, instead_of=4) as turn:
                if turn.answer is None:
                    assert not again
                    assert turn.messages == [asks("1"), says("re: 1"), asks("2")]
                    stored = await turn.store(says("better"))
                    assert (stored.status, stored.version) == ("stored", 5)
            assert turn.reply == says("better")
        assert (await thread.load()).messages == [
            asks("1"),
            says("re: 1"),
            asks("2"),
            says("better"),
        ]
        (replaced,) = [each async for each in thread.replaced()]
        assert replaced.by == "again"
        (first,) = replaced.messages
        assert (first.version, first.key, first.message) == (4, "r-2", says("re: 2"))
        knew = await store.knew("t", 5, user="u")
        assert knew is not None
        assert knew.messages == [asks("1"), says("re: 1"), asks("2")]
        with raises(NotYoursError):
            [each async for each in store.thread("t", user="v").replaced()]


@case
async def an_edited_question_is_one_commit(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        for n in range(1, 4):
            await answer(thread, f"r-{n}", f"{n}")
        with raises(OutOfTokens):
            async with thread.turn(key="e", question=asks("2!"), instead_of=3, last=20) as turn:
                assert turn.messages == [asks("1"), says("re: 1"), asks("2!")]
                raise OutOfTokens("429: try again later")
        kept = [entry.version for entry in (await thread.load(entries=True)).entries]
        assert kept == [1, 2, 3, 4, 5, 6], "nothing goes before its replacement is there"
        async with thread.turn(key="e", question=asks("2!"), instead_of=3, alone=True) as turn:
            await turn.store(says("re: 2!"))
        window = await thread.load()
        assert window.messages == [asks("1"), says("re: 1"), asks("2!"), says("re: 2!")]
        assert window.unanswered == ()
        (replaced,) = [each async for each in thread.replaced()]
        assert [change.version for change in replaced.messages] == [3, 4, 5, 6]
        with raises(StateConflictError) as caught:
            async with thread.turn(key="x", instead_of=99) as turn:
                await turn.store(says("of what?"))
        assert caught.error.expected == 99


@case
async def a_replacement_is_not_spilled(h: StoreHarness) -> None:
    async with severable(h, read_timeout=10, write_timeout=10) as store, h.store() as other:
        await answer(other.thread("t"), "r", "1")
        with raises(StoreUnavailable):
            async with store.thread("t").turn(key="again") as turn:
                with store.faults.unavailable():
                    await turn.store(says("better"), instead_of=2)
        assert await messages(other) == [asks("1"), says("re: 1")]


@case
async def what_was_replaced_is_edited_and_cut_off_like_every_message(h: StoreHarness) -> None:
    async def reachable(thread: Thread) -> list[tuple[int, Any]]:
        kept = [each async for each in thread.replaced()]
        return [(each.version, each.message["content"]) for one in kept for each in one.messages]

    a, it = await h.replica(), h.entity("t", "thread")
    async with h.store() as store, h.store() as other:
        thread, theirs = store.thread("t", user="u"), other.thread("t", user="u")
        await answer(thread, "r-1", "iban DE00")
        for again in ("again", "and again"):
            number = (await thread.load()).version
            async with thread.turn(key=again, instead_of=number) as turn:
                await turn.store(says(f"{again} DE00"))
        assert await reachable(thread) == [(2, "re: iban DE00"), (3, "again DE00")]
        changed = await theirs.edit({1: asks("(removed)"), 3: None, 2: says("(removed)"), 99: None})
        assert [(c.version, c.message["content"]) for c in changed] == [
            (1, "iban DE00"),
            (2, "re: iban DE00"),
            (3, "again DE00"),
        ]
        assert await reachable(thread) == [(2, "(removed)")]
        assert await theirs.edit({3: None}) == []
        await thread.edit({4: says("(removed)")})
        assert "DE00" not in str(await a.everything(it)), "not in any document either"
        for end in (lambda: thread.truncate(after=1), lambda: thread.replace([asks("new")])):
            await answer(thread, f"r-{end}", "iban DE00")
            number = (await thread.load()).version
            async with thread.turn(key=f"a-{end}", instead_of=number) as turn:
                await turn.store(says("DE00"))
            await end()
            assert await reachable(thread) == []
            assert "DE00" not in str(await a.everything(it))


# --- misuse -----------------------------------------------------------------------------


@case
async def a_block_without_an_answer_says_so(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        with raises(InvalidInput) as caught:
            async with thread.turn(key="r") as turn:
                pass
        assert "give_up" in str(caught.error)
        with raises(InvalidInput):
            print(turn.reply)
        async with thread.turn(key="r", wait=0) as turn:
            turn.give_up()
        # async only: begin
        with raises(InvalidInput) as caught:
            async with thread.turn(key="r", wait=0) as turn:
                turn.store(says("lost"))  # type: ignore[unused-coroutine]
        assert "await" in str(caught.error)
        # async only: end
        async with thread.turn(key="r", wait=0) as turn:
            with raises(StateConflictError):
                await turn.store(says("1"), expect=7)
        wrong: tuple[Any, ...] = ("no message", 7, {"content": object()})
        for question in wrong:
            with raises(InvalidInput):
                thread.turn(key="r", question=question)
        for number in (0, -1, "1"):
            with raises(InvalidInput):
                thread.turn(key="r", instead_of=number)  # type: ignore[arg-type]
        assert not (await thread.load()).exists


@case
async def a_conversation_deleted_before_its_question_is_stored_does_not_come_back(
    h: StoreHarness,
) -> None:
    a = await h.replica()
    it = h.entity("t", "thread")
    async with h.store() as store:
        await store.thread("t").append(asks("0"))
        turn = store.thread("t").turn(key="r", question=asks("1"), last=20)
        ask = turn._question.ask  # type: ignore[union-attr]

        async def asked_late(life: Any) -> None:
            await a.apply(it, Drop())
            await ask(life)

        turn._question.ask = asked_late  # type: ignore[method-assign,union-attr]
        with raises(ConversationDeletedError):
            await turn.__aenter__()
        assert not (await store.thread("t").load()).exists
