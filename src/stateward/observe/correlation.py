"""Correlation of work with its request, to find log lines about a request together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from stateward.codec import check_id
from stateward.errors import InvalidInput

_current: ContextVar[str | None] = ContextVar("stateward_correlation_id", default=None)

# W3C Trace Context: version, trace id, parent id, flags; later versions may append more. Neither id
# may be all zeros.
_TRACEPARENT = re.compile(
    r"(?!ff)(?!00-.{52}.)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    r"(?:-.*)?"
)


@contextmanager
def correlate(id: str | None = None, *, traceparent: str | None = None) -> Iterator[None]:
    """Give everything logged inside this id: that of the request, the trace or the job.

        with stateward.correlate(request.headers["x-request-id"]):
            await thread.append(question, answer)

    With `traceparent`, the header of that name, it is the trace's id; if that header is missing or
    malformed, `id` counts, and without one the id of the block around this one stays. It holds
    for the current task or thread and those begun inside. Blocks may be nested; the innermost
    counts.
    """
    chosen = trace_id(traceparent)
    if chosen is None:
        chosen = _current.get() if id is None else check_id(id, "a correlation id")
    token = _current.set(chosen)
    try:
        yield
    finally:
        _current.reset(token)


def correlation_id() -> str | None:
    """The id of the innermost `correlate` block around this code; None: there is none."""
    return _current.get()


def trace_id(traceparent: str | None) -> str | None:
    """Return the trace's id of a W3C `traceparent` header; None if there is none."""
    if traceparent is None:
        return None
    if type(traceparent) is not str:
        raise InvalidInput(f"traceparent is the text of a header, not {type(traceparent).__name__}")
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    return None if match is None else match[1]
