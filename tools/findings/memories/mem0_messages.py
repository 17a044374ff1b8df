"""mem0: the messages that it keeps beside its memories, of which it promises the newest ten."""

from __future__ import annotations

import json
import sqlite3

from mem0.memory.storage import SQLiteManager
from shapes import Json, home


class Messages:
    keys = False
    unavailable = (sqlite3.OperationalError, OSError)

    def __init__(self, namespace: str) -> None:
        self._db = SQLiteManager(str(home() / "history.db"))

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        kept = [{"role": each["role"], "content": json.dumps(each)} for each in messages]
        self._db.save_messages(kept, thread)

    def load(self, thread: str, last: int | None) -> list[Json]:
        found = self._db.get_last_messages(thread, 10 if last is None else last)
        return [json.loads(each["content"]) for each in found]
