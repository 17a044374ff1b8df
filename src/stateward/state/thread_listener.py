"""The base class of listeners to changes of conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stateward.records import Shaper


class ThreadListener:
    """Notified of changes to conversations, after they were stored: `open(…, listener=…)`.

    Override the methods you need. They run within the call that made the change, so they must be
    fast and are not async; what they raise is logged. Changes by other processes are not reported.
    `shape` is the store's, unless the listener has its own.
    """

    shape: Shaper | None = None

    def appended(
        self,
        namespace: str,
        thread: str,
        user: str | None,
        messages: Sequence[Mapping[str, Any]],
        version: int,
    ) -> object:
        """Messages were appended, and this is the thread's new version. Not called for a duplicate.

        A returned list of repeats is counted as context breaks.
        """

    def edited(self, namespace: str, thread: str) -> object:
        """Messages were rewritten or removed: anything remembered about them is out of date."""

    def deleted(self, namespace: str, thread: str) -> object:
        """The conversation was deleted, alone or with everything of its user."""

    def erased(self, namespace: str, user: str) -> object:
        """Everything of the user was erased: keep nothing of it."""
