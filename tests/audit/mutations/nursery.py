"""Replicas that begin as copies of a process which has imported everything.

Hundreds of audits start thousands of replicas, and most of the time of each would be spent on
importing. A process of one thread imports once and is copied for each replica; the fleet is given
what it would be given for a process of its own: pipes, a number to signal, and word of its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

MODULE = "stateward.audit.replicas.process"
LIMIT = 64 << 20


class Copied:
    """One replica process, as asyncio's own `Process` looks."""

    def __init__(self, pid: int, stdin: Any, stdout: Any, ended: asyncio.Future[int]) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self._ended = ended

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)


class Nursery:
    """The process that is copied, for one event loop. It ends with this process."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "audit.mutations.nursery", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        self._started: asyncio.Queue[int] = asyncio.Queue()
        self._ended: dict[int, asyncio.Future[int]] = {}
        self._rest = b""
        self._ours.setblocking(False)
        asyncio.get_running_loop().add_reader(self._ours, self._heard)

    def _heard(self) -> None:
        data = self._ours.recv(65536)
        if not data:
            asyncio.get_running_loop().remove_reader(self._ours)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            pid = said["pid"]
            if "code" not in said:
                self._ended[pid] = asyncio.get_running_loop().create_future()
                self._started.put_nowait(pid)
            elif not self._ended[pid].done():
                self._ended[pid].set_result(said["code"])

    async def start(self, stderr: Any) -> Copied:
        loop = asyncio.get_running_loop()
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        socket.send_fds(self._ours, [b"!"], [their_in, their_out, stderr.fileno()])
        os.close(their_in)
        os.close(their_out)
        pid = await self._started.get()
        lines = asyncio.StreamReader(limit=LIMIT)
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), os.fdopen(our_in, "rb", 0)
        )
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(our_out, "wb", 0)
        )
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        return Copied(pid, writer, lines, self._ended[pid])


# --- the process that is copied ---------------------------------------------------------


def _tell(to: socket.socket, **said: Any) -> None:
    to.sendall(json.dumps(said).encode() + b"\n")


def _bury(to: socket.socket) -> None:
    """Tell of those that have ended."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            _tell(to, pid=pid, code=os.waitstatus_to_exitcode(status))


def _become(replica: Any, fds: list[int]) -> None:
    """This copy is a replica from now on."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = os.fdopen(0, closefd=False)
    os.setsid()
    try:
        asyncio.run(replica.main())
    finally:
        os._exit(1)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    from audit.mutations import target
    from audit.mutations.sound import postgres, redis
    from stateward.audit.replicas import process as replica

    assert all((target, postgres, redis))
    wakes, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken)
    while True:
        ready, _, _ = select.select([control, wakes], [], [])
        if wakes in ready:
            os.read(wakes, 4096)
            _bury(control)
        if control not in ready:
            continue
        data, fds, _, _ = socket.recv_fds(control, 1, 3)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            os.close(wakes)
            os.close(woken)
            _become(replica, fds)
        for fd in fds:
            os.close(fd)
        _tell(control, pid=pid)
        _bury(control)


if __name__ == "__main__":
    main()
