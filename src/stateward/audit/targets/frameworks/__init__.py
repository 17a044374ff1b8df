"""What people already run: the stores that come with agent frameworks, through their public APIs.

Each is set up as its own documentation says, and used as a careful user would: turns by one call,
with the framework's own means against repeats where it has any. What a framework lacks is left out
of `provides`, and so is `absent` in the report.

A framework is imported in the replicas alone, and only when it was chosen.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from stateward.audit.targets import TargetAddress
from stateward.errors import InvalidInput

POOL = 4  # connections a replica may open: as many as a store of Stateward's does
POSTGRES, SQLITE, REDIS, FOLDER = "postgresql", "sqlite", "redis", "file"


class Framework(Struct, frozen=True):
    """One store of a framework. `kept_in`: what its URL may name, the first if there is none."""

    module: str
    name: str
    kept_in: tuple[str, ...]
    packages: tuple[str, ...]
    extra: str

    @property
    def needs_url(self) -> bool:
        return self.kept_in[0] in (POSTGRES, REDIS)


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
EXAMPLES = {
    POSTGRES: "postgresql://127.0.0.1/agents",
    SQLITE: "sqlite:///agents.db",
    REDIS: "redis://127.0.0.1:6379",
    FOLDER: "file:///var/lib/sessions",
}


def place_of(named: str, folder: str, namespace: str, url: str | None) -> TargetAddress:
    """Where this one keeps its state; raises if it cannot be audited here."""
    framework = FRAMEWORKS[named]
    missing = [name for name in framework.packages if _version(name) is None]
    if missing:
        raise InvalidInput(
            f"{named} needs {', '.join(missing)}: pip install 'stateward[{framework.extra}]'"
        )
    if url is None and framework.needs_url:
        raise InvalidInput(f"{named} needs a server: --url {EXAMPLES[framework.kept_in[0]]}")
    if url is None:
        name = "sessions" if framework.kept_in[0] == FOLDER else "agents.db"
        url = f"{framework.kept_in[0]}:///{quote(f'{folder}/{name}')}"
    if kind_of(url) not in framework.kept_in:
        forms = " or ".join(EXAMPLES[kind] for kind in framework.kept_in)
        raise InvalidInput(f"{named} takes a --url like {forms}")
    return TargetAddress("framework", named, namespace, folder, url=url)


def kind_of(url: str) -> str:
    """What a URL names."""
    scheme = url.partition("://")[0]
    return {"postgres": POSTGRES, "rediss": REDIS}.get(scheme, scheme)


def versions(named: str) -> dict[str, str]:
    """The framework's packages that are installed here, with their versions."""
    found = {name: _version(name) for name in FRAMEWORKS[named].packages}
    return {name: version for name, version in found.items() if version is not None}


def memory(place: TargetAddress) -> Any:
    """The framework's store as a target; this imports the framework."""
    framework = FRAMEWORKS[place.name]
    try:
        module = import_module(f"{__name__}.{framework.module}")
    except ImportError as error:
        raise InvalidInput(
            f"{place.name} cannot be imported ({error}): pip install 'stateward[{framework.extra}]'"
        ) from error
    return getattr(module, framework.name)(place)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
