"""The status of a thread that is a session: the names of its frameworks, in alphabetical order.

One conversation may be a session of several frameworks. Their messages are in one log, and each
has documents of its own beside it.
"""

from __future__ import annotations

from itertools import combinations

from stateward.ops import Conflict, StatusIn

FRAMEWORKS = ("adk", "claude", "strands")
NO_SESSION = ""


def is_session_of(framework: str) -> StatusIn:
    """Return the check that a thread is a session of a framework, of others too or not."""
    sizes = range(1, len(FRAMEWORKS) + 1)
    joined = (" ".join(names) for size in sizes for names in combinations(FRAMEWORKS, size))
    return StatusIn(tuple(status for status in joined if framework in status.split()))


def joined(status: str, framework: str) -> str:
    """Return the status of a thread that becomes a session of one more framework."""
    return " ".join(sorted({*status.split(), framework}))


def status_to_join(refused: Conflict, framework: str) -> str | None:
    """Return the status of a thread that may become such a session; None: it is one already."""
    names = set(refused.head.status.split())
    return None if framework in names or not names <= {*FRAMEWORKS} else refused.head.status
