"""Where a process dies: five points around a tool call, each a SIGKILL of itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from effects import payments
from stateward.engines.sqlite.engine import SqliteEngine
from stateward.kinds import EFFECT
from stateward.ops import Acquire, Commit, Op, Release
from stateward.sync.engines.sqlite.engine import SqliteEngine as BlockingSqlite

BEFORE, INTENDED, ASKED, ANSWERED, RECORDED = POINTS = range(1, 6)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Death:
    """What becomes of a process that carries out a tool; at point 0 it lives."""

    def __init__(self, point: int, *, wrapped: bool, port: int) -> None:
        self._point = point
        self._wrapped = wrapped
        self._port = port
        self._returned = False
        if point:
            self._watch()

    def charge(self, order: str, key: str) -> str:
        """What the tool does."""
        if self._point == ASKED:
            payments.charge(self._port, order, key, wait=False)
            die()
        if not self._wrapped and self._point in (BEFORE, INTENDED):
            die()
        charged = payments.charge(self._port, order, key)
        if self._point == ANSWERED:
            die()
        self._returned = True
        return charged

    def _watch(self) -> None:
        """Die before or after a commit of the store."""
        plain, blocking = SqliteEngine.execute, BlockingSqlite.execute

        async def execute(engine: Any, ops: Sequence[Op], **more: Any) -> Any:
            self._before(ops)
            outcomes = await plain(engine, ops, **more)
            self._after(ops)
            return outcomes

        def execute_blocking(engine: Any, ops: Sequence[Op], **more: Any) -> Any:
            self._before(ops)
            outcomes = blocking(engine, ops, **more)
            self._after(ops)
            return outcomes

        SqliteEngine.execute = execute  # type: ignore[method-assign, assignment]
        BlockingSqlite.execute = execute_blocking  # type: ignore[method-assign, assignment]

    def _before(self, ops: Sequence[Op]) -> None:
        if self._point == BEFORE and _intends(ops):
            die()
        if self._point == RECORDED and self._returned and not self._wrapped and _writes(ops):
            die()

    def _after(self, ops: Sequence[Op]) -> None:
        if self._point == INTENDED and _intends(ops):
            die()
        if self._point == RECORDED and self._returned and self._wrapped and _records(ops):
            die()


def _of_effects(ops: Sequence[Op]) -> list[Commit]:
    return [op for op in ops if isinstance(op, Commit) and op.entity.kind == EFFECT]


def _intends(ops: Sequence[Op]) -> bool:
    return any(isinstance(op.writes[0], Acquire) for op in _of_effects(ops))


def _records(ops: Sequence[Op]) -> bool:
    return any(isinstance(write, Release) for op in _of_effects(ops) for write in op.writes)


def _writes(ops: Sequence[Op]) -> bool:
    return any(isinstance(op, Commit) for op in ops)


Charge = Callable[[str, str], str]
