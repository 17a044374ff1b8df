"""What a `memory://` URL says: which model."""

from __future__ import annotations

from stateward.engines.memory.model import Model
from stateward.engines.url import EngineURL

_named: dict[str, Model] = {}


def model_of(url: EngineURL) -> Model:
    """memory:// is private to its store; memory://name is shared within the process."""
    url.only()
    url.refuse_credentials()
    return _named.setdefault(url.rest, Model()) if url.rest else Model()
