"""Replicas that reach one store by way of the service."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from servers.service import RunningService

from stateward import Store
from stateward.engine import Engine, SyncEngine
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.server import app
from stateward.world import World

_numbers = itertools.count(1)


class ServedStore:
    """One store behind the service, whose clock is the case's."""

    def __init__(self, service: RunningService, make_engine: Callable[[World], Engine]) -> None:
        self._service = service
        self._make_engine = make_engine
        self._name = f"case-{next(_numbers)}"
        self._store: Store | None = None
        self._url = ""

    def _served(self, world: World) -> str:
        if self._store is None:
            options = {"spill": False, "heartbeat": None, "metrics": False}
            self._store = Store(self._make_engine(world), world=world, **options)
            store = self._store
            self._url = self._service.mount(self._name, lambda: app(store, insecure_local=True))
        return self._url

    def engine(self, world: World) -> Engine:
        engine: Engine = create_engine(parse(self._served(world)), world)
        return engine

    def blocking_engine(self, world: World) -> SyncEngine:
        engine: SyncEngine = create_sync_engine(parse(self._served(world)), world)
        return engine

    def close(self) -> None:
        if self._store is not None:
            self._service.unmount(self._name, self._store.close)
