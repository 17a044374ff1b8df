"""A spilled answer whose questions others may have stored since: what is to be appended now."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from stateward.kinds import SUMMARY
from stateward.layers.outage.asked import asked_by, asked_in, taken_in, unchanged, waiting
from stateward.layers.outage.edits import EDITS, edited
from stateward.layers.outage.spill import SpillRecord
from stateward.layers.redelivery import search_for
from stateward.ops import (
    Append,
    Check,
    CommitsAt,
    Delete,
    Fetch,
    Fetched,
    KeyReused,
    Log,
    Op,
    Outcome,
    Replace,
    Value,
    Write,
)

Ask = Callable[[Sequence[Op]], Coroutine[Any, Any, list[Outcome]]]


class LateAnswer(NamedTuple):
    """The parts of the commit that stores a spilled record; each of its questions stands once."""

    bodies: tuple[str, ...]
    writes: tuple[Write, ...]
    checks: tuple[Check, ...] = ()


async def late_answer(ask: Ask, record: SpillRecord, value: Value | None, op: str) -> LateAnswer:
    """Return what is to be stored of a record; `value` is the document of the waiting questions.

    Its own question moves to its answer if a later turn has appended it. Questions of others that
    it was to take in are left out if they no longer wait.
    """
    key, questions = record.key, record.asked
    if questions is None or key is None:
        return LateAnswer(record.bodies, (Append(record.bodies, record.key, note=record.note),))
    wait = {each.key for each in waiting(asked_in(value))}
    places = {len(record.bodies) - 1 - behind: each for each, behind in questions.items()}
    over = {at for at, each in places.items() if each not in wait}
    left = [at for at in range(len(record.bodies)) if at not in over]
    behind = {places[at]: len(left) - 1 - n for n, at in enumerate(left) if at in places}
    bodies = tuple(record.bodies[at] for at in left)
    writes: tuple[Write, ...] = (
        Append(bodies, key, note=record.note),
        *taken_in(value, key, behind),
    )
    checks: tuple[Check, ...] = (unchanged(value),)
    mine = asked_by(value, key)
    if mine is None or not mine.moved_by:
        return LateAnswer(bodies, writes, checks)
    (outcome,) = await ask((search_for(mine.moved_by, record.entity, record.owner, op),))
    if type(outcome) is not KeyReused:
        return LateAnswer(bodies, writes, checks)
    number = outcome.version - mine.behind
    there = Fetch(
        record.entity, record.owner, Log(number - 1, number, details=True), documents=(EDITS,)
    )
    (fetched,) = await ask((there,))
    if not isinstance(fetched, Fetched) or not fetched.entries:
        return LateAnswer(bodies, writes, checks)
    moved: dict[int, str | None] = {number: None}
    noted = edited(fetched.documents.get(EDITS), fetched.head, moved)
    writes = (Replace(moved), *writes, noted, Delete(SUMMARY))
    return LateAnswer(bodies, writes, (*checks, CommitsAt(fetched.head.commits)))
