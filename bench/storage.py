"""How many bytes a stored turn takes, for each byte of its messages' JSON."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contestants.raw import encode
from bench.conversations import Population, turn
from bench.homes import start_server

if TYPE_CHECKING:
    from servers.redis import RedisServer

MESSAGES = 50  # a conversation of ordinary length


@dataclass(frozen=True)
class Stored:
    layout: str
    payload: int
    file: int

    @property
    def ratio(self) -> float:
        return self.file / self.payload


def store(
    folder: Path, fill: dict[str, Callable[[str, Population], None]], *, conversations: int
) -> list[Stored]:
    """The same conversations in each layout, after everything was copied out of the WAL."""
    population = Population({MESSAGES: conversations}, profiles=False)
    one = sum(len(encode(m).encode()) for n in range(MESSAGES // 2) for m in turn(n))
    found = []
    for layout, filled in fill.items():
        path = folder / f"stored-{layout}.db"
        filled(str(path), population)
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        found.append(Stored(layout, one * conversations, os.path.getsize(path)))
    return found


def store_on_servers(
    folder: Path, fill: dict[str, Callable[[str, Population], None]], *, conversations: int
) -> list[Stored]:
    """The same in the memory of a server: what it takes more than when it was empty."""
    population = Population({MESSAGES: conversations}, profiles=False)
    one = sum(len(encode(m).encode()) for n in range(MESSAGES // 2) for m in turn(n))
    found = []
    for layout, filled in fill.items():
        server = start_server(folder / f"memory-{layout}", "--appendonly", "no")
        try:
            empty = memory(server)
            filled(server.url, population)
            found.append(Stored(layout, one * conversations, memory(server) - empty))
        finally:
            server.stop()
    return found


def memory(server: RedisServer) -> int:
    """Without what connections and scripts take."""
    said = server.ask("INFO", "memory").decode()
    fields = dict(line.partition(":")[::2] for line in said.splitlines())
    return int(fields["used_memory_dataset"])
