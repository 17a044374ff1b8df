"""Sessions of the OpenAI Agents SDK: `openai-agents:sqlite:///conversations.db`.

Its tables and keys are read; the SDK itself need not be installed. `SQLiteSession`,
`AsyncSQLiteSession`, `AdvancedSQLiteSession` and `SQLAlchemySession` (on SQLite and PostgreSQL)
share their tables; `RedisSession` has keys. An item is kept as `StatewardSession` keeps it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import apsw

from stateward.engines.registry import parse
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.transfer.moves.foreign import (
    ForeignItem,
    ForeignMessages,
    ForeignStore,
    ForeignThread,
    message_body,
)
from stateward.transfer.moves.foreign_database import (
    PAGE,
    ForeignDatabase,
    database_url,
    table_name,
)

NAMED = 100  # the most skipped rows that are reported by name
TABLES = ("sessions_table", "messages_table")  # options of a URL, named like those of the SDK
PREFIX = "key_prefix"
STRUCTURE = "message_structure"  # the table of `AdvancedSQLiteSession`


def open_source(text: str) -> ForeignStore:
    if re.match(r"rediss?://|unix://", text):
        return SessionKeys(text)
    if re.match(r"(sqlite|postgres(ql)?)(\+\w+)?://", text):
        return SessionTables(database_url(text))
    raise InvalidInput(
        "sessions of the OpenAI Agents SDK are in sqlite:///FILE, postgresql://… or redis://…; "
        f"not in {text.partition(':')[0]!r}"
    )


class SdkSessions(ForeignMessages):
    """The common part of both forms of storage: items, and reports of skipped ones."""

    def __init__(self, name: str) -> None:
        self.name = f"openai-agents:{name}"
        self._left_out: dict[str, None] = {}

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(self._left_out)

    def _leave_out(self, what: str) -> None:
        if len(self._left_out) < NAMED:
            self._left_out[what] = None

    def _item(self, where: str, text: str | bytes, at: float | None) -> Iterator[ForeignItem]:
        """Yield an item; nothing for text that is not JSON, which the SDK skips as well."""
        try:
            item = json.loads(text)
        except (ValueError, RecursionError):
            self._leave_out(f"{where}, which is not JSON: the SDK leaves it out, too")
            return
        try:
            yield ForeignItem(message_body(item), at)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}") from error


# --- tables -------------------------------------------------------------------------------


class Order(NamedTuple):
    """The order in which the SDK reads the items of a session."""

    tables: str
    where: str
    keys: str  # the columns that rows are ordered by, and a page begins after
    first: tuple[object, ...]  # a key before all existing ones


class SessionTables(SdkSessions):
    """The two tables of a database."""

    def __init__(self, url: EngineURL) -> None:
        super().__init__(url.safe)
        self._sessions = table_name(url, TABLES[0], "agent_sessions")
        self._messages = table_name(url, TABLES[1], "agent_messages")
        self._database = ForeignDatabase(url, TABLES)
        try:
            self._order = self._read_order()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._database.close()

    def _read_order(self) -> Order:
        database, messages = self._database, self._messages
        for table in (self._sessions, messages):
            if not database.has_table(table):
                raise InvalidInput(
                    f"{database.safe} has no table {table!r}; if it has another name, pass "
                    "?sessions_table=…&messages_table=…"
                )
        if not database.is_file:
            return Order(f"{messages} m", "true", "m.created_at, m.id", ("-infinity", 0))
        if database.has_table(STRUCTURE):
            tables = f"{messages} m JOIN {STRUCTURE} s ON m.id = s.message_id"
            return Order(tables, "s.branch_id = 'main'", "s.sequence_number", (-1,))
        if database.has_table(f"idx_{messages}_session_time"):  # SQLAlchemySession's
            return Order(f"{messages} m", "true", "m.created_at, m.id", ("", 0))
        return Order(f"{messages} m", "true", "m.id", (0,))

    def size(self) -> int:
        return int(self._database.query(f"SELECT count(*) FROM {self._messages}")[0][0])

    def threads(self) -> Iterator[ForeignThread]:
        times = ", ".join(map(self._database.seconds, ("created_at", "updated_at")))
        query = f"SELECT session_id, {times} FROM {self._sessions}"
        order = f"ORDER BY session_id LIMIT {PAGE}"
        rows = self._database.query(f"{query} {order}")
        while rows:
            for id, created, updated in rows:
                self._say_branches(id)
                yield ForeignThread(id=id, created=created, updated=updated)
            rows = self._database.query(f"{query} WHERE session_id > ? {order}", rows[-1][0])

    def _say_branches(self, id: str) -> None:
        if STRUCTURE in self._order.tables and self._database.query(
            f"SELECT 1 FROM {STRUCTURE} WHERE session_id = ? AND branch_id <> 'main' LIMIT 1", id
        ):
            self._leave_out(f"branches of the session {id!r} other than main")

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        order = self._order
        marks = ", ".join("?" * len(order.first))
        query = (
            f"SELECT m.id, m.message_data, {self._database.seconds('m.created_at')}, {order.keys} "
            f"FROM {order.tables} WHERE m.session_id = ? AND {order.where} "
            f"AND ({order.keys}) > ({marks}) ORDER BY {order.keys} LIMIT {PAGE}"
        )
        after = order.first
        while rows := self._database.query(query, thread.id, *after):
            for id, data, at, *key in rows:
                yield from self._item(f"item {id} of the session {thread.id!r}", data, at)
                after = tuple(key)


# --- keys ---------------------------------------------------------------------------------


class SessionKeys(SdkSessions):
    """The keys of a Redis server: a hash and a list for each session.

    A server lists its keys in no order, and may list a key twice: they are sorted on disk.
    """

    def __init__(self, text: str) -> None:
        try:
            import redis
        except ModuleNotFoundError as error:
            raise InvalidInput(
                "sessions of RedisSession are read with redis-py, which is not installed here; it "
                "comes with the extra redis of openai-agents"
            ) from error
        self._failures: type[Exception] = redis.RedisError
        url = parse(text)
        super().__init__(url.safe)
        self._safe = url.safe
        self._prefix = url.options.get(PREFIX, "agents:session")
        rest = {name: value for name, value in url.options.items() if name != PREFIX}
        bare = url.with_options(**rest).text.partition("?")[0]
        self._client: Any = redis.Redis.from_url(bare, **rest)
        self._ids = apsw.Connection("")  # temporary, until the connection closes
        self._ids.execute("CREATE TABLE ids (id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._leave_out(
            "the times of single items, which RedisSession does not keep: each gets the time at "
            "which its session was last written to"
        )
        try:
            self._read_ids()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._client.close()
        self._ids.close()

    def _ask(self, command: str, *args: object) -> Any:
        try:
            return self._client.execute_command(command, *args)
        except self._failures as error:
            raise StoreUnavailable(f"{self._safe} cannot be read: {error}") from error

    def _read_ids(self) -> None:
        literal = re.sub(r"([\\*?\[\]])", r"\\\1", self._prefix)
        wanted = ("MATCH", f"{literal}:*:messages", "COUNT", 1000, "TYPE", "list")
        cursor = 0
        while True:
            cursor, keys = self._ask("SCAN", cursor, *wanted)
            with self._ids:
                for key in keys:
                    id = key.decode()[len(self._prefix) + 1 : -len(":messages")]
                    self._ids.execute("INSERT OR IGNORE INTO ids VALUES (?)", (id,))
            if int(cursor) == 0:
                return

    def _key(self, id: str, *more: str) -> str:
        return ":".join((self._prefix, id, *more))

    def size(self) -> int:
        rows = self._ids.execute("SELECT id FROM ids")
        return sum(int(self._ask("LLEN", self._key(id, "messages"))) for (id,) in rows)

    def threads(self) -> Iterator[ForeignThread]:
        for (id,) in self._ids.execute("SELECT id FROM ids ORDER BY id"):
            times = self._ask("HMGET", self._key(id), "created_at", "updated_at")
            created, updated = (None if at is None else float(at) for at in times)
            if int(self._ask("PTTL", self._key(id, "messages"))) > 0:
                self._leave_out("when sessions expire: --retain says it for all of them")
            yield ForeignThread(id=id, created=created, updated=updated)

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        key, start = self._key(thread.id, "messages"), 0
        while page := self._ask("LRANGE", key, start, start + PAGE - 1):
            for number, data in enumerate(page, start + 1):
                where = f"item {number} of the session {thread.id!r}"
                yield from self._item(where, data, thread.updated)
            start += len(page)
