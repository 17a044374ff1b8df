"""Joining of calls that wait, so that a burst of calls becomes a few batches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from stateward.errors import StatewardError
from stateward.integrations.bridge import IN_FLIGHT

C = TypeVar("C")
R = TypeVar("R")


class JoinedCalls(Generic[C, R]):
    """A queue: up to `IN_FLIGHT` calls run at once; further calls wait, and are joined.

    One group is under way at a time: several would only wait for each other, each until its
    deadline. `carry_out` answers several calls, each with its result or the error of its refusal;
    an exception of `carry_out` is raised to all callers. `weight` is the weight of a call in a
    group, which holds at most `heaviest`. For one event loop.
    """

    def __init__(
        self,
        carry_out: Callable[[Sequence[C]], Awaitable[Sequence[R | StatewardError]]],
        weight: Callable[[C], int],
        heaviest: int,
    ) -> None:
        self._carry_out = carry_out
        self._weight = weight
        self._heaviest = heaviest
        self._waiting: deque[tuple[C, asyncio.Future[R]]] = deque()
        self._under_way = 0  # calls that run alone
        self._group: asyncio.Task[None] | None = None

    async def ask(self, call: C) -> R:
        """Carry out a call, and return its result; raises its refusal or its group's failure."""
        if self._waiting or self._under_way >= IN_FLIGHT:
            answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
            self._waiting.append((call, answer))
            return await answer
        self._under_way += 1
        try:
            (result,) = await self._carry_out([call])
        finally:
            self._under_way -= 1
            self._start_group()
        if isinstance(result, StatewardError):
            raise result
        return result

    def _start_group(self) -> None:
        if self._group is None and (group := self._next_group()):
            self._group = asyncio.create_task(self._answer(group))

    def _next_group(self) -> list[tuple[C, asyncio.Future[R]]]:
        group: list[tuple[C, asyncio.Future[R]]] = []
        weight = 0
        while self._waiting:
            call, answer = self._waiting[0]
            if not answer.done():  # else its caller was cancelled
                weight += self._weight(call)
                if group and weight > self._heaviest:
                    break
                group.append((call, answer))
            self._waiting.popleft()
        return group

    async def _answer(self, group: list[tuple[C, asyncio.Future[R]]]) -> None:
        results: Sequence[R | BaseException]
        try:
            results = await self._carry_out([call for call, _ in group])
        except asyncio.CancelledError:  # the event loop is closing
            for _, answer in group:
                answer.cancel()
            raise
        except Exception as error:
            results = [error] * len(group)
        finally:
            self._group = None
            self._start_group()
        for (_, answer), result in zip(group, results, strict=True):
            if answer.done():
                continue
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)
