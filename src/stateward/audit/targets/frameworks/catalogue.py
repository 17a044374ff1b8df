"""Stores that come with agent frameworks, used through their public APIs.

Each is set up as its own documentation says, and used as a careful user would: turns by one call,
with the framework's own means against repeats where it has any. What a framework lacks is left out
of `provides`, and so is `absent` in the report.

A framework is imported in the replicas alone, and only when it was chosen.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any

from msgspec import Struct

from stateward.audit.targets.frameworks.sandbox import FOLDER, POSTGRES, REDIS, SQLITE
from stateward.audit.targets.target import AuditTarget
from stateward.errors import InvalidInput


class Framework(Struct, frozen=True):
    """One store of a framework. `kept_in`: storages its URL may name, the default first."""

    module: str
    name: str
    kept_in: tuple[str, ...]
    packages: tuple[str, ...]
    extra: str

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions of its installed packages, the framework itself first."""
        installed = {name: _version(name) for name in self.packages}
        return {name: version for name, version in installed.items() if version is not None}


FRAMEWORKS: dict[str, Framework] = {
    "langgraph:postgres": Framework(
        "langgraph",
        "PostgresGraph",
        (POSTGRES,),
        ("langgraph", "langgraph-checkpoint-postgres", "psycopg", "psycopg-pool"),
        "audit-langgraph",
    ),
    "langgraph:sqlite": Framework(
        "langgraph",
        "SqliteGraph",
        (SQLITE,),
        ("langgraph", "langgraph-checkpoint-sqlite"),
        "audit-langgraph",
    ),
    "openai-agents:sqlite": Framework(
        "openai_agents", "SqliteSessions", (SQLITE,), ("openai-agents",), "audit-openai-agents"
    ),
    "openai-agents:sqlalchemy": Framework(
        "openai_agents",
        "SqlalchemySessions",
        (SQLITE, POSTGRES),
        ("openai-agents", "sqlalchemy", "greenlet", "aiosqlite", "asyncpg", "psycopg"),
        "audit-openai-agents",
    ),
    "openai-agents:redis": Framework(
        "openai_agents",
        "RedisSessions",
        (REDIS,),
        ("openai-agents", "redis"),
        "audit-openai-agents",
    ),
    "strands:file": Framework("strands", "FileSessions", (FOLDER,), ("strands-agents",), "strands"),
    "adk:database": Framework(
        "adk",
        "DatabaseSessions",
        (SQLITE, POSTGRES),
        ("google-adk", "sqlalchemy", "greenlet", "aiosqlite", "asyncpg", "psycopg"),
        "audit-adk",
    ),
}


def memory(target: AuditTarget) -> Any:
    """The framework's store as a memory; this imports the framework."""
    framework = FRAMEWORKS[target.name]
    try:
        module = import_module(f"stateward.audit.targets.frameworks.{framework.module}")
    except ImportError as error:
        raise InvalidInput(
            f"{target.name} cannot be imported ({error}): "
            f"pip install 'stateward[{framework.extra}]'"
        ) from error
    return getattr(module, framework.name)(target)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
