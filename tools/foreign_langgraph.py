"""A pytest plugin: LangGraph's tests ask for a SQLite saver or store and get Stateward's.

See foreign_suites.py. Every one has a namespace of its own. All types are allowed, as the savers
that are replaced allow them: the tests define hundreds.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any

from stateward.integrations.langgraph import StatewardSaver, StatewardStore

URL = os.environ.get("STATEWARD_FOREIGN_URL", "memory://")
_numbers = itertools.count(1)


def _namespace() -> str:
    return f"foreign-{os.getpid()}-{next(_numbers)}"


class Store(StatewardStore):
    """With what the tests call to prepare a SQLite file: there is nothing to prepare."""

    def setup(self) -> None: ...

    def sweep_ttl(self) -> int:
        return 0


class AsyncStore(StatewardStore):
    """The same for async tests."""

    async def setup(self) -> None: ...

    async def sweep_ttl(self) -> int:
        return 0

    async def start_ttl_sweeper(self) -> None: ...

    async def stop_ttl_sweeper(self) -> None: ...


@contextmanager
def _saver(*_: Any, **__: Any) -> Iterator[StatewardSaver]:
    with StatewardSaver.from_url(URL, namespace=_namespace(), allow=True) as saver:
        yield saver


@asynccontextmanager
async def _async_saver(*_: Any, **__: Any) -> AsyncIterator[StatewardSaver]:
    async with StatewardSaver.from_url(URL, namespace=_namespace(), allow=True) as saver:
        yield saver


@contextmanager
def _store(*_: Any, index: Any = None, ttl: Any = None, **__: Any) -> Iterator[StatewardStore]:
    with Store.from_url(URL, namespace=_namespace(), index=index, ttl=ttl) as store:
        yield store


@asynccontextmanager
async def _async_store(
    *_: Any, index: Any = None, ttl: Any = None, **__: Any
) -> AsyncIterator[StatewardStore]:
    async with AsyncStore.from_url(URL, namespace=_namespace(), index=index, ttl=ttl) as store:
        yield store


IN_PLACE = {
    "langgraph.checkpoint.sqlite:SqliteSaver": _saver,
    "langgraph.checkpoint.sqlite.aio:AsyncSqliteSaver": _async_saver,
    "langgraph.store.sqlite:SqliteStore": _store,
    "langgraph.store.sqlite.aio:AsyncSqliteStore": _async_store,
}
for place, made in IN_PLACE.items():
    module, _, name = place.partition(":")
    getattr(import_module(module), name).from_conn_string = staticmethod(made)
