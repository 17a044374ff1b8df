"""What the commands ask of a store before it is opened. No engine is named here."""

from __future__ import annotations

from typing import Any

from stateward.engines.registry import EngineURL
from stateward.presence import file_of


def pending_sql(url: EngineURL, engine: Any) -> str | None:
    """The SQL that migrating would run; None: the store has no schema in SQL."""
    keeper = engine if hasattr(engine, "pending_sql") else file_of(url)
    return None if keeper is None else str(keeper.pending_sql())
