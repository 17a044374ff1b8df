"""A turn with a tool in a process of its own: repository or snapshots, url, session."""

from __future__ import annotations

import sys
from pathlib import Path

from strands.session import RepositorySessionManager, SnapshotSessionManager

import holdfast.sync
from holdfast.integrations.strands import HoldfastSessionRepository, HoldfastStorage

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.strands_model import GRILL, waiter

how, url, session = sys.argv[1:]
with holdfast.sync.open(url) as store:
    if how == "repository":
        repository = HoldfastSessionRepository(store, user="u-42")
        manager = RepositorySessionManager(session, session_repository=repository)
    else:
        manager = SnapshotSessionManager(session, storage=HoldfastStorage(store, user="u-42"))
    agent = waiter(manager, GRILL, "Here it is.", state={"table": 7})
    print(f'"{str(agent("A steak, please.")).strip()}"')
