"""A pytest plugin: the OpenAI Agents SDK's tests ask for a `SQLiteSession` and get Stateward's.

See foreign_suites.py. With the default URL, `memory://`, a session with a file gets a SQLite file
of Stateward's beside it: the tests open a file twice and expect to find the same items.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import agents
import agents.extensions.memory.encrypt_session  # asks a `SQLiteSession` for more than any other
import agents.memory
import agents.memory.sqlite_session

import stateward.sync
from stateward.integrations.openai_agents import StatewardSession

URL = os.environ.get("STATEWARD_FOREIGN_URL", "memory://")


class InPlaceOfSQLiteSession(StatewardSession):
    """Takes the arguments of `SQLiteSession`; blocking, because the tests use several loops."""

    def __init__(
        self, session_id: str, db_path: str | Path = ":memory:", *_tables: str, **options: Any
    ) -> None:
        options = {name: v for name, v in options.items() if not name.endswith("_table")}
        alone = str(db_path) == ":memory:"
        beside = URL == "memory://" and not alone
        url = f"sqlite:///{Path(db_path).absolute()}.stateward" if beside else URL
        namespace = uuid.uuid4().hex if alone else f"at {db_path}"
        store = stateward.sync.open(url, namespace=namespace, spill=False)
        super().__init__(store, session_id, **options)

    def close(self) -> None:  # type: ignore[override] # as the original: not async
        self._store.close()


for module in (agents, agents.memory, agents.memory.sqlite_session):
    module.SQLiteSession = InPlaceOfSQLiteSession
