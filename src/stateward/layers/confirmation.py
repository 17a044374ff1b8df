"""The layer that refuses to call a write done before as many replicas have it as was asked for."""

from __future__ import annotations

from collections.abc import Sequence

from stateward.errors import NotReplicated
from stateward.layers.layer import Execute
from stateward.ops import Applied, Duplicate, Op, Outcome


class Confirmation:
    """Over the layers of an engine that waits for replicas, for every call but a plain append.

    A plain append has a status of its own for this: see `Appended`. The store itself is well, so
    this is no failure for the layers below: nothing is repeated or spilled.
    """

    def __init__(self, below: Execute) -> None:
        self._below = below

    async def execute(self, ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
        """Return outcomes; raises `NotReplicated`, with the outcomes, if one is not confirmed."""
        outcomes = await self._below(ops, deadline)
        if all(map(is_replicated, outcomes)):
            return outcomes
        raise NotReplicated(
            "not replicated: the write is stored on the primary, but fewer replicas than "
            "wait_replicas asks for have confirmed it in time, so a failover now could lose it. "
            "Give the primary its replicas back; repeating the call is safe",
            outcomes=outcomes,
        )


def is_replicated(outcome: object) -> bool:
    """Return whether what an outcome reports as stored is on as many replicas as was asked for."""
    if type(outcome) is Duplicate:
        return outcome.first.replicated
    return type(outcome) is not Applied or outcome.replicated
