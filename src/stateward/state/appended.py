"""The record of an append, as its caller gets it."""

from __future__ import annotations

from typing import Any, Literal

from stateward.ops import Duplicate, Entity, Outcome
from stateward.records import Appended, Cursor
from stateward.state.refusals import stored


def appended(
    outcome: Outcome, entity: Entity, messages: tuple[dict[str, Any], ...] = ()
) -> Appended:
    """Return the record of an append that the store has answered; raises if it was refused."""
    applied = stored(outcome, entity)
    status: Literal["stored", "unreplicated", "duplicate"] = "stored"
    if isinstance(outcome, Duplicate) and not outcome.own:
        status = "duplicate"
    elif not applied.replicated:
        status = "unreplicated"
    return Appended(status, applied.version, Cursor(applied.version, applied.stamp), messages)
