"""Who takes part, on which engine, and how durable each is when a call returns."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

MODULES = "bench.peers.contestants"

FULL = "WAL, synchronous=FULL"
OWN_WAL = f"{FULL} (its defaults)"
SET_WAL = (
    f"{FULL} (the file was put into WAL mode beforehand; its own default is a rollback journal)"
)
POSTGRES = "fsync, synchronous_commit=on"
VALKEY = "appendonly, appendfsync everysec"


@dataclass(frozen=True)
class Entry:
    """One contestant on one engine."""

    module: str
    kind: str
    role: str  # "stateward", "peer" or "raw"
    durability: str
    packages: tuple[str, ...] = ()  # whose versions the page shows, the first one is imported
    imported: str = ""  # what must be there to take part
    file: str = ".db"  # how its place ends, where places are files; "" is a folder
    wal: bool = False  # it would not put its file into WAL mode itself

    @property
    def installed(self) -> bool:
        return all(_found(name) for name in self.imported.split())

    def load(self) -> Any:
        """The class of the contestant."""
        return getattr(import_module(f"{MODULES}.{self.module}"), self.kind)


def _found(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


STATEWARD = {
    "sqlite": (
        Entry("ours", "Stateward", "stateward", FULL),
        Entry("ours", "StatewardSync", "stateward", FULL),
    ),
    "redis": (Entry("ours", "Stateward", "stateward", VALKEY),),
    "postgres": (
        Entry("ours", "Stateward", "stateward", POSTGRES),
        Entry("ours", "StatewardSync", "stateward", POSTGRES),
    ),
}

OPENAI, LANGGRAPH, ADK = ("openai-agents",), ("langgraph", "langgraph-checkpoint"), ("google-adk",)
SQLALCHEMY = ("sqlalchemy", "asyncpg")

STATE: dict[str, tuple[Entry, ...]] = {
    "sqlite": (
        *STATEWARD["sqlite"],
        Entry("openai_agents", "SQLiteSessions", "peer", OWN_WAL, OPENAI, "agents"),
        Entry("langgraphs", "SqliteGraphs", "peer", OWN_WAL,
              (*LANGGRAPH, "langgraph-checkpoint-sqlite"),
              "langgraph.checkpoint.sqlite langgraph.checkpoint.postgres"),
        Entry("strands_files", "FileSessions", "peer", "none: files are renamed, never synced",
              ("strands-agents",), "strands", file=""),
        Entry("adk", "SqliteEvents", "peer", SET_WAL, (*ADK, "sqlalchemy", "aiosqlite"),
              "google.adk sqlalchemy", wal=True),
        Entry("pydantic_ai_files", "SqliteConversations", "peer", OWN_WAL,
              ("pydantic-ai-harness", "pydantic-ai-slim"), "pydantic_ai_harness"),
        Entry("raw_clients", "Aiosqlite", "raw", FULL, ("aiosqlite",), "aiosqlite"),
    ),
    "redis": (
        *STATEWARD["redis"],
        Entry("openai_agents_redis", "RedisSessions", "peer", VALKEY, (*OPENAI, "redis"),
              "agents redis"),
        Entry("raw_clients", "RedisPy", "raw", VALKEY, ("redis", "hiredis"), "redis"),
        Entry("raw_glide", "RawGlide", "raw", VALKEY, ("valkey-glide",), "glide"),
    ),
    "postgres": (
        *STATEWARD["postgres"][:1],
        Entry("openai_agents_sqlalchemy", "SQLAlchemySessions", "peer", POSTGRES,
              (*OPENAI, *SQLALCHEMY), "agents sqlalchemy asyncpg"),
        Entry("langgraphs", "PostgresGraphs", "peer", POSTGRES,
              (*LANGGRAPH, "langgraph-checkpoint-postgres", "psycopg"),
              "langgraph.checkpoint.sqlite langgraph.checkpoint.postgres"),
        Entry("adk", "PostgresEvents", "peer", POSTGRES, (*ADK, *SQLALCHEMY),
              "google.adk sqlalchemy"),
        Entry("raw_asyncpg", "RawAsyncpg", "raw", POSTGRES, ("asyncpg",), "asyncpg"),
    ),
}  # fmt: skip

# Apart from the others: DBOS keeps threads of its own busy, and there is one in a process.
TASKS: dict[str, tuple[Entry, ...]] = {
    "sqlite": (
        *STATEWARD["sqlite"],
        Entry("dbos_tasks", "Tasks", "peer", SET_WAL, ("dbos",), "dbos", wal=True),
        Entry("dbos_tasks", "AwaitedTasks", "peer", SET_WAL, ("dbos",), "dbos"),
    ),
    "postgres": (
        *STATEWARD["postgres"],
        Entry("dbos_tasks", "Tasks", "peer", POSTGRES, ("dbos",), "dbos"),
        Entry("dbos_tasks", "AwaitedTasks", "peer", POSTGRES, ("dbos",), "dbos"),
    ),
}

ENGINES = tuple(STATE)
TITLES = {"sqlite": "SQLite", "redis": "Valkey", "postgres": "PostgreSQL"}


def taking_part(found: tuple[Entry, ...], *, installed_alone: bool) -> list[Entry]:
    """All of them; those that are not installed may be left out only if that was asked for."""
    missing = [entry for entry in found if not entry.installed]
    if missing and not installed_alone:
        names = ", ".join(sorted({entry.packages[0] for entry in missing}))
        raise SystemExit(f"not installed: {names}. `make bench-peers` installs them; "
                         "--installed goes on without")  # fmt: skip
    return [entry for entry in found if entry.installed]
