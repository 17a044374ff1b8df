"""A service of the user's own, in any language: a command that the audit starts, kills and starts.

The environment of the command says where to listen (PORT, of 127.0.0.1) and where to store files
(FOLDER, which stays the same over restarts).
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from pathlib import Path

from stateward.audit.servers.server import OwnServer
from stateward.errors import InvalidInput


class Service(OwnServer):
    kind = "service"
    holds_all = False  # the service may store state anywhere

    def __init__(self, command: str) -> None:
        self._words = shlex.split(command)
        if not self._words:
            raise InvalidInput("--start-command names a program: --start-command 'node memory.mjs'")
        super().__init__({})
        self._data = self._folder / "data"
        self._data.mkdir(mode=0o700)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def _command(self) -> list[str]:
        return self._words

    def _spawn(self) -> subprocess.Popen[bytes]:
        environment = {"PORT": str(self._port), "FOLDER": str(self._data)}
        with open(self._folder / "log", "ab") as log:
            try:
                return subprocess.Popen(
                    self._words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=os.environ | environment,
                    start_new_session=True,  # Ctrl-C is the audit's
                )
            except OSError as error:
                problem = f"--start-command cannot be run: {self._words[0]}: {error.strerror}"
                raise InvalidInput(problem) from error

    async def _is_ready(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.transport.abort()
        return True

    def _stored(self) -> list[Path]:
        return list(self._data.rglob("*"))

    def _was_hasty(self) -> bool:
        return super()._was_hasty() or "EADDRINUSE" in self._last_words()
