"""The targets of the mutation runs, made alike in every replica: all that differs is in the URL.

sqlite:///path/to/file?mutant=append.truncate@200
redis://127.0.0.1:6379/0                                 sound, without a mutant
postgresql://…/postgres?mutant=load.reversed
redis://…?plain=1                                        with plain methods instead of async ones
redis://…?store=1&mutant=metrics.zero                    Stateward's own store underneath
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

from audit.mutations.catalogue import EVERY
from audit.mutations.mutant import Mutated
from stateward.audit.targets.store import StoreMemory, StoreTarget

# Imported by whoever uses it: a driver takes longer to import than most of an audit's calls do.
SOUND = {
    "sqlite": ("sqlite", "SqliteMemory"),
    "redis": ("redis", "RedisMemory"),
    "postgresql": ("postgres", "PostgresMemory"),
}
PLAIN = {"redis": ("plain", "PlainRedisMemory"), "postgresql": ("plain", "PlainPostgresMemory")}


def create(namespace: str, url: str) -> Any:
    """The memory that a URL names: sound, or sound but for one thing."""
    parts = urlsplit(url)
    said = {name: values[0] for name, values in parse_qs(parts.query).items()}
    plain = urlunsplit(parts._replace(query=""))
    if parts.scheme == "sqlite":
        plain = f"sqlite://{parts.path}"
    if "store" in said:
        memory: Any = StoreMemory(StoreTarget(plain, namespace, said["store"]))
    else:
        module, kind = (PLAIN if "plain" in said else SOUND)[parts.scheme]
        found = import_module(f"audit.mutations.sound.{module}")
        memory = getattr(found, kind)(namespace, plain)
    return Mutated(memory, EVERY[said["mutant"]]) if "mutant" in said else memory
