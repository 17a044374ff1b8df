"""A key for the outside world, the same each time a piece of work is tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b

from stateward.codec import encode
from stateward.errors import StoreMisused

_key: ContextVar[str | None] = ContextVar("stateward_idempotency_key", default=None)


def idempotency_key() -> str:
    """The key of the task or step that is running here.

    It is the same each time this very piece of work is tried, by whichever replica: pass it to the
    payment API, so that an effect that happened just before a crash does not happen again.
    """
    key = _key.get()
    if key is None:
        raise StoreMisused("idempotency_key() has a meaning only inside a task or a workflow step")
    return key


@contextmanager
def working_on(parts: Sequence[str]) -> Iterator[None]:
    """Code inside belongs to the piece of work with these parts."""
    text = encode(list(parts), "the idempotency key")
    token = _key.set(blake2b(text.encode(), digest_size=16).hexdigest())
    try:
        yield
    finally:
        _key.reset(token)
