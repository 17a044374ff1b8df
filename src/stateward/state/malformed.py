"""Records that are not what their kind promises: named in the log and left out. No I/O.

Whoever can write a store can write anything; one such record must not fail the lists of others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from stateward.errors import SchemaError, StatewardError
from stateward.ops import Entity

T = TypeVar("T")
WRONG = (SchemaError, KeyError, TypeError, AttributeError, ValueError, IndexError)

logger = logging.getLogger("stateward.records")


def readable(entity: Entity, read: Callable[[], T]) -> T | None:
    """Return what is read from a record; None, and a line in the log, if it is malformed."""
    try:
        return read()
    except WRONG as error:
        if isinstance(error, StatewardError) and not isinstance(error, SchemaError):
            raise
        fields = {"namespace": entity.namespace, "kind": entity.kind, "id": entity.id}
        logger.warning(
            "record_malformed", extra=fields | {"of": entity.kind, "error": type(error).__name__}
        )
        return None
