"""From the rows and JSON that the database answers to the outcomes of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stateward.engines.postgres.escape import unescape, unescape_all
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
Columns = tuple[
    str,  # owner
    str,  # status
    str,  # label
    float | None,  # due
    float | None,  # retain
    float | None,  # expires
    float,  # created
    float,  # updated
    int,  # version
    str,  # stamp
    int,  # base
    int,  # live
    int,  # commits
    int,  # life
    float,  # dropped
    int,  # token
    str,  # nonce
    str,  # holder
    float,  # granted
    float,  # until
]
HEAD_COLUMNS = 20
_HEAD = slice(2, 2 + HEAD_COLUMNS)  # in a row that begins with the clock and the entity
_EXPIRES, _VERSION, _STAMP, _BASE, _COMMITS, _LIFE, _DROPPED, _TOKEN, _NONCE = (
    5, 8, 9, 10, 12, 13, 14, 15, 16,
)  # fmt: skip

Document = tuple[str, int, str, float, int]


class FirstAnswer(msgspec.Struct):
    """What a commit answered when it was applied; `commit_one` in migrations/ writes it."""

    version: int
    stamp: str
    at: float
    documents: dict[str, int] = {}
    created: bool = False
    lease: tuple[int, str, str, float, float] | None = None


class Answer(msgspec.Struct):
    """An outcome as `commit_one` in migrations/ answers it."""

    kind: str = msgspec.field(name="is")
    head: tuple[Any, ...] = ()
    values: dict[str, Document] = {}
    version: int = 0
    stamp: str = ""
    at: float = 0.0
    documents: dict[str, int] = {}
    created: bool = False
    lease: tuple[int, str, str, float, float] | None = None
    failed: int = 0
    remaining: float = 0.0
    key: str = ""
    own: bool = False
    first: FirstAnswer | None = None


_decode_told = msgspec.json.Decoder(Answer).decode
_decode_documents = msgspec.json.Decoder(list[tuple[str, str | None, int, str, float, int]]).decode
_decode_whole = msgspec.json.Decoder(
    list[tuple[int, float, str, str | None, str | None, int | None, str | None]]
).decode
_decode_entries = msgspec.json.Decoder(list[tuple[int, float, str, str | None, str | None]]).decode


def head_of(columns: Sequence[Any], exists: bool = True) -> Head:
    """A head, from its columns in the order of `Columns`."""
    if not exists:
        return Head(commits=columns[_COMMITS], life=columns[_LIFE], dropped=columns[_DROPPED])
    lease = None
    if columns[_NONCE]:
        token, _, holder, granted, until = columns[_TOKEN:]
        lease = Lease(token, "", holder, granted, until)  # only its holder is told the nonce
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
    told = _decode_told(text)
    if "\\u0001" in text:
        told = unescape_all(told)
    values = {name: Value(*document) for name, document in told.values.items()}
    match told.kind:
        case "Applied":
            return Applied(
                told.version,
                told.stamp,
                told.at,
                told.documents,
                None if told.lease is None else Lease(*told.lease),
                told.created,
                values,
            )
        case "Duplicate":
            assert told.first is not None
            return Duplicate(_first(told.first), told.own, _head(told), values)
        case "KeyReused":
            return KeyReused(told.key, told.version, _head(told), values)
        case "Conflict":
            return Conflict(commit.checks[told.failed], _head(told), values)
        case "Held":
            return Held(told.remaining, _head(told), values)
        case "Fenced":
            return Fenced(_head(told), values)
    return NotYours()


def _head(told: Answer) -> Head:
    exists, *columns = told.head
    for at in (3, 4, 5, 6, 7, 14, 18, 19):  # JSON writes 5.0 as 5
        if columns[at] is not None:
            columns[at] = float(columns[at])
    return head_of(columns, exists)


def _first(first: FirstAnswer) -> Applied:
    lease = None if first.lease is None else Lease(*first.lease)
    return Applied(first.version, first.stamp, first.at, first.documents, lease, first.created)


# --- reading ----------------------------------------------------------------------------


def read_fetch(fetch: Fetch, row: Sequence[Any], newest_first: bool) -> Fetched | NotYours:
    """The outcome of one fetch from its row of the query `fetch`, or of a part in its columns.

    `newest_first`: the lines that were counted from the end come in that order.
    """
    _, now, id_, *rest = row
    columns = rest[:HEAD_COLUMNS]
    stamp, lines, count, first, entries, documents = rest[HEAD_COLUMNS:]
    refusal = _missing(fetch, now, id_, columns)
    if refusal is not None:
        return refusal
    head = head_of(columns)
    log = fetch.log
    if log is not None and _is_reset(log, columns, stamp):
        return Fetched(head, reset=True)
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
    refusal = _missing(fetch, now, id_, columns)
    if refusal is not None:
        return refusal
    log = fetch.log
    assert log is not None
    head = head_of(columns)
    if _is_reset(log, columns, stamp):
        return Fetched(head, reset=True)
    found: tuple[Entry, ...] = ()
    if entries is not None:
        rows = _decode_whole(entries)
        found = entries_of(reversed(unescape_all(rows) if "\\u0001" in entries else rows))
    values, unchanged = _documents(fetch, documents)
    return Fetched(
        msgspec.structs.replace(head, base_stamp=unescape(base_stamp), token=columns[_TOKEN]),
        count=len(found),
        first=found[0].seq if found else 0,
        entries=found,
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
    """`begins` is the number of the first of these lines, where it is not known beforehand."""
    if not lines:
        return Fetched(head, truncated=head.base > 0)
    if begins is None and log is not None and log.last is not None:  # then none was removed
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
    refusal = _missing(fetch, now, id_, columns)
    if refusal is not None:
        return refusal
    log = fetch.log
    assert log is not None
    head = head_of(columns)
    if _is_reset(log, columns, stamp):
        return Fetched(head, reset=True)
    found = _entries(entries, log)
    first = found[0].seq if found else 0
    return Fetched(
        head, count=len(found), first=first, entries=found, truncated=log.after < head.base
    )


def _oldest_first(lines: str | None) -> str:
    return "\n".join(lines.split("\n")[::-1]) if lines else ""


def _missing(
    fetch: Fetch, now: float, id_: int | None, columns: Sequence[Any]
) -> Fetched | NotYours | None:
    """The answer where there is nothing to show; None if there is."""
    if id_ is None or not is_alive(columns, now):
        head = Head() if id_ is None else head_of(columns, exists=False)
        return Fetched(head, reset=fetch.log is not None and fetch.log.stamp is not None)
    if fetch.owner is not None and fetch.owner != unescape(columns[0]):
        return NotYours()
    return None


def _is_reset(log: Log, columns: Sequence[Any], stamp: str | None) -> bool:
    """Whether the log is not the one that the caller followed."""
    if log.after > columns[_VERSION]:
        return True
    if log.stamp is None or log.after < columns[_BASE]:
        return False
    return stamp is None or unescape(stamp) != log.stamp


def _documents(fetch: Fetch, text: str | None) -> tuple[dict[str, Value], tuple[str, ...]]:
    if text is None:
        return {}, ()
    rows = _decode_documents(text)
    if "\\u0001" in text:
        rows = unescape_all(rows)
    values = {}
    unchanged = []
    for name, value, version, stamp, updated, log in rows:
        if value is None:
            unchanged.append(name)
        else:
            values[name] = Value(value, version, stamp, updated, log)
    if fetch.all_documents:  # by the bytes of their names
        return dict(sorted(values.items())), tuple(sorted(unchanged))
    ordered = {name: values[name] for name in fetch.documents if name in values}
    known = set(unchanged)
    return ordered, tuple(name for name in fetch.documents if name in known)


def _entries(text: str | None, log: Log) -> tuple[Entry, ...]:
    if text is None:
        return ()
    rows = _decode_entries(text)
    if "\\u0001" in text:
        rows = unescape_all(rows)
    return entries_of(reversed(rows) if log.last is None else rows)


def documents_by_name(text: str | None) -> Mapping[str, Value]:
    """Documents that a listing brings along."""
    if text is None:
        return {}
    rows = _decode_documents(text)
    if "\\u0001" in text:
        rows = unescape_all(rows)
    return {
        name: Value(value or "", version, stamp, updated, log)
        for name, value, version, stamp, updated, log in rows
    }
