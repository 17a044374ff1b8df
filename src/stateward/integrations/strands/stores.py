"""The store that an adapter is given, or opens by itself."""

from __future__ import annotations

from typing import Any, Self

import stateward.sync
from stateward.errors import InvalidInput


class OnStore:
    """Something of Strands that stands on a store."""

    def __init__(self, store: Any) -> None:
        self._store = blocking(store)
        self._own = False

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """One with a store of its own: `close()` it. Several should share one store."""
        made = cls(stateward.sync.open(url), **options)
        made._own = True
        return made

    def close(self) -> None:
        """Let go of a store that `from_url` opened; one that was passed in is left alone."""
        if self._own:
            self._store.close()


def blocking(store: Any) -> Any:
    """A store that blocking code can use, or `InvalidInput`."""
    if not isinstance(store, stateward.sync.Store):
        raise InvalidInput(
            "Strands calls its stores from blocking code: pass one of stateward.sync.open(url), or "
            f"use from_url(url); this is {type(store).__name__}"
        )
    return store
