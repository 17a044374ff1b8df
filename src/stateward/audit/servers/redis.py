"""Redis, and what speaks as it does."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from stateward.audit.servers.server import OwnServer
from stateward.errors import InvalidInput

EMPTY = '""'
REWRITTEN = 30.0  # seconds for it to have written its files again


class RedisLike(OwnServer):
    """Redis, or what speaks as it does."""

    defaults: ClassVar[dict[str, str]] = {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "rdbcompression": "no",  # so that a text can be found in its files
    }

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._binary = _program(self.kind)
        super().__init__(settings)

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}"

    async def _prepare(self) -> None:
        fixed = {
            "port": str(self._port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "daemonize": "no",
            "requirepass": self._password,
        }
        lines = [f"{name} {value or EMPTY}" for name, value in self._settings.items()]
        lines += [f'{name} "{value}"' for name, value in fixed.items()]
        path = self._folder / "server.conf"
        path.touch(0o600)
        path.write_text("\n".join([*lines, ""]))

    def _command(self) -> list[str]:
        return [self._binary, str(self._folder / "server.conf")]

    async def _write_anew(self) -> None:
        """Rewrite the append-only file, and a snapshot if the server makes any."""
        if self._settings["appendonly"] == "yes":
            await self._asked("BGREWRITEAOF")
        if self._settings["save"]:
            await self._asked("SAVE")
        for _ in range(int(REWRITTEN * 20)):
            said = (await self._asked("INFO persistence")).split()
            if {"aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"} <= set(said):
                return
            await asyncio.sleep(0.05)

    async def _asked(self, command: str) -> str:
        async with asyncio.timeout(REWRITTEN):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(f"AUTH {self._password}\r\n{command}\r\n".encode())
            async with asyncio.timeout(REWRITTEN):
                await reader.readline()
                said = (await reader.readline()).decode()
                if said.startswith("$"):
                    said = (await reader.readexactly(int(said[1:]))).decode()
                return said
        finally:
            writer.transport.abort()

    def _stored(self) -> list[Path]:
        return [*self._folder.glob("appendonlydir/*"), *self._folder.glob("*.rdb")]

    async def _is_ready(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        try:
            writer.write(f"AUTH {self._password}\r\nPING\r\n".encode())
            async with asyncio.timeout(5.0):
                return (await reader.readline(), await reader.readline()) == (
                    b"+OK\r\n",
                    b"+PONG\r\n",
                )
        except (OSError, TimeoutError):
            return False
        finally:
            writer.transport.abort()


class Redis(RedisLike):
    kind = "redis"


class Valkey(RedisLike):
    kind = "valkey"


def _program(kind: str) -> str:
    name = f"{kind}-server"
    path = shutil.which(name)
    if path is None:
        raise InvalidInput(
            f"--with-server {kind} needs {name}, which is not on the PATH: install {kind} (e.g. "
            f"apt-get install {name}, brew install {kind}), or pass the URL of a server"
        )
    return path
