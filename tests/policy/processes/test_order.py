"""Processes of one machine take turns with one conversation, whatever happens: its order holds."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from servers import until
from servers.redis import DURABLE, RedisServer, running

import stateward

WORKER = Path(__file__).parent.parent / "roles" / "worker.py"
COLOURS = ("async", "sync", "async")
CONVERSATIONS = 8
IMPATIENCE = 5.0  # seconds after which a client asks another worker
MINUTES = 120.0


class Worker:
    """A process that is told which turns to store."""

    def __init__(self, url: str, spill: Path, colour: str) -> None:
        self._command = [sys.executable, "-W", "error", str(WORKER), url, str(spill), colour]
        self._asked: dict[str, asyncio.Future[str]] = {}
        self.serves = False

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        self._ear = asyncio.create_task(self._listen())
        self.serves = True

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            turn, _, status = line.decode().strip().rpartition(" ")
            if turn in self._asked and not self._asked[turn].done():
                self._asked[turn].set_result(status)

    async def store(self, turn: str) -> str:
        """What became of it; `TimeoutError` or `ConnectionError` if that is not known."""
        assert self.process.stdin is not None
        said = self._asked[turn] = asyncio.get_running_loop().create_future()
        self.process.stdin.write(f"{turn}\n".encode())
        async with asyncio.timeout(IMPATIENCE):
            return await said

    def pause(self) -> None:
        self.serves = False
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.serves = True

    async def kill(self) -> None:
        self.serves = False
        self.process.kill()
        await self.process.wait()
        await self._ear

    async def end(self) -> int:
        """It closes its store; how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await self.process.wait()


class Crowd:
    """Conversations, each of which sends one turn after the other to any worker."""

    def __init__(self, workers: list[Worker], seed: int) -> None:
        self._workers = workers
        self._random = random.Random(seed)
        self.turns = dict.fromkeys([f"s-{n}" for n in range(CONVERSATIONS)], 0)
        self.statuses = {id: Counter[str]() for id in self.turns}
        self._going = True
        self._tasks = [asyncio.create_task(self._converse(id)) for id in self.turns]

    async def _converse(self, id: str) -> None:
        answered = True
        while self._going or not answered:  # what was asked and not answered may be stored
            worker = self._random.choice([it for it in self._workers if it.serves])
            answered = False
            with suppress(TimeoutError, ConnectionError):  # ask another one, with the same key
                self.statuses[id][await worker.store(f"{id} {self.turns[id]}")] += 1
                self.turns[id] += 1
                answered = True
            await asyncio.sleep(0.02)

    async def until_all(self, status: str, more: int) -> None:
        """Until each has heard that so many times more."""
        wanted = {id: said[status] + more for id, said in self.statuses.items()}
        async with asyncio.timeout(MINUTES):
            while any(self.statuses[id][status] < n for id, n in wanted.items()):
                for task in self._tasks:
                    assert not task.done() or task.result()
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        self._going = False
        await asyncio.gather(*self._tasks)


@asynccontextmanager
async def workers_on(server: RedisServer, spill: Path) -> AsyncIterator[list[Worker]]:
    workers = [Worker(server.url, spill, colour) for colour in COLOURS]
    for worker in workers:
        await worker.start()
    try:
        yield workers
    finally:
        for worker in workers:
            if worker.process.returncode is None:
                await worker.kill()


async def verify(crowd: Crowd, workers: list[Worker], server: RedisServer, spill: Path) -> int:
    """Each turn once and in order; how many are said to be late."""
    await crowd.stop()
    await until(lambda: not list(spill.glob("*.spill")))
    assert [await worker.end() for worker in workers] == [0] * len(workers)
    late = 0
    async with stateward.open(server.url, spill=False) as store:
        for id, count in crowd.turns.items():
            found = [message["n"] for message in (await store.thread(id).load()).messages]
            assert found == [n for n in range(count) for _ in range(2)], id
            late += len(await store.thread(id).late())
    return late


async def test_turns_that_go_to_any_worker_stay_in_order_over_outages(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    with running(tmp_path / "valkey", "valkey", *DURABLE) as server:
        async with workers_on(server, spill) as workers:
            crowd = Crowd(workers, seed=1)
            for _ in range(2):
                await crowd.until_all("stored", 3)
                await asyncio.to_thread(server.kill)
                await crowd.until_all("spilled", 6)
                await asyncio.to_thread(server.restart)
            await crowd.until_all("stored", 5)
            assert await verify(crowd, workers, server, spill) == 0


@pytest.mark.parametrize("seed", [1, 2])
async def test_they_do_though_one_that_replays_is_killed_and_another_paused(
    seed: int, tmp_path: Path
) -> None:
    spill, chance = tmp_path / "spill", random.Random(seed)
    with running(tmp_path / "valkey", "valkey", *DURABLE) as server:
        async with workers_on(server, spill) as workers:
            crowd = Crowd(workers, seed)
            await crowd.until_all("stored", 2)
            await asyncio.to_thread(server.kill)
            await crowd.until_all("spilled", 6)
            killed, paused, _ = chance.sample(workers, 3)
            if seed % 2:  # before anything of theirs can have reached the store
                paused.pause()
                await killed.kill()
            await asyncio.to_thread(server.restart)
            if killed.serves:  # in the middle of it
                await crowd.until_all("stored", 1)
                paused.pause()
                await killed.kill()
            await crowd.until_all("stored", 5)  # nobody waits for them
            paused.go_on()
            await killed.start()
            await crowd.until_all("stored", 2)
            assert await verify(crowd, workers, server, spill) == 0
