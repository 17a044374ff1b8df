"""Writes begun before a conversation was deleted, erased, truncated or expired, and ended after.

A call that has seen a conversation writes nothing to it after its end: it is refused, with an error
of its own, and what was removed is nowhere. Each call of `methods` that writes to a conversation is
swept here, whatever happens before whichever of its calls to the engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import severable, until
from conformance.state.methods import METHODS, PATIENT, SECRET, Meanwhile, found_in, prepare, says
from stateward.codec import decode
from stateward.engine import Engine
from stateward.errors import (
    ConversationDeletedError,
    InvalidInput,
    LeaseLost,
    StateConflictError,
    StatewardError,
)
from stateward.ops import Applied, Duplicate, Entity, Fetched, Log, Op, Outcome
from stateward.store import Store
from stateward.testing.clock import SteppableWorld
from stateward.testing.conformance.harness import Caller, raises

TURNS: tuple[dict[str, Any], ...] = ({}, {"alone": True}, {"context": True})
SOON = 0.001  # seconds of retention
FRESH = "said afterwards"
ANEW = "said in the next life"
REPLY = f"{SECRET}, yes"  # in messages alone


async def erase(store: Store) -> None:
    await store.user("u").erase()


async def delete(store: Store) -> None:
    await store.thread("t", user="u").delete()


async def expire(store: Store) -> None:
    """End the retention; a conversation that is held does not expire."""
    try:
        await store.thread("t", user="u").retain(SOON)
    except InvalidInput:
        return  # it was deleted by the call itself
    world = store.thread("t").handle.scope.world
    if isinstance(world, SteppableWorld):  # it stands still
        world.advance(20 * SOON)
    else:
        await world.pause(20 * SOON)


async def truncate(store: Store) -> None:
    await store.thread("t", user="u").truncate(after=0)


ENDS: dict[str, Callable[[Store], Awaitable[None]]] = {
    "erased": erase,
    "deleted": delete,
    "expired": expire,
    "truncated": truncate,
}


AGAIN = " and begun again"


async def update_variables(store: Store, user: str, content: dict[str, Any]) -> None:
    await store.thread("t", user=user).vars.update(lambda value: value | content)


async def patch_variables(store: Store, user: str, content: dict[str, Any]) -> None:
    await store.thread("t", user=user).vars.patch(content)


async def turn_with_context(store: Store, user: str, content: dict[str, Any]) -> None:
    async with store.thread("t", user=user).turn(key="r", last=20, context=True) as turn:
        await turn.store(content)


CALLS = {
    name: method.call
    for name, method in METHODS.items()
    if name.startswith(("Thread.", "Turn.")) and "effect" not in name and name != "Thread.delete"
} | {
    "DocumentHandle.update of variables": update_variables,
    "DocumentHandle.patch of variables": patch_variables,
    "Turn.store with context": turn_with_context,
}
# Calls that first read a window, and start over if its conversation ends meanwhile.
READ_FIRST = (
    "Thread.append expecting",
    "Thread.append having seen",
    "Thread.turn",
    "Thread.turn question",
    "Thread.turn instead_of",
    "Turn.store",
    "Turn.store with context",
)
# What refuses these for a reason of its own.
OTHERS = {"Thread.append expecting": StateConflictError, "Thread.lead": LeaseLost}


class Seeing(Meanwhile):
    """Notes whether the call has seen the conversation before the other thing happens."""

    def __init__(
        self, engine: Engine, thread: Entity, at: int, happens: Callable[[], Awaitable[Any]]
    ) -> None:
        super().__init__(engine, at, happens)
        self.seen = self.read_again = False
        self._thread = thread
        self._until = at

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = await super().execute(ops, deadline=deadline)
        for op, outcome in zip(ops, outcomes, strict=True):
            if getattr(op, "entity", None) != self._thread:
                continue
            if self.calls < self._until:
                self.seen |= isinstance(outcome, Applied | Duplicate) or (
                    isinstance(outcome, Fetched) and outcome.head.exists
                )
            else:
                self.read_again |= isinstance(outcome, Fetched)
        return outcomes


async def read(replica: Caller, thread: Entity) -> list[Any]:
    """Return the messages of a conversation, without those that were removed."""
    fetched = await replica.fetch(thread, Log())
    return [decode(line) for line in fetched.lines.splitlines()] if fetched.head.exists else []


async def swept(h: StoreHarness, names: Sequence[str], ends: Sequence[str]) -> None:
    """Let each of these happen before every single call that these methods make to the engine."""
    replica = await h.replica()
    for number, name in enumerate(names):
        for end in ends:
            at = 1
            while await was_reached(
                h, replica, f"{h.namespace}-{number}-{end}-{at}", name, end, at
            ):
                at += 1


async def was_reached(
    h: StoreHarness, replica: Caller, namespace: str, name: str, end: str, at: int
) -> bool:
    """Let it happen before one call to the engine; return whether the method makes so many."""
    thread = Entity(namespace, "thread", "t")
    error: StatewardError | None = None
    gone: list[bool] = []

    async def happens() -> None:
        await ENDS[end.removesuffix(AGAIN)](other)
        gone.append(not (await replica.head(thread)).exists)
        if end.endswith(AGAIN):
            await other.thread("t", user="u").append(says(ANEW))

    async with h.store(namespace=namespace, policy=PATIENT) as other:
        await prepare(other, "u", SECRET)
        if end.endswith(AGAIN):  # more messages than the next life has
            await other.thread("t", user="u").append(says("more"), says("and more"))
        engine = Seeing(h.make_engine(), thread, at, happens)
        options: dict[str, Any] = {"policy": PATIENT, "world": h.world, "spill": False}
        async with Store(engine, namespace=namespace, **options) as store:
            try:
                await CALLS[name](store, "u", says(FRESH))
            except StatewardError as refusal:
                error = refusal
    if engine.calls < at:
        return False
    where = f"{name}, {end} before call {at}: {error!r}"
    if end in ("erased", "truncated"):
        removed = SECRET if end == "erased" else REPLY
        assert await found_in(replica, namespace, removed) == [], where
    begun_later = name in READ_FIRST and engine.read_again
    if gone == [True] and engine.seen and not begun_later:
        expected = [says(ANEW)] if end.endswith(AGAIN) else []
        assert (await read(replica, thread)) == expected, f"{where}: it came back"
        assert await found_in(replica, namespace, FRESH) == [], where
        refusals = (ConversationDeletedError, InvalidInput, OTHERS.get(name, InvalidInput))
        assert error is None or type(error) in refusals, where
    return True


QUICK = ("Turn.store", "Thread.append having seen", "Thread.replace")


@case
async def no_call_writes_to_a_conversation_whose_end_it_has_missed(h: StoreHarness) -> None:
    await swept(h, list(CALLS), list(ENDS))


@case
async def the_calls_that_matter_most_do_not_bring_a_conversation_back(h: StoreHarness) -> None:
    await swept(h, QUICK, ("erased", "expired"))


@case
async def no_answer_to_one_life_of_a_conversation_is_stored_in_the_next(h: StoreHarness) -> None:
    await swept(
        h, [*READ_FIRST, "Thread.replace"], [end + AGAIN for end in ENDS if end != "truncated"]
    )


@case
async def a_turn_in_progress_is_refused_once_its_conversation_is_deleted(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for end in ("erased", "deleted"):
            for options in TURNS:
                thread = store.thread("t", user="u")
                await thread.append(says("my iban is DE00"), says("ok"))
                with raises(ConversationDeletedError) as caught:
                    async with thread.turn(key="r", last=20, **options) as turn:
                        await ENDS[end](other)
                        await turn.store(says("what is it?"), says("DE00"))
                assert "was deleted" in str(caught.error)
                assert not (await thread.load()).exists
                # An erasure counts for what was read before it by clocks that may differ.
                await h.pass_time(h.span if end == "erased" else 0.01)
                async with thread.turn(key=f"{end} {options}", last=20, **options) as turn:
                    said = await turn.store(says("hello"), says("hello, again"))
                assert (said.status, said.version) == ("stored", 2), "what begins now is new"
                await thread.delete()


@case
async def a_turn_is_refused_though_its_conversation_has_begun_again(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for options in TURNS[:2]:
            thread, theirs = store.thread("t", user="u"), other.thread("t", user="u")
            await thread.append(says("old"))
            with raises(ConversationDeletedError):
                async with thread.turn(key="r", last=20, **options) as turn:
                    await theirs.delete()
                    await theirs.append(says("new"))
                    await turn.store(says("what was it?"), says("old"))
            assert (await thread.load()).messages == [says("new")]
            await thread.delete()
            await h.pass_time(0.01)


@case
async def the_first_turn_of_a_user_erased_meanwhile_is_refused(h: StoreHarness) -> None:
    """There is no conversation yet that could be deleted; but the model was given the profile."""
    async with h.store() as store, h.store() as other:
        for options in TURNS:
            await other.user("u").put({"iban": "DE00"})
            await h.world.pause(0.01)
            with raises(ConversationDeletedError):
                async with store.thread("t", user="u").turn(key="r", last=9, **options) as turn:
                    await other.user("u").erase()
                    await turn.store(says("what is it?"), says("DE00"))
            assert [info.id async for info in store.threads(user="u")] == []


@case
async def a_turn_survives_edits_and_other_turns(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for end in ("truncated", "edited", "retained"):
            thread, theirs = store.thread("t", user="u"), other.thread("t", user="u")
            await thread.append(says("one"), says("two"))
            async with thread.turn(key=end, last=20) as turn:
                if end == "truncated":
                    await theirs.truncate(after=0)
                elif end == "edited":
                    await theirs.edit({1: says("uno"), 2: None})
                else:
                    await theirs.retain(1000.0)
                await theirs.append(says("three"))
                said = await turn.store(says("four"))
            assert (said.status, said.version) == ("stored", 4)
            await thread.delete()


@case
async def a_spilled_turn_that_was_begun_before_a_deletion_is_not_brought_in(
    h: StoreHarness,
) -> None:
    """The store fails only after the deletion, which the turn therefore has not noticed."""
    options: dict[str, Any] = {"threads": "suppress", "read_timeout": 0.5, "write_timeout": 0.5}
    async with severable(h, **options) as store, h.store(policy=PATIENT) as other:
        thread = store.thread("t", user="u")
        await thread.append(says("my iban is DE00"), says("ok"))
        async with thread.turn(key="r", last=20) as turn:
            await other.thread("t", user="u").delete()
            with store.faults.unavailable():
                said = await turn.store(says("what is it?"), says("DE00"))
        assert said.status == "spilled"

        async def is_well() -> bool:
            health = await store.health()
            return health.ok and not health.spill_depth

        await until(h, is_well)
        assert not (await other.thread("t", user="u").load()).exists
