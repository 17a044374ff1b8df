"""One read for all readers of a live answer who look at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stateward.kinds import STREAM
from stateward.layers.layer import Execute
from stateward.ops import Fetch, Op, Outcome
from stateward.state.stream_record import POLL_SECONDS

Look = asyncio.Task[list[Outcome]]


class StreamLooks:
    """Reads of streams, each shared by those who ask for the same within half a poll."""

    def __init__(self) -> None:
        self._looks: dict[tuple[Execute, Fetch], Look] = {}  # of an owner, from a place on

    def around(self, execute: Execute) -> Execute:
        """Return the `execute` of a stack with its reads of streams shared."""

        async def shared(ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
            op = ops[0]
            if len(ops) > 1 or type(op) is not Fetch or op.entity.kind != STREAM:
                return await execute(ops, deadline)
            key = execute, op
            look = self._looks.get(key)
            if look is None:
                look = self._looks[key] = asyncio.ensure_future(execute(ops, deadline))
                look.add_done_callback(_note)
                loop = asyncio.get_running_loop()
                loop.call_later(POLL_SECONDS / 2, self._looks.pop, key)
            return await asyncio.shield(look)  # whoever hangs up leaves it to the others

        return shared


def _note(look: Look) -> None:
    if not look.cancelled():
        look.exception()  # each reader that is left raises it
