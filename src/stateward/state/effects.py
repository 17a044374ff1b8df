"""Effects as they are listed, inspected and resolved: recorded calls of tools that act."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from stateward.codec import check_count, check_id, encode, encode_value, listing_mark
from stateward.errors import InvalidInput, Permanent, StateConflictError
from stateward.kinds import EFFECT, THREAD, effect_of, effect_parts, effects_of
from stateward.observe.counters import count_effect
from stateward.ops import (
    Check,
    Commit,
    CommitsAt,
    Conflict,
    Drop,
    Entity,
    Found,
    List,
    Listed,
    Put,
    SetHead,
    StatusIn,
    Unheld,
    Write,
)
from stateward.records import EffectInfo
from stateward.state.effect_record import (
    DECIDED,
    DONE,
    ERROR,
    FAILED,
    INTENDED,
    NOT_BEGUN,
    ORPHANED,
    READING,
    RESULT,
    UNKNOWN,
    decided_by,
    effect_info,
    error_text,
    result_text,
)
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.scope import Scope

logger = logging.getLogger("stateward.effects")

ENDED = StatusIn((DONE, FAILED))
# The second try is for an effect that ended before it could be marked.
DROPPING: tuple[tuple[Write, Check], ...] = (
    (Drop(), ENDED),
    (Put(ORPHANED, "{}"), StatusIn((INTENDED,))),
    (Drop(), ENDED),
)
STATUSES = (INTENDED, DONE, FAILED, UNKNOWN)

Decision = Literal["done", "failed", "not done"]


class Effect:
    """A handle on an effect by its id, to inspect, resolve or delete it. Creation does no I/O."""

    def __init__(self, scope: Scope, id: str, retain: float | None) -> None:
        if effect_parts(check_id(id, "the id of an effect")) is None:
            raise InvalidInput(
                f"{id!r} is not the id of an effect, which looks like 'thread/<thread>/<call>'; "
                "store.effects() lists them"
            )
        self._handle = Handle(scope, Entity(scope.namespace, EFFECT, id))
        self._retain = retain

    @property
    def id(self) -> str:
        return self._handle.entity.id

    async def info(self) -> EffectInfo | None:
        """Return what is known about the effect; None if it does not exist."""
        scope, entity = self._handle.scope, self._handle.entity
        fetched = await self._handle.fetch(documents=READING)
        head = fetched.head
        if not head.exists:
            return None
        if head.status == INTENDED and head.due is not None:
            # Only the engine's clock can tell whether the lease has ended: then it is due.
            before = encode([head.due, EFFECT, entity.id[:-1]], "a cursor")
            due = List(scope.namespace, EFFECT, prefix=entity.id, due=True, after=before)
            (page,) = await scope.execute((replace(due, documents=READING, limit=1),))
            assert isinstance(page, Listed)
            if page.entities and page.entities[0].entity == entity:
                return effect_info(page.entities[0], unheld=True)
        return effect_info(Found(entity, head, fetched.documents))

    async def resolve(
        self, decision: Decision, *, result: Any = None, error: str = "", by: str = "a person"
    ) -> EffectInfo:
        """Record the outcome of an effect that is unknown or failed.

        "done": it happened, and every call gets `result`. "failed": it did not happen and must not
        be retried; every call raises `error`, as a `Permanent`. "not done": it did not happen; the
        next call carries it out. `by` is recorded with it. Raises `LeaseHeld` while a process is
        carrying it out, and `StateConflictError` if it is done.
        """
        entity = self._handle.entity
        retain = await self._owners_retention()
        writes = (*self._decision(decision, result, error, retain), *decided_by(by))
        still = StatusIn((INTENDED, UNKNOWN, FAILED))
        outcome = await self._handle.commit(writes, (Unheld(), still), reading=READING)
        if isinstance(outcome, Conflict):
            if not outcome.head.exists:
                raise InvalidInput(f"there is no effect {self.id!r}; store.effects() lists them")
            raise StateConflictError(
                f"the effect {self.id!r} is done, and its result recorded: there is nothing to "
                "decide",
                expected=still.statuses,
                current=outcome.head.status,
            )
        stored(outcome, entity)
        count_effect(self._handle.scope.counters, "resolved")
        logger.info("effect_resolved", extra={"effect": self.id, "decision": decision})
        info = await self.info()
        if info is None:
            raise InvalidInput(f"the effect {self.id!r} has been removed")
        return info

    async def _owners_retention(self) -> float | None:
        """Return how long its thread, workflow or task is kept; the default if that is gone."""
        entity = self._handle.entity
        kind, of, _ = effect_parts(entity.id) or ("", "", "")
        owner = Handle(self._handle.scope, entity._replace(kind=kind, id=of))
        head = (await owner.fetch()).head
        return head.retain if head.exists else self._retain

    def _decision(
        self, decision: str, result: Any, error: str, retain: float | None
    ) -> tuple[Write, ...]:
        scope = self._handle.scope
        if decision == "not done":
            return (NOT_BEGUN,)
        status = DONE if decision == "done" else FAILED
        end = SetHead(status=status, due=0, retain=retain or 0)
        if decision == "done":
            encode_value(result, "the result", scope.limits)  # or raises
            return end, Put(RESULT, result_text("", result, scope.redact, scope.limits))
        if decision == "failed":
            why = error or "a person decided that it has failed"
            return end, Put(ERROR, error_text("", Permanent(why), 1, scope.redact))
        raise InvalidInput(f'the decision is "done", "failed" or "not done", not {decision!r}')

    async def delete(self) -> None:
        """Delete the record: the next call carries out the effect as if it were the first."""
        stored(await self._handle.commit((Drop(),)), self._handle.entity)


async def list_effects(
    scopes: Sequence[Scope],
    status: str | None,
    owner: str | None,
    whose: Entity | None,
    name: str | None,
    after: str | None,
    limit: int | None,
) -> AsyncIterator[EffectInfo]:
    """Yield effects by id; with the status "unknown" from one index, oldest first."""
    if status is not None and status not in STATUSES:
        raise InvalidInput(f"status is one of {', '.join(STATUSES)}, not {status!r}")
    left = None if limit is None else check_count(limit, "limit")
    prefix = "" if whose is None else effects_of(whose)
    if after is not None:
        due, _, id = listing_mark(after)
        after = encode([due if status == UNKNOWN else 0.0, EFFECT, id], "a cursor")
        if id.partition("/")[0] != THREAD:
            scopes = scopes[-1:]  # effects of threads come first, and were listed already
    for scope in scopes:
        op = List(
            scope.namespace, EFFECT, owner=owner, prefix=prefix, label=name, documents=READING
        )
        op, after = replace(op, after=after), None
        async for info in _listed(scope, op, status):
            yield info
            if left is not None:
                left -= 1
                if not left:
                    return


async def _listed(scope: Scope, op: List, status: str | None) -> AsyncIterator[EffectInfo]:
    if status == UNKNOWN:
        async for page in scope.pages(replace(op, due=True)):
            for effect in page.entities:
                yield effect_info(effect, unheld=True)
        return
    undecided: set[Entity] = set()
    if status in (None, INTENDED):
        async for page in scope.pages(replace(op, due=True, documents=(), after=None)):
            undecided.update(effect.entity for effect in page.entities)
    async for page in scope.pages(replace(op, status=status)):
        for effect in page.entities:
            if effect.entity not in undecided:
                yield effect_info(effect)
            elif status is None:
                yield effect_info(effect, unheld=True)


async def give_effects(scope: Scope, whose: Entity, user: str) -> None:
    """Give the effects of a conversation that had no user to the user it has now."""
    await _change_each(scope, whose, SetHead(owner=user), owner="")


async def keep_effects(scope: Scope, whose: Entity, retain: float | None) -> None:
    """Keep effects whose end is recorded for so many seconds from now; None or 0: for ever."""
    await _change_each(scope, whose, SetHead(retain=retain or 0.0), ENDED)


async def drop_effects(scope: Scope, whose: Entity) -> None:
    """Remove the effects of what is deleted, except unknown ones: a person has to decide those.

    An effect whose tool is acting is marked, so that its end leaves nothing.
    """
    async for page in scope.pages(List(scope.namespace, EFFECT, prefix=effects_of(whose))):
        effects = [effect.entity for effect in page.entities]
        commits = [
            Commit(
                effect.entity, scope.world.new_op(), (Drop(),), (CommitsAt(effect.head.commits),)
            )
            for effect in page.entities
            if effect.head.status == INTENDED and effect.head.due is None  # it waits for a retry
        ]
        if commits:
            await scope.execute(commits)
        for write, check in DROPPING:
            commits = [Commit(each, scope.world.new_op(), (write,), (check,)) for each in effects]
            outcomes = await scope.execute(commits) if commits else ()
            left = zip(effects, outcomes, strict=True)
            effects = [effect for effect, outcome in left if isinstance(outcome, Conflict)]


async def retry_effect(whose: Handle, call: str) -> None:
    """Let the next call carry out a failed effect, unless a person has decided that it failed."""
    if not call.startswith("effect "):
        return
    effect = Handle(whose.scope, effect_of(whose.entity, call), whose.owner)
    fetched = await effect.fetch(documents=(ERROR, DECIDED))
    error, decided = fetched.documents.get(ERROR), fetched.documents.get(DECIDED)
    by_person = decided is not None and error is not None and decided.stamp == error.stamp
    if fetched.head.status == FAILED and not by_person:  # a person's decision puts both
        await effect.commit_if((Unheld(), CommitsAt(fetched.head.commits)), NOT_BEGUN)


async def _change_each(
    scope: Scope, whose: Entity, write: Write, *checks: Check, owner: str | None = None
) -> None:
    op = List(scope.namespace, EFFECT, owner=owner, prefix=effects_of(whose))
    async for page in scope.pages(op):
        new_op = scope.world.new_op
        each = [Commit(e.entity, new_op(), (write,), checks, owner) for e in page.entities]
        if each:
            await scope.execute(each)
