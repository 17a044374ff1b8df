"""One replica of the audited system: a process that carries out the conductor's requests.

It reads one JSON object a line: first where the target is, then what to do. It answers the same
way, and ends when its input does, so that no audit leaves processes behind.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from os import _exit as exit_at_once
from typing import Any, TextIO

import msgspec

from stateward.audit.faults import reroute
from stateward.audit.targets.choice import AnyTarget
from stateward.audit.targets.memory import Memory

LIMIT = 64 << 20
PR_SET_PDEATHSIG = 1
# For plain methods, and for async ones that use threads: more than any workload calls at once,
# however few processors there are, and few enough for a connection each.
THREADS = 16


class ReplicaProcess:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, **said: Any) -> None:
        self._out.write(json.dumps(said, default=str) + "\n")  # a memory may return anything
        self._out.flush()

    async def run(self, lines: asyncio.StreamReader) -> None:
        target: AnyTarget = msgspec.json.decode(await lines.readline(), type=AnyTarget)
        if target.routes:
            reroute.take(target.routes)
        try:
            memory = Memory(target.connect())
            await memory.call("open")
        except BaseException as error:
            self.tell(id=0, error=failure(error))
            return
        self.tell(id=0, value={"provides": memory.provides})
        while line := await lines.readline():
            command = json.loads(line)
            if command["do"] == "close":
                await memory.call("close")
                self.tell(id=command["id"], value=None)
                return
            task = asyncio.create_task(self._carry_out(memory, command))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, memory: Memory, command: dict[str, Any]) -> None:
        module, _, name = command["do"].partition(":")
        try:
            if module == "target":
                value = await memory.do(name, *command["args"]["args"])
            else:
                role = getattr(import_module(f"stateward.audit.workloads.{module}"), name)
                value = await role(memory, self.tell, **command["args"])
        except Exception as error:
            self.tell(id=command["id"], error=failure(error))
        else:
            self.tell(id=command["id"], value=value)


def failure(error: BaseException) -> str:
    """Describe an error in words, with the line that raised it."""
    trace = traceback.extract_tb(error.__traceback__)
    where = [f" ({os.path.basename(at.filename)}:{at.lineno})" for at in trace[-1:]]
    return f"{type(error).__name__}: {error}{''.join(where)}"


def end_with_the_conductor() -> None:
    """Have the system kill this replica with its conductor, even while it is paused."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


async def main() -> None:
    end_with_the_conductor()
    # The disk of a replica is full for a while, and bytecode would be written half: whoever
    # imports that module afterwards fails.
    sys.dont_write_bytecode = True
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a target prints must not be taken for an answer
    lines = asyncio.StreamReader(limit=LIMIT)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    await ReplicaProcess(out).run(lines)
    out.flush()
    exit_at_once(0)  # calls that hang must not keep it


if __name__ == "__main__":
    asyncio.run(main())
