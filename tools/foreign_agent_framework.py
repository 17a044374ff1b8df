"""A pytest plugin: tests of Agent Framework ask for one of its storages and get Stateward's.

See foreign_suites.py. Blocking stores, because the tests use several event loops.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import stateward.sync
from stateward.integrations.agent_framework import StatewardCheckpointStorage

URL = os.environ.get("STATEWARD_FOREIGN_URL", "memory://")


class InAStore(StatewardCheckpointStorage):
    """A storage that begins empty."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        store = stateward.sync.open(URL, namespace=uuid.uuid4().hex, spill=False)
        super().__init__(store, "a run", allow=allow)


class InPlaceOfMemory(InAStore):
    """Takes the arguments of `InMemoryCheckpointStorage`."""


class InPlaceOfFile(InAStore):
    """Takes the arguments of `FileCheckpointStorage`."""

    def __init__(self, _path: Any, *, allowed_checkpoint_types: Iterable[str] = ()) -> None:
        super().__init__(allowed_checkpoint_types)


for name in ("agent_framework", "agent_framework._workflows._checkpoint"):
    module = import_module(name)
    module.InMemoryCheckpointStorage = InPlaceOfMemory  # type: ignore[attr-defined]
    module.FileCheckpointStorage = InPlaceOfFile  # type: ignore[attr-defined]
