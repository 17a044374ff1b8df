"""The targets of the mutation runs, made alike in every replica: all that differs is in the URL.

    sqlite:///path/to/file?mutant=append.truncate@200
    redis://127.0.0.1:6379/0                                 sound, without a mutant
    postgresql://…/postgres?mutant=load.reversed
    redis://…?store=1&mutant=metrics.zero                    Stateward's own store underneath
"""

from __future__ import annotations

import os
import tempfile
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from audit.mutations.sound.postgres import PostgresMemory
from audit.mutations.sound.redis import RedisMemory
from audit.mutations.sound.sqlite import SqliteMemory
from stateward.audit.targets.store import StoreMemory, StoreTarget

SOUND: dict[str, Any] = {
    "sqlite": SqliteMemory,
    "redis": RedisMemory,
    "postgresql": PostgresMemory,
}


def create(namespace: str, url: str) -> Any:
    """The memory that a URL names: sound, or sound but for one thing."""
    parts = urlsplit(url)
    said = {name: values[0] for name, values in parse_qs(parts.query).items()}
    plain = urlunsplit(parts._replace(query=""))
    if parts.scheme == "sqlite":
        plain = f"sqlite://{parts.path}"
    if "store" in said:
        folder = os.path.join(tempfile.gettempdir(), f"mutations-{namespace}")
        memory: Any = StoreMemory(StoreTarget(plain, namespace, folder))
    else:
        memory = SOUND[parts.scheme](namespace, plain)
    return memory
