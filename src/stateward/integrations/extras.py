"""The packages that adapters need, each installed by an extra of this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stateward.errors import InvalidInput


@contextmanager
def extra(name: str, need: str) -> Iterator[None]:
    """Enclose imports of a framework; where it is missing, say what needs it and how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:  # pragma: no cover - the tests install it
        raise InvalidInput(f"{need}; install it with: pip install 'stateward[{name}]'") from error
