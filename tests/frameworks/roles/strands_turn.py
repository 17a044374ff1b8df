"""A turn with a tool in a process of its own: repository or snapshots, url, session."""

from __future__ import annotations

import sys
from pathlib import Path

from strands.session import RepositorySessionManager, SnapshotSessionManager

import stateward.sync
from stateward.integrations.strands import StatewardSessionRepository, StatewardStorage

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.strands_model import GRILL, waiter

how, url, session = sys.argv[1:]
with stateward.sync.open(url) as store:
    if how == "repository":
        repository = StatewardSessionRepository(store, user="u-42")
        manager = RepositorySessionManager(session, session_repository=repository)
    else:
        manager = SnapshotSessionManager(session, storage=StatewardStorage(store, user="u-42"))
    agent = waiter(manager, GRILL, "Here it is.", state={"table": 7})
    print(f'"{str(agent("A steak, please.")).strip()}"')
