"""Conversion of the database's rows and JSON into outcomes of the contract."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from stateward.engines.postgres.escape import unescape, unescape_all
from stateward.engines.postgres.schema import blocks
from stateward.engines.sql import entries_of
from stateward.ops import (
    Applied,
    Commit,
    CommitOutcome,
    Conflict,
    Duplicate,
    Entry,
    Fenced,
    Fetch,
    Fetched,
    Head,
    Held,
    KeyReused,
    Lease,
    Log,
    NotYours,
    Value,
)

# The columns of a head after `exists`, as every query and `show_head` give them.
COLUMNS = re.findall(r"e\.(\w+)", blocks().head_columns)
HEAD_COLUMNS = len(COLUMNS)
_HEAD = slice(2, 2 + HEAD_COLUMNS)  # in a row that begins with the clock and the entity
_EXPIRES, _VERSION, _BASE, _COMMITS, _LIFE, _DROPPED, _TOKEN, _NONCE = map(
    COLUMNS.index, ("expires", "version", "base", "commits", "life", "dropped", "token", "nonce")
)
_TIMES = [
    COLUMNS.index(name)
    for name in ("due", "retain", "expires", "created", "updated", "dropped", "granted", "until")
]

T = TypeVar("T")
Document = tuple[str, int, str, float, int]


class AppliedAnswer(msgspec.Struct, kw_only=True):
    """The outcome of a commit that was applied, as `commit_one` in migrations/ stores it."""

    version: int = 0
    stamp: str = ""
    at: float = 0.0
    documents: dict[str, int] = {}
    created: bool = False
    lease: tuple[int, str, str, float, float] | None = None

    def outcome(self, values: dict[str, Value]) -> Applied:
        lease = None if self.lease is None else Lease(*self.lease)
        return Applied(
            self.version, self.stamp, self.at, self.documents, lease, self.created, values
        )


class Answer(AppliedAnswer, kw_only=True):
    """An outcome as `commit_one` in migrations/ answers it."""

    kind: str = msgspec.field(name="is")
    head: tuple[Any, ...] = ()
    values: dict[str, Document] = {}
    failed: int = 0
    remaining: float = 0.0
    key: str = ""
    own: bool = False
    first: AppliedAnswer | None = None


_decode_answer = msgspec.json.Decoder(Answer).decode
_decode_documents = msgspec.json.Decoder(list[tuple[str, str | None, int, str, float, int]]).decode
_decode_whole = msgspec.json.Decoder(
    list[tuple[int, float, str, str | None, str | None, int | None, str | None]]
).decode
_decode_entries = msgspec.json.Decoder(list[tuple[int, float, str, str | None, str | None]]).decode


def _rows(decode: Callable[[str], T], text: str) -> T:
    """Decode the JSON of rows, or of an answer, as it was before `escape`."""
    rows = decode(text)
    return unescape_all(rows) if "\\u0001" in text else rows


def head_of(columns: Sequence[Any], exists: bool = True) -> Head:
    """A head, from its columns in the order of `COLUMNS`."""
    if not exists:
        return Head(commits=columns[_COMMITS], life=columns[_LIFE], dropped=columns[_DROPPED])
    lease = None
    if columns[_NONCE]:
        token, _, holder, granted, until = columns[_TOKEN:]
        lease = Lease(token, "", holder, granted, until)  # only the holder may know the nonce
    head = Head(True, *columns[:_TOKEN], lease)  # type: ignore[call-arg]  # in its order
    if "\x01" in f"{head.owner}{head.status}{head.label}{head.stamp}{columns[_NONCE + 1]}":
        return unescape_all(head)
    return head


def is_alive(columns: Sequence[Any], now: float) -> bool:
    expires = columns[_EXPIRES]
    return expires is None or now < expires


# --- commits ----------------------------------------------------------------------------


def read_commit(commit: Commit, text: str) -> CommitOutcome:
    """The outcome of one commit from its JSON."""
    answer = _rows(_decode_answer, text)
    values = {name: Value(*document) for name, document in answer.values.items()}
    match answer.kind:
        case "Applied":
            return answer.outcome(values)
        case "Duplicate":
            assert answer.first is not None
            return Duplicate(answer.first.outcome({}), answer.own, _head(answer), values)
        case "KeyReused":
            return KeyReused(answer.key, answer.version, _head(answer), values)
        case "Conflict":
            return Conflict(commit.checks[answer.failed], _head(answer), values)
        case "Held":
            return Held(answer.remaining, _head(answer), values)
        case "Fenced":
            return Fenced(_head(answer), values)
    return NotYours()


def _head(told: Answer) -> Head:
    exists, *columns = told.head
    for at in _TIMES:  # JSON writes 5.0 as 5
        if columns[at] is not None:
            columns[at] = float(columns[at])
    return head_of(columns, exists)


# --- reading ----------------------------------------------------------------------------


def read_fetch(fetch: Fetch, row: Sequence[Any], newest_first: bool) -> Fetched | NotYours:
    """The outcome of one fetch from its row of the query `fetch`, or of a part in its columns.

    `newest_first`: the lines that were counted from the end come in that order.
    """
    _, now, id_, *rest = row
    columns = rest[:HEAD_COLUMNS]
    stamp, lines, count, first, entries, documents = rest[HEAD_COLUMNS:]
    refusal = _missing(fetch, now, id_, columns) or _reset(fetch.log, columns, stamp)
    if refusal is not None:
        return refusal
    head, log = head_of(columns), fetch.log
    if log is not None and count is None:
        return _tail(head, lines, first, log)
    values, unchanged = _documents(fetch, documents)
    if log is None:
        return Fetched(head, documents=values, unchanged=unchanged)
    return Fetched(
        head,
        _oldest_first(lines) if newest_first and log.last is not None else lines or "",
        count,
        first or 0,
        _entries(entries, log),
        values,
        unchanged,
        truncated=log.after < head.base,
    )


def read_whole(fetch: Fetch, row: Sequence[Any]) -> Fetched | NotYours:
    """The outcome of one fetch from its row of the query `fetch_whole`."""
    now, id_, *rest = row
    columns = rest[:HEAD_COLUMNS]
    stamp, base_stamp, entries, documents = rest[HEAD_COLUMNS:]
    refusal = _missing(fetch, now, id_, columns) or _reset(fetch.log, columns, stamp)
    if refusal is not None:
        return refusal
    head, log = head_of(columns), fetch.log
    assert log is not None
    whole = () if entries is None else entries_of(reversed(_rows(_decode_whole, entries)))
    values, unchanged = _documents(fetch, documents)
    return Fetched(
        msgspec.structs.replace(head, base_stamp=unescape(base_stamp), token=columns[_TOKEN]),
        count=len(whole),
        first=whole[0].seq if whole else 0,
        entries=whole,
        documents=values,
        unchanged=unchanged,
        truncated=log.after < head.base,
    )


def read_tail(fetch: Fetch, row: Sequence[Any]) -> Fetched | NotYours:
    """The outcome of one fetch from its row of the query `fetch_tail`."""
    columns = row[_HEAD]
    refusal = _missing(fetch, row[0], row[1], columns)
    if refusal is not None:
        return refusal
    head = head_of(columns)
    lines, begins = row[_HEAD.stop : _HEAD.stop + 2]
    return _tail(head, lines, begins, fetch.log)


def _tail(head: Head, lines: str, begins: int | None, log: Log | None) -> Fetched:
    """Return the outcome of a tail; `begins` is the number of its first line, if known."""
    if not lines:
        return Fetched(head, truncated=head.base > 0)
    if begins is None and log is not None and log.last is not None:  # no entry was removed
        count = min(log.last, head.live)
    else:
        count = lines.count("\n") + 1
    return Fetched(head, lines, count, begins or head.version - count + 1, truncated=head.base > 0)


def read_head(fetch: Fetch, row: Sequence[Any]) -> Fetched | NotYours:
    """The outcome of one fetch from its row of the query `fetch_head`."""
    columns = row[_HEAD]
    refusal = _missing(fetch, row[0], row[1], columns)
    return Fetched(head_of(columns)) if refusal is None else refusal


def read_news(fetch: Fetch, row: Sequence[Any]) -> Fetched | NotYours:
    """The outcome of one fetch from its row of the query `fetch_news`."""
    now, id_, *rest = row
    columns = rest[:HEAD_COLUMNS]
    stamp, entries = rest[HEAD_COLUMNS:]
    refusal = _missing(fetch, now, id_, columns) or _reset(fetch.log, columns, stamp)
    if refusal is not None:
        return refusal
    head, log = head_of(columns), fetch.log
    assert log is not None
    news = _entries(entries, log)
    first = news[0].seq if news else 0
    return Fetched(
        head, count=len(news), first=first, entries=news, truncated=log.after < head.base
    )


def _oldest_first(lines: str | None) -> str:
    return "\n".join(lines.split("\n")[::-1]) if lines else ""


def _missing(
    fetch: Fetch, now: float, id_: int | None, columns: Sequence[Any]
) -> Fetched | NotYours | None:
    """Return the answer if the entity is absent or another's; None otherwise."""
    if id_ is None or not is_alive(columns, now):
        head = Head() if id_ is None else head_of(columns, exists=False)
        return Fetched(head, reset=fetch.log is not None and fetch.log.stamp is not None)
    if fetch.owner is not None and fetch.owner != unescape(columns[0]):
        return NotYours()
    return None


def _reset(log: Log | None, columns: Sequence[Any], stamp: str | None) -> Fetched | None:
    """Return the answer where the log is not the one that the caller followed."""
    if log is None:
        return None
    if log.after <= columns[_VERSION] and (
        log.stamp is None
        or log.after < columns[_BASE]
        or (stamp is not None and unescape(stamp) == log.stamp)
    ):
        return None
    return Fetched(head_of(columns), reset=True)


def _documents(fetch: Fetch, text: str | None) -> tuple[dict[str, Value], tuple[str, ...]]:
    if text is None:
        return {}, ()
    values = {}
    unchanged = []
    for name, value, version, stamp, updated, log in _rows(_decode_documents, text):
        if value is None:
            unchanged.append(name)
        else:
            values[name] = Value(value, version, stamp, updated, log)
    if fetch.all_documents:  # by the bytes of their names
        return dict(sorted(values.items())), tuple(sorted(unchanged))
    ordered = {name: values[name] for name in fetch.documents if name in values}
    same = set(unchanged)
    return ordered, tuple(name for name in fetch.documents if name in same)


def _entries(text: str | None, log: Log) -> tuple[Entry, ...]:
    if text is None:
        return ()
    rows = _rows(_decode_entries, text)
    return entries_of(reversed(rows) if log.last is None else rows)


def documents_by_name(text: str | None) -> Mapping[str, Value]:
    """Return the documents that a listing brings along."""
    if text is None:
        return {}
    return {
        name: Value(value or "", version, stamp, updated, log)
        for name, value, version, stamp, updated, log in _rows(_decode_documents, text)
    }
