"""Answers that are read while they are written, resumed, stopped, and survive their writers."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside, severable, until
from stateward.errors import ConversationDeletedError, InvalidInput, NotYoursError, TurnStopped
from stateward.kinds import stream_of
from stateward.ops import Acquire, Release
from stateward.state.stream_record import LiveEvent
from stateward.state.threads import Thread
from stateward.testing.conformance.harness import raises

QUESTION = {"role": "user", "content": "Tell me everything."}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def read(thread: Thread, request: str = "r", after: str | None = None) -> list[LiveEvent]:
    """Read a live answer to its end."""
    return [event async for event in thread.live(request, after=after)]


def text_of(events: list[LiveEvent]) -> str:
    """Return what a reader shows: it clears the page when an answer is begun again."""
    text = ""
    for event in events:
        text = "" if event.kind == "begin" else text + event.text
    return text


async def speak(thread: Thread, words: list[str], **options: Any) -> None:
    async with thread.turn(key="r", question=QUESTION, live=True, **options) as turn:
        for word in words:
            await turn.write(word)
        await turn.store(says(turn.text))


WORDS = [f"word {n} " for n in range(40)]


# --- reading ----------------------------------------------------------------------------


@case
async def readers_of_any_replica_read_what_the_writer_writes(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        readers = [Beside(read, replica.thread("t")) for replica in (store, other, other)]
        async with store.thread("t").turn(key="r", question=QUESTION, live=True) as turn:
            for word in WORDS:
                await turn.write(word)
                await h.world.pause(0.002)
            assert turn.text == "".join(WORDS)
            (live,) = [each async for each in other.thread("t").lives()]
            assert (live.request, live.status) == ("r", "streaming")
            await turn.store(says(turn.text))
        for reader in readers:
            events = await reader.result()
            assert text_of(events) == "".join(WORDS)
            assert (events[-1].status, events[-1].message) == ("done", says("".join(WORDS)))
        late = await read(other.thread("t"))
        assert text_of(late) == "".join(WORDS), "its text is that of the stored answer"
        (live,) = [each async for each in other.thread("t").lives()]
        assert live.status == "done"


@case
async def a_reader_resumes_behind_any_event_without_gap_or_repeat(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread, theirs = store.thread("t"), other.thread("t")
        async with thread.turn(key="r", question=QUESTION, live=True) as turn:
            text, cursor = "", None
            for cuts, word in enumerate(WORDS[:8]):
                await turn.write(word)
                await turn.write({"type": "tool", "n": 1} if cuts == 3 else "")
                async for event in (
                    (other if cuts % 2 else store).thread("t").live("r", after=cursor)
                ):
                    text, cursor = text + event.text, event.cursor
                    if text == turn.text:
                        break  # as when its connection is lost
            await turn.write("the rest")
            await turn.store(says("another text"))
        events = await read(theirs, after=cursor)
        assert text + text_of(events) == "".join(WORDS[:8]) + "the rest"
        assert events[-1].message == says("another text")
        whole = await read(theirs)
        assert text_of(whole) == "".join(WORDS[:8]) + "the rest"
        parts = [part for event in whole for part in event.parts]
        assert {"type": "tool", "n": 1} in parts
        places = [event.cursor for event in whole]
        for number, place in enumerate(places[:-1]):
            assert await read(store.thread("t"), after=place) == whole[number + 1 :]
        assert (await read(theirs, after=places[-1]))[-1].status == "done"


@case
async def a_reader_whose_text_was_removed_gets_the_rest_from_the_thread(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        async with store.thread("t").turn(key="r", live=True) as turn:
            await turn.write("first ")
            events: list[LiveEvent] = []
            async for event in other.thread("t").live("r"):
                events.append(event)
                if event.text:
                    break
            await turn.write("second ")
            await turn.write("third")
            await turn.store(QUESTION, says(turn.text))
        rest = await read(other.thread("t"), after=events[-1].cursor)
        assert text_of(events) + text_of(rest) == "first second third"
        assert (await read(other.thread("t"), after=rest[0].cursor))[-1].message == says(turn.text)
        a = await h.replica()
        stream = await a.everything(stream_of(h.entity("t", "thread"), "r"))
        assert "second" not in str(stream), "what the thread has is not stored twice"


@case
async def a_stored_answer_is_read_whole_however_often_its_reader_is_cut_off(
    h: StoreHarness,
) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await speak(thread, WORDS)
        text, cursor, kinds = "", None, list[str]()
        while "end" not in kinds:  # each event by a connection of its own
            events = await read(thread, after=cursor)
            event = next((each for each in events if str(each.kind) not in kinds), events[-1])
            text, cursor = text + event.text, event.cursor
            kinds.append(event.kind)
        assert (text, kinds) == ("".join(WORDS), ["begin", "delta", "end"])


@case
async def a_request_that_nobody_answers_is_absent(h: StoreHarness) -> None:
    async with h.store() as store:
        (end,) = [event async for event in store.thread("t").live("r", wait=0)]
        assert (end.kind, end.status) == ("end", "absent")
        async with store.thread("t").turn(key="r") as turn:
            await turn.store(QUESTION, says("not live"))
        (end,) = [event async for event in store.thread("t").live("r", wait=0)]
        assert (end.status, end.message) == ("done", says("not live"))
        wrong: tuple[Any, ...] = ("x", "1", ":", 7)
        for cursor in wrong:
            with raises(InvalidInput):
                await read(store.thread("t"), after=cursor)


@case
async def only_its_user_reads_and_stops_an_answer(h: StoreHarness) -> None:
    async with h.store() as store:
        thread, foreign = store.thread("t", user="u"), store.thread("t", user="v")
        async with thread.turn(key="r", question=QUESTION, live=True) as turn:
            await turn.write("a secret")
            with raises(NotYoursError):
                await read(foreign)
            with raises(NotYoursError):
                await foreign.stop("r")
            with raises(NotYoursError):
                print([each async for each in foreign.lives()])
            await turn.store(says(turn.text))


# --- stopping ---------------------------------------------------------------------------


@case
async def a_stop_from_anywhere_ends_the_answer_and_nothing_is_read_after_it(
    h: StoreHarness,
) -> None:
    async with h.store() as store, h.store() as other:
        assert not await other.thread("t").stop("r")
        reader = Beside(read, other.thread("t"))
        with raises(TurnStopped):
            async with store.thread("t").turn(key="r", question=QUESTION, live=True) as turn:
                await turn.write("one ")
                assert await other.thread("t").stop("r")
                assert not await other.thread("t").stop("r"), "once"
                while True:
                    await turn.write("two ")
                    await h.world.pause(0.001)
        events = await reader.result()
        assert (text_of(events), events[-1].status) == ("one ", "stopped")
        window = await other.thread("t").load()
        assert window.messages == [QUESTION]
        assert [each.key for each in window.unanswered] == ["r"]
        async with store.thread("t").turn(key="r", question=QUESTION, live=True) as turn:
            await turn.write("again")
            await other.thread("t").stop("r")

            async def is_stopped() -> bool:
                return turn.stopped

            await until(h, is_stopped)  # also noticed while nothing is written
            with raises(TurnStopped):
                await turn.write("…")
            await turn.store(says("as far as I got"))
        events = await read(store.thread("t"))
        assert (text_of(events), events[-1].status) == ("again", "stopped")
        assert (await other.thread("t").load()).messages == [QUESTION, says("as far as I got")]
        assert not await other.thread("t").stop("r")


# --- writers that fail ------------------------------------------------------------------


@case
async def readers_learn_that_a_model_failed_and_read_the_next_attempt(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        with raises(ZeroDivisionError):
            async with store.thread("t").turn(key="r", question=QUESTION, live=True) as turn:
                await turn.write("half an ans")
                raise ZeroDivisionError("the model is down")
        events = await read(other.thread("t"))
        assert (text_of(events), events[-1].status) == ("half an ans", "interrupted")
        reader = Beside(read, other.thread("t"), "r", events[-2].cursor)
        async with other.thread("t").turn(key="r", question=QUESTION, live=True) as turn:
            await turn.write("a whole answer")
            await turn.store(says(turn.text))
        again = await reader.result()
        if again[-1].status == "done":  # else it has read the end before the next attempt
            assert again[0].kind == "begin", "what was read before is void"
            assert text_of(again) == "a whole answer"
        assert text_of(await read(store.thread("t"))) == "a whole answer"
        again = await read(store.thread("t"), after=events[-1].cursor)
        assert text_of(again) == "a whole answer"


@case
async def readers_learn_that_a_writer_died(h: StoreHarness) -> None:
    async with severable(h, read_timeout=10, write_timeout=10) as store, h.store() as other:
        turn = store.thread("t").turn(key="r", question=QUESTION, live=True, ttl=h.span)
        await turn.__aenter__()
        await turn.write("half an ans")
        store.faults.unavailable()
        await turn.write("wer, that nobody gets")
        await h.pass_time(h.span)
        events = await read(other.thread("t"))
        assert (text_of(events), events[-1].status) == ("half an ans", "interrupted")
        with raises(ZeroDivisionError):
            raise_in = ZeroDivisionError("the process is gone")
            await turn.__aexit__(ZeroDivisionError, raise_in, None)
            raise raise_in
        await speak(other.thread("t"), ["whole"])
        assert text_of(await read(other.thread("t"))) == "whole"


@case
async def a_writer_that_died_after_it_stored_has_answered(h: StoreHarness) -> None:
    async with severable(h, read_timeout=10, write_timeout=10) as store, h.store() as other:
        turn = store.thread("t").turn(key="r", live=True, ttl=h.span)
        await turn.__aenter__()
        await turn.write("whole")
        await other.thread("t").append(QUESTION, says("whole"), key="r")  # as its own first step
        store.faults.unavailable()
        await h.pass_time(h.span)
        events = await read(other.thread("t"))
        assert (text_of(events), events[-1].status) == ("whole", "done")
        assert events[-1].message == says("whole")
        turn.give_up()
        await turn.__aexit__(None, None, None)


@case
async def a_sweep_ends_the_streams_of_dead_writers(h: StoreHarness) -> None:
    async with severable(h, read_timeout=10, write_timeout=10) as store, h.store() as other:
        turn = store.thread("t").turn(key="r", live=True, ttl=h.span)
        await turn.__aenter__()
        await other.sweep()
        assert [each.status async for each in other.thread("t").lives()] == ["streaming"]
        store.faults.unavailable()
        await h.pass_time(h.span)
        await other.sweep()
        assert [each.status async for each in other.thread("t").lives()] == ["interrupted"]
        turn.give_up()
        await turn.__aexit__(None, None, None)


@case
async def a_stale_writer_does_not_write_into_the_stream_of_its_successor(h: StoreHarness) -> None:
    a = await h.replica()
    stream = stream_of(h.entity("t", "thread"), "r")
    async with (
        h.store() as store,
        store.thread("t").turn(key="r", question=QUESTION, live=True, ttl=60) as paused,
    ):
        await paused.write("stale ")
        lease = paused._live._held  # type: ignore[union-attr]
        assert lease is not None
        await a.apply(stream, Release(lease.token, lease.nonce))  # as if its time had come
        await a.apply(stream, Acquire("successor", 60.0, "another process"))
        await paused.write("x" * 5000)
        await paused.write("more")
        assert "xxx" not in str(await a.everything(stream))
        assert (await paused.store(says("stale"))).status == "stored"


# --- deleted, down ----------------------------------------------------------------------


@case
async def a_stream_goes_with_its_thread_and_its_user(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store:
        for how in ("delete", "erase"):
            thread = store.thread(how, user="u")
            with raises(ConversationDeletedError):
                async with thread.turn(key="r", question=QUESTION, live=True) as turn:
                    await turn.write("a secret")
                    if how == "delete":
                        await thread.delete()
                    else:
                        await store.user("u").erase()
                    await turn.write("a secret" * 1000)
                    await turn.store(says("a secret"))
            for entity in await a.list_all(h.namespace, expired=True):
                assert "secret" not in str(await a.everything(entity)), (how, entity)
            await h.pass_time(h.span)
        nobodys = store.thread("n", user=None)
        with raises(ZeroDivisionError):
            async with nobodys.turn(key="r", question=QUESTION, live=True) as turn:
                await turn.write("1")
                raise ZeroDivisionError("the model is down")
        theirs = await nobodys.claim(user="v")
        assert text_of(await read(theirs)) == "1"


@case
async def while_the_store_is_down_the_answer_goes_on_and_readers_get_it_late(
    h: StoreHarness,
) -> None:
    options: dict[str, Any] = {"read_timeout": 10, "write_timeout": 10, "breaker_seconds": 0.05}
    async with severable(h, **options) as store, h.store() as other:
        async with store.thread("t").turn(key="r", question=QUESTION, live=True) as turn:
            await turn.write("before ")
            with store.faults.unavailable():
                await turn.write("during ")
                await turn.write("x" * 5000)
                assert turn.text == "before during " + "x" * 5000

            async def is_late() -> bool:
                async for event in other.thread("t").live("r"):
                    if event.late:
                        assert event.text.startswith("during ")
                        return True
                return False

            assert await is_late()
            await turn.write(" after")
            await turn.store(says("in short"))
        assert text_of(await read(other.thread("t"))) == turn.text
        with store.faults.unavailable():
            async with store.thread("t").turn(key="r-2", question=QUESTION, live=True) as turn:
                await turn.write("nobody reads it, ")
                await turn.write("but it is stored")
                assert (await turn.store(says(turn.text))).status == "spilled"

        async def is_well() -> bool:
            return not (await store.health()).spill_depth

        await until(h, is_well)
        events = await read(other.thread("t"), "r-2")
        assert events[-1].message == says("nobody reads it, but it is stored")


@case
async def a_turn_that_is_not_live_is_not_written(h: StoreHarness) -> None:
    async with h.store() as store:
        async with store.thread("t").turn(key="r") as turn:
            with raises(InvalidInput):
                await turn.write("x")
            await turn.store(QUESTION)
        async with store.thread("t").turn(key="r-2", live=True) as turn:
            with raises(InvalidInput):
                await turn.write(object())
            await turn.store(QUESTION)
            with raises(InvalidInput):
                await turn.write("too late")
        with raises(InvalidInput):
            await turn.write("too late")
    async with h.store(redact=lambda message: message) as store:
        with raises(InvalidInput):
            store.thread("t").turn(key="r", live=True)
