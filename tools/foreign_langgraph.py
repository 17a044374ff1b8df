"""A pytest plugin: LangGraph's tests ask for a saver or store of SQLite or PostgreSQL and get ours.

See foreign_suites.py. Every one has a namespace of its own. All types are allowed, as the savers
that are replaced allow them: the tests define hundreds. Databases that the tests of PostgreSQL make
for themselves are not made.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import Any, Self

from stateward.integrations.bridge import Bridge
from stateward.integrations.langgraph import StatewardSaver, StatewardStore

URL = os.environ.get("STATEWARD_FOREIGN_URL", "memory://")
_numbers = itertools.count(1)


def _namespace() -> str:
    return f"foreign-{os.getpid()}-{next(_numbers)}"


class NoDatabase:
    """In the place of psycopg's connections, pools and cursors, blocking or not: does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def _itself(self, *_: Any, **__: Any) -> Self:
        return self

    async def _itself_later(self, *_: Any) -> Self:
        return self

    execute = pipeline = __enter__ = _itself
    __aenter__ = _itself_later
    connect = classmethod(lambda cls, *_, **__: cls())

    def __exit__(self, *_: object) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...

    def __await__(self) -> Generator[Any, Any, Self]:
        return self._itself_later().__await__()


class Saver(StatewardSaver):
    """Made with a connection, which is not used."""

    def __init__(self, _connection: Any = None, pipe: Any = None, serde: Any = None) -> None:
        options = {"namespace": _namespace()}
        super().__init__(Bridge.at(URL, options), allow=None if serde else True, serde=serde)
        self._owned = True

    def setup(self) -> None: ...


class AsyncSaver(Saver):
    """The same for async tests."""

    async def setup(self) -> None: ...  # type: ignore[override]


class Store(StatewardStore):
    """With what the tests call to prepare a database: there is nothing to prepare."""

    MIGRATIONS = ()

    def setup(self) -> None: ...

    def start_ttl_sweeper(self) -> None: ...

    def stop_ttl_sweeper(self) -> None: ...

    @contextmanager
    def _cursor(self) -> Iterator[NoDatabase]:
        yield NoDatabase()

    def sweep_ttl(self) -> int:
        return 0


class AsyncStore(StatewardStore):
    """The same for async tests."""

    MIGRATIONS = ()

    async def setup(self) -> None: ...

    @asynccontextmanager
    async def _cursor(self) -> AsyncIterator[NoDatabase]:
        yield NoDatabase()

    async def sweep_ttl(self) -> int:
        return 0

    async def start_ttl_sweeper(self) -> None: ...

    async def stop_ttl_sweeper(self) -> None: ...


@contextmanager
def _saver(*_: Any, **__: Any) -> Iterator[StatewardSaver]:
    with Saver() as saver:
        yield saver


@asynccontextmanager
async def _async_saver(*_: Any, **__: Any) -> AsyncIterator[StatewardSaver]:
    async with AsyncSaver() as saver:
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
    "langgraph.checkpoint.postgres:PostgresSaver": _saver,
    "langgraph.checkpoint.postgres.aio:AsyncPostgresSaver": _async_saver,
    "langgraph.store.postgres:PostgresStore": _store,
    "langgraph.store.postgres.aio:AsyncPostgresStore": _async_store,
}
for place, made in IN_PLACE.items():
    module, _, name = place.partition(":")
    getattr(import_module(module), name).from_conn_string = staticmethod(made)
Saver.from_conn_string = staticmethod(_saver)  # type: ignore[attr-defined]
AsyncSaver.from_conn_string = staticmethod(_async_saver)  # type: ignore[attr-defined]

IN_TESTS = {
    **dict.fromkeys(("Connection", "AsyncConnection"), NoDatabase),
    **dict.fromkeys(("ConnectionPool", "AsyncConnectionPool"), NoDatabase),
    "PostgresSaver": Saver,
    "AsyncPostgresSaver": AsyncSaver,
}


def pytest_collection_finish(session: Any) -> None:
    """What the tests of PostgreSQL make with a connection of their own."""
    modules = {item.module for item in session.items} | {sys.modules.get("tests.conftest")}
    for module in modules:
        if "psycopg" in str(getattr(module, "AsyncConnection", getattr(module, "Connection", ""))):
            for name in IN_TESTS.keys() & vars(module).keys():
                setattr(module, name, IN_TESTS[name])
