"""The settings of a `memory://` URL: which model."""

from __future__ import annotations

from stateward.engines.memory.model import Model
from stateward.engines.url import EngineURL

_named: dict[str, Model] = {}


def model_of(url: EngineURL) -> Model:
    """Return the model: private to its store for memory://, shared for memory://name."""
    url.only()
    url.refuse_credentials()
    return _named.setdefault(url.rest, Model()) if url.rest else Model()
