"""A server of the audit's own: started for it, killed by it, and gone when it ends.

It is durable unless the user's settings say otherwise, listens on a free port of this machine
alone, and wants a password that no one else knows.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from stateward.errors import InvalidInput

READY = 30.0  # seconds for a server to answer
AGAIN = 0.05  # seconds before one is started again that met what a killed one has left
WATCHDOG = os.path.join(os.path.dirname(__file__), "watchdog.py")


class OwnServer:
    """One server process in its own folder. Its URL stays the same over restarts."""

    kind: ClassVar[str]
    holds_all: ClassVar[bool] = True  # whatever was written is removed with it
    defaults: ClassVar[dict[str, str]] = {}

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**self.defaults, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._password = secrets.token_hex(16)
        self._port = _free_port()
        self._folder = Path(tempfile.mkdtemp(prefix=f"stateward-audit-{self.kind}-"))
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", WATCHDOG, str(self._folder)],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # Ctrl-C is the audit's
        )

    @property
    def url(self) -> str:
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start it, for the first time or again; returns when it answers."""
        await self._prepare()
        end = time.monotonic() + READY
        while True:
            process = self._process = self._spawn()
            self._tell(process.pid)
            while process.poll() is None and time.monotonic() < end:
                if await self._is_ready():
                    return
                await asyncio.sleep(0.02)
            # What a killed one held may still be held: its port, its shared memory.
            if time.monotonic() >= end or not self._was_hasty():
                self.kill()
                raise InvalidInput(f"the {self.kind} server does not start: {self._last_words()}")
            await asyncio.sleep(AGAIN)

    def kill(self) -> None:
        """Send SIGKILL to the whole server at once: nothing is flushed, no one is notified."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        children = _children(process.pid)
        for pid in (process.pid, *children):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # ended with the first process
        process.wait()
        self._tell(0)

    def remove(self) -> None:
        """End it, and delete all that it has stored. Can be called at any time."""
        self.kill()
        self._watchdog.communicate()

    async def search(self, texts: list[str]) -> list[list[str]]:
        """Return the files that contain each text, after the server dropped deleted data."""
        await self._write_anew()
        files = [path for path in self._stored() if path.is_file()]
        held = {path: path.read_bytes() for path in files}
        return [[p.name for p, data in held.items() if text.encode() in data] for text in texts]

    async def open_transactions(self) -> dict[int, str] | None:
        """Return sessions that wait in a transaction, with their last statement; None: unknown."""
        return None

    async def _write_anew(self) -> None:
        """Have the server rewrite its files without deleted data."""

    def _stored(self) -> list[Path]:
        """The files in which it keeps what is stored."""
        return []

    async def _prepare(self) -> None:
        """Make what must be there before the first start."""

    def _command(self) -> list[str]:
        raise NotImplementedError

    async def _is_ready(self) -> bool:
        raise NotImplementedError

    def _as_whom(self) -> dict[str, Any]:
        """Return arguments of `Popen` for the user that runs the server."""
        return {}

    def _spawn(self) -> subprocess.Popen[bytes]:
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # Ctrl-C is the audit's
                **self._as_whom(),
            )

    def _tell(self, pid: int) -> None:
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.write(b"%d\n" % pid)
        self._watchdog.stdin.flush()

    def _log(self) -> str:
        path = self._folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _was_hasty(self) -> bool:
        """Return True if the server ended because of what a killed one left behind for a moment."""
        said = self._last_words()
        return "already in use" in said or "shared memory" in said

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log().splitlines() if line.strip()]
        errors = [line for line in lines[-20:] if re.search("FATAL|rror|Bad|not ", line)]
        return " ".join(errors[-3:] or lines[-3:])[-400:] or "it says nothing"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []
