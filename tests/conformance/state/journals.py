"""Journals: events are appended, state is what they fold to."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    NotYoursError,
    Reset,
    StateConflictError,
    Truncated,
)
from stateward.records import Change
from stateward.state.journals import Journal
from stateward.testing.conformance.harness import raises


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": number} for number in numbers]


def total(state: int, event: dict[str, Any]) -> int:
    result: int = state + event["n"]
    return result


def seen(state: list[int], event: dict[str, Any]) -> list[int]:
    return [*state, event["n"]]


async def caught_up(journal: Journal, after: Any = 0) -> list[Change]:
    return [change async for change in journal.changes(after, follow=False)]


# --- append -----------------------------------------------------------------------------


@case
async def events_fold_in_the_order_in_which_they_were_appended(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        journal, theirs = store.journal("j"), other.journal("j")
        first = await journal.append({"n": 1}, {"n": 2})
        second = await theirs.append({"n": 3})
        assert (first.status, first.version, second.version) == ("stored", 2, 3)
        folded = await theirs.fold(seen, [])
        assert (folded.state, folded.version, folded.events) == ([1, 2, 3], 3, 3)
        assert folded.cursor == second.cursor
        assert (await journal.fold(total, 0)).state == 6


@case
async def an_empty_journal_folds_to_its_beginning(h: StoreHarness) -> None:
    async with h.store() as store:
        folded = await store.journal("j").fold(total, 7)
        assert (folded.state, folded.version, folded.events) == (7, 0, 0)
        assert (await store.journal("j").fold(total)).state is None


@case
async def a_long_journal_folds_completely(h: StoreHarness) -> None:
    async with h.store() as store:
        for length in (199, 200, 201, 400, 650):
            journal = store.journal(f"j-{length}")
            await journal.append(*numbered(*range(length)))
            folded = await journal.fold(seen, [])
            assert folded.state == [*range(length)]
            assert (folded.version, folded.events) == (length, length)


@case
async def a_keyed_event_is_published_once(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        first = await store.journal("j").append({"n": 1}, key="k")
        again = await other.journal("j").append({"n": 1}, key="k")
        assert (again.status, again.version, again.cursor) == ("duplicate", 1, first.cursor)
        with raises(KeyReusedError):
            await other.journal("j").append({"n": 2}, key="k")
        assert (await store.journal("j").fold(seen, [])).state == [1]


@case
async def a_decision_holds_only_for_the_state_it_was_made_on(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        journal, theirs = store.journal("j"), other.journal("j")
        await journal.append({"n": 1})
        mine = await journal.fold(total, 0)
        await theirs.append({"n": 2}, expect=mine.cursor)
        for expect in (mine.cursor, str(mine.cursor), mine.version):
            with raises(StateConflictError) as caught:
                await journal.append({"n": 3}, expect=expect)
            assert (caught.error.expected, caught.error.current) == (1, 2)
        assert (await journal.append({"n": 3}, expect=2)).version == 3
        with raises(StateConflictError):
            await store.journal("new").append({"n": 1}, expect=1)
        assert (await store.journal("new").append({"n": 1}, expect=0)).version == 1


@case
async def agents_that_publish_at_once_lose_nothing(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def publish(who: int) -> list[int]:
            journal = (store, other)[who % 2].journal("j")
            return [(await journal.append({"n": who}, {"n": who})).version for _ in range(10)]

        agents = [Beside(publish, who) for who in range(4)]
        versions = [version for agent in agents for version in await agent.result()]
        assert sorted(versions) == [*range(2, 81, 2)]
        said = (await store.journal("j").fold(seen, [])).state
        assert said[::2] == said[1::2]  # what was published together stands together
        assert sorted(said) == sorted([*range(4)] * 20)


@case
async def of_agents_that_claim_by_event_one_succeeds(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def claim(who: int) -> bool:
            journal = (store, other)[who % 2].journal("j")
            folded = await journal.fold(seen, [])
            if folded.state:
                return False
            try:
                await journal.append({"n": who}, expect=folded.cursor)
            except StateConflictError:
                return False
            return True

        agents = [Beside(claim, who) for who in range(6)]
        assert sum([await agent.result() for agent in agents]) == 1
        assert (await store.journal("j").fold(seen, [])).version == 1


@case
async def what_is_no_event_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        journal = store.journal("j")
        wrong: tuple[Any, ...] = ([], "text", None, {"a": object()}, {1: 2}, {"a": float("nan")})
        for event in wrong:
            with raises(InvalidInput):
                await journal.append({"n": 1}, event)
        with raises(InvalidInput):
            await journal.append()
        for key in ("", 7):
            with raises(InvalidInput):
                await journal.append({"n": 1}, key=key)  # type: ignore[arg-type]
        for place in ("x", -1, 1.5):
            with raises(InvalidInput):
                await journal.append({"n": 1}, expect=place)  # type: ignore[arg-type]
        with raises(InvalidInput):
            store.journal("")
        assert (await journal.fold(total, 0)).version == 0


@case
async def a_journal_belongs_to_its_user(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.journal("j", user="u").append({"n": 1})
        await store.journal("j", user="u").snapshot(total, 0)
        theirs = store.journal("j", user="v")
        refused = (
            lambda: theirs.append({"n": 2}),
            lambda: theirs.fold(total, 0),
            lambda: theirs.snapshot(total, 0),
            lambda: theirs.trim(1),
            lambda: caught_up(theirs),
            theirs.delete,
        )
        for call in refused:
            with raises(NotYoursError):
                await call()
        assert (await store.journal("j", user="u").fold(total, 0)).state == 1


@case
async def a_journal_is_kept_as_long_as_it_was_told(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.journal("for ever").append({"n": 1})
        short = store.journal("short", retain=h.span)
        await short.append({"n": 1})
        await h.pass_time(h.span / 2)
        await short.append({"n": 2})
        await h.pass_time(h.span * 0.75)
        assert (await short.fold(total, 0)).state == 3
        await h.pass_time(h.span)
        assert (await short.fold(total, 0)).version == 0
        assert (await store.journal("for ever").fold(total, 0)).version == 1


# --- snapshots --------------------------------------------------------------------------


@case
async def a_fold_starts_from_the_snapshot(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        journal, theirs = store.journal("j"), other.journal("j")
        await journal.append(*numbered(1, 2, 3))
        snapshot = await journal.snapshot(total, 100)
        assert (snapshot.state, snapshot.version, snapshot.events) == (106, 3, 3)
        folded = await theirs.fold(total, 0)  # its own beginning no longer matters
        assert (folded.state, folded.version, folded.events) == (106, 3, 0)
        await theirs.append({"n": 4})
        folded = await journal.fold(total, 0)
        assert (folded.state, folded.version, folded.events) == (110, 4, 1)
        again = await theirs.snapshot(total, 0)
        assert (again.state, again.events) == (110, 1)
        assert (await journal.fold(total, 0)).events == 0


@case
async def snapshots_of_other_names_and_reducers_are_left_aside(h: StoreHarness) -> None:
    async with h.store() as store:
        journal = store.journal("j")
        await journal.append(*numbered(1, 2))
        await journal.snapshot(total, 0)
        await journal.snapshot(seen, [], name="seen")
        assert (await journal.fold(total, 0)).events == 0
        assert (await journal.fold(seen, [], name="seen")).state == [1, 2]
        assert (await journal.fold(seen, [], name="other")).events == 2
        newer = await journal.fold(seen, [], version=2)  # the meaning of "default" has changed
        assert (newer.state, newer.events) == ([1, 2], 2)
        await journal.snapshot(seen, [], version=2)
        assert (await journal.fold(seen, [], version=2)).events == 0
        older = await journal.fold(total, 0, version=1)  # replicas of the release before
        assert (older.state, older.events) == (3, 0)
        for name in ("", 7):
            with raises(InvalidInput):
                await journal.fold(total, 0, name=name)  # type: ignore[arg-type]


@case
async def a_snapshot_of_nothing_keeps_nothing(h: StoreHarness) -> None:
    async with h.store() as store:
        journal = store.journal("j")
        assert (await journal.snapshot(total, 5)).state == 5
        await journal.append({"n": 1})
        assert (await journal.fold(total, 0)).state == 1


@case
async def a_state_that_is_not_json_makes_no_snapshot(h: StoreHarness) -> None:
    async with h.store() as store:
        journal = store.journal("j")
        await journal.append({"n": 1})
        with raises(InvalidInput):
            await journal.snapshot(lambda state, event: {event["n"]}, None)
        assert (await journal.fold(total, 0)).events == 1


@case
async def a_snapshot_of_a_history_that_is_gone_is_left_aside(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        journal = store.journal("j")
        await journal.append(*numbered(1, 2))
        await journal.snapshot(total, 0)
        await journal.delete()
        assert (await other.journal("j").fold(total, 0)).state == 0
        await other.journal("j").append(*numbered(10, 20))
        folded = await journal.fold(total, 0)
        assert (folded.state, folded.version, folded.events) == (30, 2, 2)
        await journal.delete()
        await journal.delete()


# --- trimming and following -------------------------------------------------------------


@case
async def a_trimmed_journal_folds_from_its_snapshot_or_says_what_is_missing(
    h: StoreHarness,
) -> None:
    async with h.store() as store, h.store() as other:
        journal = store.journal("j")
        await journal.append(*numbered(1, 2, 3))
        snapshot = await journal.snapshot(total, 0)
        await journal.append({"n": 4})
        await journal.trim(snapshot.cursor)
        folded = await other.journal("j").fold(total, 0)
        assert (folded.state, folded.version, folded.events) == (10, 4, 1)
        others: list[dict[str, Any]] = [{"name": "other"}, {"version": 2}]
        for options in others:
            with raises(Truncated) as caught:
                await journal.fold(total, 0, **options)
            assert caught.error.base == 3
        with raises(Truncated) as caught:
            await caught_up(journal, 1)
        assert caught.error.base == 3
        assert [change.version for change in await caught_up(journal, 3)] == [4]
        await journal.trim(2)  # long gone
        assert (await journal.append({"n": 5})).version == 5
        assert (await journal.fold(total, 0)).state == 15


@case
async def a_snapshot_older_than_what_was_trimmed_is_not_enough(h: StoreHarness) -> None:
    async with h.store() as store:
        journal = store.journal("j")
        await journal.append({"n": 1})
        await journal.snapshot(total, 0)
        await journal.append({"n": 2}, {"n": 3})
        await journal.trim(2)
        with raises(Truncated) as caught:
            await journal.fold(total, 0)
        assert caught.error.base == 2


@case
async def changes_are_every_event_once_and_then_what_comes(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        journal, theirs = store.journal("j"), other.journal("j")
        await theirs.append({"n": 1}, {"n": 2}, key="k")
        changes = await caught_up(journal)
        assert [(c.message, c.version, c.key) for c in changes] == [
            ({"n": 1}, 1, None),
            ({"n": 2}, 2, "k"),
        ]
        for place in (changes[0].cursor, str(changes[0].cursor), 1):
            assert await caught_up(theirs, place) == changes[1:]
        async with aclosing(journal.changes(changes[1].cursor)) as feed:
            for number in (3, 4, 5):
                await theirs.append({"n": number})
                change = await anext(feed)
                assert (change.message, change.version) == ({"n": number}, number)
        await theirs.delete()
        with raises(Reset):
            await caught_up(journal, changes[1].cursor)


@case
async def snapshots_are_not_events(h: StoreHarness) -> None:
    async with h.store() as store:
        journal = store.journal("j")
        await journal.append({"n": 1})
        folded = await journal.snapshot(total, 0)
        assert len(await caught_up(journal)) == 1
        assert (await journal.append({"n": 2}, expect=folded.cursor)).version == 2
