"""What the commands ask of a store before it is opened. No engine is named here."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from holdfast.errors import StoreUnavailable
from holdfast.registry import SYNC_ENGINES, EngineURL
from holdfast.world import World


def pending_sql(url: EngineURL, engine: Any) -> str | None:
    """The SQL that migrating would run; None: the store has no schema in SQL."""
    keeper = engine if hasattr(engine, "pending_sql") else _file(url)
    return None if keeper is None else str(keeper.pending_sql())


def refuse_missing(url: EngineURL) -> None:
    """A command that looks after a store must not create an empty one by a typing error."""
    file = _file(url)
    if file is not None and not os.path.exists(file.path):
        raise StoreUnavailable(
            f"there is no store at {url.safe}; check the path, or create it with: "
            f"holdfast migrate {url.safe}"
        )


def _file(url: EngineURL) -> Any:
    """The file of a built-in engine that keeps one: its factory has a twin named `…_file`."""
    target = SYNC_ENGINES.get(url.scheme)
    if target is None:
        return None
    factory = getattr(import_module(target.partition(":")[0]), f"{url.scheme}_file", None)
    return None if factory is None else factory(url, World())
