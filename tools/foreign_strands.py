"""A pytest plugin: Strands' tests ask for their repository or a storage and get Stateward's.

See foreign_suites.py. Every one has a namespace of its own.
"""

from __future__ import annotations

import os
import uuid
from importlib import import_module
from typing import Any

import strands.storage
import strands.storage.in_memory_storage

import stateward.sync
from stateward.integrations.strands import StatewardSessionRepository, StatewardStorage

URL = os.environ.get("STATEWARD_FOREIGN_URL", "memory://")


def new_store() -> Any:
    return stateward.sync.open(URL, namespace=uuid.uuid4().hex, spill=False)


class InPlaceOfMock(StatewardSessionRepository):
    """Takes the arguments of the tests' own repository: none."""

    def __init__(self) -> None:
        super().__init__(new_store())


class InPlaceOfInMemory(StatewardStorage):
    """Takes the arguments of `InMemoryStorage`."""

    def __init__(self, **_options: Any) -> None:
        super().__init__(new_store())


of_the_tests: Any = import_module("tests.fixtures.mock_session_repository")
of_the_tests.MockedSessionRepository = InPlaceOfMock
strands.storage.InMemoryStorage = InPlaceOfInMemory
strands.storage.in_memory_storage.InMemoryStorage = InPlaceOfInMemory
