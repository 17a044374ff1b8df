"""Contestants made ready, and one slot of work: so many calls by so many callers at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, islice
from time import perf_counter_ns
from typing import Any

from bench.contestants.shape import Awaited, Blocking
from bench.conversations import turn
from stateward import Context

Arguments = tuple[Any, ...]
Calls = Sequence[Sequence[Arguments]]  # what each caller asks, over and over
Timed = tuple[int, list[int]]  # nanoseconds: when a caller's last call ended, what each took


@dataclass(frozen=True)
class Slot:
    """What one contestant did in one round."""

    took: list[int]  # nanoseconds of each call
    per_second: float  # calls that ended in time


@dataclass(frozen=True)
class Until:
    """When a slot is over: time, not a number of calls.

    With a number, one caller that a lock starves would stretch the slot of all others.
    """

    seconds: float
    most: int = 1_000_000  # calls a caller


class Threads:
    """A blocking contestant. One caller is this thread; several are threads that stay."""

    loop = "threads"

    def __init__(self, contestant: Blocking, callers: int) -> None:
        self.name = contestant.name
        self._contestant = contestant
        self._crew = ThreadPoolExecutor(callers)
        self.has_context = hasattr(contestant, "context")
        contestant.open()

    def slot(self, method: str, calls: Calls, until: Until) -> Slot:
        call = getattr(self._contestant, method)
        if len(calls) == 1:
            start = perf_counter_ns()
            return _summed(start, until, [_repeat(call, calls[0], start, until)])
        begun: list[int] = []
        # Waiting for each other also makes sure that each caller has a thread of its own.
        together = threading.Barrier(len(calls), lambda: begun.append(perf_counter_ns()))

        def caller(arguments: Sequence[Arguments]) -> Timed:
            together.wait()
            return _repeat(call, arguments, begun[0], until)

        callers = list(self._crew.map(caller, calls))
        return _summed(begun[0], until, callers)

    def once(self, method: str, *arguments: Any) -> Any:
        return getattr(self._contestant, method)(*arguments)

    def close(self) -> None:
        self._crew.shutdown()
        self._contestant.close()


class Tasks:
    """A contestant on an event loop of its own, which stands still between its slots."""

    def __init__(self, contestant: Awaited, loop: str) -> None:
        self.name = contestant.name
        self.loop = loop
        self._contestant = contestant
        self.has_context = hasattr(contestant, "context")
        self._runner = asyncio.Runner(loop_factory=_loop_factory(loop))
        self.once("open")

    def slot(self, method: str, calls: Calls, until: Until) -> Slot:
        return self._runner.run(self._callers(method, calls, until))

    async def _callers(self, method: str, calls: Calls, until: Until) -> Slot:
        call = getattr(self._contestant, method)
        start = perf_counter_ns()
        if len(calls) == 1:
            return _summed(start, until, [await _repeat_async(call, calls[0], start, until)])
        callers = (_repeat_async(call, arguments, start, until) for arguments in calls)
        return _summed(start, until, await asyncio.gather(*callers))

    def once(self, method: str, *arguments: Any) -> Any:
        async def call() -> Any:
            return await getattr(self._contestant, method)(*arguments)

        return self._runner.run(call())

    def close(self) -> None:
        self.once("close")
        self._runner.close()


Ready = Threads | Tasks


def check(ready: Ready, thread: str, user: str) -> None:
    """A contestant that does not store what it is given would win every round."""
    told = turn(987_654)
    ready.once("append", thread, user, told)
    if ready.once("last", thread, user, 2) != list(told):
        raise SystemExit(f"{ready.name} did not give back the turn it was given")
    before = ready.once("get", user)["visits"]
    ready.once("update", user, lambda value: value.update(visits=before + 1))
    if ready.once("get", user)["visits"] != before + 1:
        raise SystemExit(f"{ready.name} lost an update")
    if ready.has_context:
        found = ready.once("context", thread, user, 2)
        ours = isinstance(found, Context)
        parts = (found.thread.messages, found.user, found.workflows) if ours else found
        if [len(part) for part in parts] != [2, 2, 1]:
            raise SystemExit(f"{ready.name} did not find all of the context")


def _loop_factory(loop: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if loop == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


def _repeat(
    call: Callable[..., Any], arguments: Sequence[Arguments], start: int, until: Until
) -> Timed:
    took: list[int] = []
    end = start + int(until.seconds * 1e9)
    for each in islice(cycle(arguments), until.most):
        start = perf_counter_ns()
        call(*each)
        now = perf_counter_ns()
        took.append(now - start)
        if now >= end:
            return now, took
    return perf_counter_ns(), took


async def _repeat_async(
    call: Callable[..., Any], arguments: Sequence[Arguments], start: int, until: Until
) -> Timed:
    took: list[int] = []
    end = start + int(until.seconds * 1e9)
    for each in islice(cycle(arguments), until.most):
        start = perf_counter_ns()
        await call(*each)
        now = perf_counter_ns()
        took.append(now - start)
        if now >= end:
            return now, took
    return perf_counter_ns(), took


def _summed(start: int, until: Until, callers: Sequence[Timed]) -> Slot:
    """A call that ended after the slot counts as a latency, not as throughput."""
    end = start + int(until.seconds * 1e9)
    took = [ns for _, mine in callers for ns in mine]
    in_time = len(took) - sum(last > end for last, _ in callers)
    elapsed = min(end, max(last for last, _ in callers)) - start
    return Slot(took, max(1, in_time) / elapsed * 1e9)
