"""Your memory as a target of `stateward audit`: fill in what it has, delete what it lacks.

Each replica of the audit is its own process and calls `create` once. Methods may be async; plain
ones are called from several threads (sqlite3.connect then needs check_same_thread=False).
What a method does must be what your agents do: the audit finds out whether that holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MyMemory:
    # Errors that mean "the store does not answer".
    unavailable = (OSError, TimeoutError)
    # If append ignores its key: keys = False. If conversations expire: retain = seconds.

    def __init__(self, namespace: str, url: str | None = None) -> None:
        """Keep everything apart under `namespace`; `url` is what --url says."""
        self._threads: dict[str, list[dict[str, Any]]] = {}
        self._users: dict[str, dict[str, Any]] = {}

    def append(self, thread: str, messages: list[dict[str, Any]], key: str) -> None:
        """Store the messages at the end, all or none. The same key again must change nothing."""
        self._threads.setdefault(thread, []).extend(messages)

    def load(self, thread: str, last: int | None) -> list[dict[str, Any]]:
        """The messages, oldest first; only the last so many if `last` is a number."""
        messages = self._threads.get(thread, [])
        return list(messages if last is None else messages[max(0, len(messages) - last) :])

    def get_user(self, user: str) -> dict[str, Any]:
        """Return the state of a user; with versions: return (value, version)."""
        return dict(self._users.get(user, {}))

    def put_user(self, user: str, value: dict[str, Any]) -> None:
        """Replace it; with versions: take expect=, raise audit.targets.VersionConflict."""
        self._users[user] = value

    def update_user(self, user: str, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change it so that no other change gets lost."""
        self._users[user] = change(self._users.get(user, {}))

    # Also, if your memory has them (`stateward.audit.targets.memory` says how): run_once,
    # run_workflow, effect_key, lock, context, erase, traces, metrics, alarms, describe, backup
    # and restore.

    def clean(self) -> None:
        """Remove all that was written under the namespace."""


def create(namespace: str, url: str | None = None) -> MyMemory:
    return MyMemory(namespace, url)
