"""DBOS: a task that runs once is a workflow with an id of its own, with one step in it.

There is one DBOS in a process: whoever opens it must close it before the next is opened.
"""

from __future__ import annotations

from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.conversations import Population
from bench.peers.shape import FINISHED, Peer


@DBOS.step()
def _step() -> int:
    return 1


@DBOS.workflow()
def _workflow() -> int:
    return _step()


@DBOS.step()
async def _awaited_step() -> int:
    return 1


@DBOS.workflow()
async def _awaited_workflow() -> int:
    return await _awaited_step()


class Tasks(Peer):
    """Both colours on one DBOS: the blocking one opens and closes it."""

    name = "DBOS"
    colour = "sync"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._calls = 0

    def open(self) -> None:
        url = self.place if "://" in self.place else f"sqlite:///{self.place}"
        url = url.replace("postgresql://", "postgresql+psycopg://")
        DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
        DBOS.launch()

    def close(self) -> None:
        DBOS.destroy()

    def fill(self, population: Population) -> None:
        self._run(FINISHED)

    def once(self, *_: Any) -> int:
        self._calls += 1
        return self._run(f"task-{self._calls}")

    def hit(self, *_: Any) -> int:
        return self._run(FINISHED)

    def _run(self, id: str) -> int:
        with SetWorkflowID(id):
            return _workflow()


class AwaitedTasks(Peer):
    name = "DBOS"
    colour = "async"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self._calls = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def fill(self, population: Population) -> None:
        await self._run(f"awaited-{FINISHED}")

    async def once(self, *_: Any) -> int:
        self._calls += 1
        return await self._run(f"awaited-task-{self._calls}")

    async def hit(self, *_: Any) -> int:
        return await self._run(f"awaited-{FINISHED}")

    async def _run(self, id: str) -> int:
        with SetWorkflowID(id):
            return await _awaited_workflow()
