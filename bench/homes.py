"""Where contestants keep what they store: each has a file, or a server, of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bench.contestants import Field
from bench.conversations import Population

if TYPE_CHECKING:
    from servers.redis import RedisServer

TESTS = Path(__file__).parent.parent / "tests"  # which know how to start servers
EVERYSEC = ("--appendonly", "yes", "--appendfsync", "everysec")


class Home(Protocol):
    """Each layout is filled once; every contestant gets a copy of its own."""

    def copy(self, layout: str) -> str: ...
    def close(self) -> None: ...


class Files:
    """Files of SQLite."""

    def __init__(self, folder: Path, field: Field, population: Population) -> None:
        self._folder = folder
        self._copies = 0
        for layout, fill in field.fill.items():
            fill(str(folder / f"{layout}.db"), population)

    def copy(self, layout: str) -> str:
        self._copies += 1
        path = self._folder / f"{layout}-{self._copies}.db"
        with (self._folder / f"{layout}.db").open("rb") as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
            os.fsync(target.fileno())  # otherwise the first commits would pay for it
        return str(path)

    def close(self) -> None:
        """The folder is removed by whoever made it."""


class Servers:
    """Processes of a server; a copy is another one that starts with the file of the first."""

    def __init__(self, folder: Path, field: Field, population: Population) -> None:
        self._folder = folder
        self._running: list[RedisServer] = []
        for layout, fill in field.fill.items():
            server = start_server(folder / f"redis-{layout}", "--appendonly", "no")
            self._running.append(server)
            fill(server.url, population)
            assert server.ask("SAVE") == b"+OK\r\n"
            server.stop()

    def copy(self, layout: str) -> str:
        folder = self._folder / f"redis-{layout}-{len(self._running)}"
        folder.mkdir()
        shutil.copy(self._folder / f"redis-{layout}" / "dump.rdb", folder)
        server = start_server(folder, "--appendonly", "no")
        self._running.append(server)
        for name, value in zip(EVERYSEC[::2], EVERYSEC[1::2], strict=True):
            server.ask("CONFIG", "SET", name.removeprefix("--"), value)
        return server.url

    def close(self) -> None:
        for server in self._running:
            server.stop()


def start_server(folder: Path, *settings: str) -> RedisServer:
    """One more process, which keeps its files there."""
    if str(TESTS) not in sys.path:
        sys.path.append(str(TESTS))
    from servers.redis import RedisServer

    return RedisServer(folder, "valkey", *settings).start()


def server_version() -> str:
    sys.path.append(str(TESTS))
    from servers.redis import binary

    said = subprocess.run([binary("valkey"), "--version"], capture_output=True, text=True)
    words = dict(word.partition("=")[::2] for word in said.stdout.split() if "=" in word)
    return f"Valkey {words.get('v', 'unknown')}"
