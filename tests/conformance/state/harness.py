"""What a case of the state layer gets: stores over one engine's store, besides replicas of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

from stateward.engine import Engine
from stateward.layers.policy import Policy
from stateward.store import Store
from stateward.testing.conformance.harness import Harness
from stateward.world import World

PATIENT = Policy(read_timeout=15.0, write_timeout=15.0)  # what is slow is the machine


class StoreHarness(Harness):
    """A harness that hands out stores, and a folder for what they write."""

    def __init__(self, make_engine: Callable[[World], Engine], world: World) -> None:
        super().__init__(make_engine, world)
        self._stores: list[Store] = []
        self._folder: TemporaryDirectory[str] | None = None

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        await super().close()
        if self._folder is not None:
            self._folder.cleanup()

    def store(self, **options: Any) -> Store:
        """A store over another replica; `options` are those of `Store`."""
        chosen: dict[str, Any] = {"namespace": self.namespace, "world": self.world}
        chosen |= {"policy": PATIENT} | options
        store = Store(self.make_engine(), **chosen)
        self._stores.append(store)
        return store

    def path(self, name: str) -> str:
        """A path in an empty folder that lasts as long as the case."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="stateward-conformance-")
        return os.path.join(self._folder.name, name)
