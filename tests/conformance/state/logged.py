"""What is logged of workflows."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logged(event: str, field: str) -> Iterator[list[tuple[str, list[str]]]]:
    """Of every event of that name the workflow and one field, as they come."""
    seen: list[tuple[str, list[str]]] = []

    class Note(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg == event:
                seen.append((record.__dict__["workflow"], record.__dict__[field]))

    logger, note = logging.getLogger("stateward.workflows"), Note()
    logger.addHandler(note)
    try:
        yield seen
    finally:
        logger.removeHandler(note)
