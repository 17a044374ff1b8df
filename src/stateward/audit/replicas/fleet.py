"""Replicas as the conductor sees them: real processes that can be asked, paused and killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from stateward.audit.targets.target import AuditTarget
from stateward.errors import StatewardError

LIMIT = 64 << 20
PATIENCE = 60.0  # seconds for an answer that has no limit of its own


class Failed(StatewardError):
    """A replica could not carry out a request, or did not answer."""


class Replica:
    """One replica in its own process."""

    def __init__(self, number: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self.provides: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.alive = True
        self.reusable = True
        self._process = process
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._next = 0
        self._happened = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @property
    def pid(self) -> int:
        return self._process.pid

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = json.loads(line)
            if "id" not in message:
                self.events.append(message)
                self._happened.set()
                continue
            waiting = self._asked.pop(message["id"], None)
            if waiting is None or waiting.done():
                continue
            if "error" in message:
                waiting.set_exception(Failed(message["error"]))
            else:
                waiting.set_result(message["value"])
        self.alive = False
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(Failed(f"replica {self.number} has died"))
                waiting.exception()  # no one need ask: it was killed
        self._happened.set()

    def send(self, do: str, **args: Any) -> asyncio.Future[Any]:
        """Tell it what to do; the answer comes when it has."""
        self._next += 1
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[self._next] = waiting
        self._write({"id": self._next, "do": do, "args": args})
        return waiting

    def _write(self, said: Any) -> None:
        assert self._process.stdin is not None
        if self._process.stdin.is_closing() or not self.alive:
            raise Failed(f"replica {self.number} has died")
        self._process.stdin.write(json.dumps(said).encode() + b"\n")

    async def ask(self, do: str, *, patience: float = PATIENCE, **args: Any) -> Any:
        try:
            async with asyncio.timeout(patience):  # not wait_for: an interrupt could get lost in it
                return await self.send(do, **args)
        except TimeoutError:
            problem = f"replica {self.number} did not finish {do} within {patience:g} s"
            raise Failed(problem) from None

    async def attempt(self, do: str, **args: Any) -> dict[str, Any]:
        """Ask for work that ends in a result or an error, and return both."""
        try:
            answer: dict[str, Any] = await self.ask(do, **args)
        except Failed as error:
            return {"result": None, "error": str(error)}
        return answer

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of its memory."""
        return await self.ask(f"target:{method}", args=args)

    async def begin(self, target: AuditTarget) -> None:
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[0] = waiting
        self._write(msgspec.to_builtins(target))
        async with asyncio.timeout(PATIENCE):
            answer = await waiting
        self.provides = answer["provides"]

    async def until(
        self, condition: Callable[[list[dict[str, Any]]], bool], patience: float = PATIENCE
    ) -> None:
        """Wait until the replica's events meet a condition."""
        async with asyncio.timeout(patience):
            while not condition(self.events):
                if not self.alive:
                    raise Failed(f"replica {self.number} has died")
                self._happened.clear()
                await self._happened.wait()

    async def until_event(self, patience: float = PATIENCE, **event: Any) -> None:
        """Wait for an event of the replica with at least these fields."""
        await self.until(
            lambda events: any(event.items() <= each.items() for each in events), patience
        )

    def signal(self, number: int) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):  # ended, which the loop does not know yet
                os.kill(self._process.pid, number)

    async def kill(self) -> None:
        """Send SIGKILL, so that nothing is flushed and no one is notified."""
        self.signal(signal.SIGKILL)
        await self._process.wait()
        await self._reading

    async def close(self) -> None:
        """Close the process in an orderly way, or else by force."""
        try:
            await self.ask("close", patience=10.0)
        except Failed:
            self.signal(signal.SIGCONT)
        await self.kill()


class Fleet:
    """All replicas of one audit."""

    def __init__(self, target: AuditTarget) -> None:
        self.target = target
        self.replicas: list[Replica] = []
        self._idle: list[Replica] = []
        self._number = 0
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by kill_all)

    async def start(self, count: int = 1, *, fresh: bool = False, **changed: Any) -> list[Replica]:
        """Start this many replicas concurrently. `changed` overrides fields of the target.

        Starting a process takes longer than most workloads do, so those that another workload has
        done with are used again, unless new ones are asked for.
        """
        again: list[Replica] = []
        if not fresh and not changed:
            again = [replica for replica in self._idle if replica.alive][:count]
            self._idle = [replica for replica in self._idle if replica not in again]
        more = count - len(again)
        new = await asyncio.gather(*(self._one(**changed) for _ in range(more)))
        for replica in (*again, *new):
            replica.events.clear()
            replica.reusable = not fresh and not changed
        return [*again, *new]

    async def _one(self, **changed: Any) -> Replica:
        self._number += 1
        number = self._number  # others may be started in the meantime
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "stateward.audit.replicas.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._errors,
            limit=LIMIT,
            start_new_session=True,  # Ctrl-C is the conductor's
        )
        replica = Replica(number, process)
        self.replicas.append(replica)
        changed.setdefault("replica", number)
        await replica.begin(msgspec.structs.replace(self.target, **changed))
        return replica

    async def end(self, *replicas: Replica) -> None:
        """Take back replicas that are no longer used: reuse them if possible, else close them."""
        self._idle += [replica for replica in replicas if replica.reusable]
        await self._close([replica for replica in replicas if not replica.reusable])

    async def rest(self) -> None:
        """Close all that no one uses."""
        idle, self._idle = self._idle, []
        await self._close(idle)

    async def _close(self, ending: list[Replica]) -> None:
        await asyncio.gather(*(replica.close() for replica in ending))
        self.replicas = [replica for replica in self.replicas if replica not in ending]

    async def kill_all(self) -> None:
        for replica in self.replicas:
            await replica.kill()
        self.replicas.clear()
        self._idle.clear()
        self._errors.close()

    async def abandon(self) -> None:
        """Kill what a workload that did not end has left running."""
        left = [replica for replica in self.replicas if replica not in self._idle]
        for replica in left:
            await replica.kill()
        self.replicas = list(self._idle)
