"""How long the thread that leads a blocking round trip can wait for it.

Told beside the call, because only engines with a network in between can act on it. An event loop
needs none of this: there whoever waits is woken by a timer.
"""

from __future__ import annotations

import threading
from time import monotonic


class _Told(threading.local):
    until: float | None = None


_told = _Told()


def wait_until(moment: float | None) -> None:
    """This thread's next round trips are of use until then, by the monotonic clock."""
    _told.until = moment


def at_most(seconds: float) -> float:
    """So many seconds, or fewer if the caller cannot wait as long."""
    until = _told.until
    return seconds if until is None else max(0.001, min(seconds, until - monotonic()))
