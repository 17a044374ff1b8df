"""Whether there is a store at a URL, asked before it is opened. No engine is named here."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from stateward.engines.registry import SYNC_ENGINES, EngineURL
from stateward.errors import StoreUnavailable
from stateward.world import World


def refuse_missing(url: EngineURL) -> None:
    """Who looks after a store, or copies it, must not create an empty one by a typing error."""
    file = file_of(url)
    if file is not None and not os.path.exists(file.path):
        raise StoreUnavailable(
            f"there is no store at {url.safe}; check the path, or create it with: "
            f"stateward migrate {url.safe}"
        )


def file_of(url: EngineURL) -> Any:
    """The file of a built-in engine that keeps one: its factory has a twin named `…_file`."""
    target = SYNC_ENGINES.get(url.scheme)
    if target is None:
        return None
    factory = getattr(import_module(target.partition(":")[0]), f"{url.scheme}_file", None)
    return None if factory is None else factory(url, World())
