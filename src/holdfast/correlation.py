"""Which request a piece of work belongs to, so that log lines about it can be found together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.codec import check_id

_current: ContextVar[str | None] = ContextVar("holdfast_correlation_id", default=None)


@contextmanager
def correlate(id: str) -> Iterator[None]:
    """What is logged inside carries this id: that of the request, the trace or the job.

        with holdfast.correlate(request.headers["x-request-id"]):
            await thread.append(question, answer)

    It holds for the current task or thread and those begun inside. Blocks may be nested; the
    innermost counts.
    """
    token = _current.set(check_id(id, "a correlation id"))
    try:
        yield
    finally:
        _current.reset(token)


def correlation_id() -> str | None:
    """The id of the innermost `correlate` block around this code; None: there is none."""
    return _current.get()
