"""The bounds of every field of every operation: one table, checked where operations come in.

A service checks each operation before a store is asked, so that a client's mistake is never taken
for the store's failure. Engines can rely on these bounds; they are wide enough for whatever the
state layer writes. Tests draw their values from the table: each bound, and one past it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from stateward.codec import ID_BYTES, LAST_MOMENT, LONGEST, MOST, shown
from stateward.errors import InvalidInput
from stateward.ops import (
    Acquire,
    Append,
    Commit,
    CommitsAt,
    Delete,
    DocumentAt,
    Entity,
    Entry,
    Fence,
    Fetch,
    Head,
    Lease,
    List,
    Log,
    LogAt,
    NotDroppedSince,
    Op,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    StatusIn,
    Sweep,
    Trim,
    Value,
    check_shape,
)
from stateward.wire import MOST_OPS, ExecuteBody, WaitBody

NAME_BYTES = 2 * ID_BYTES  # names of documents, keys and stamps may be made of an id and a prefix
JSON_BYTES = 64 << 20
CURSOR_BYTES = 16 * ID_BYTES  # two ids, with every character escaped
MOST_NAMES = 10_000  # in one operation
MOST_BODIES = 100_000  # in one append
MOST_WRITES = 10_000
MOST_RESTORED = 1_000_000  # numbers of entries, stored or removed, in one commit
LARGEST_PAGE = 1000
ANY_NUMBER = 10**40  # entries that a log cannot hold are ignored


class Number(NamedTuple):
    """A number from `least` to `most`."""

    least: float
    most: float

    def check(self, value: Any, field: str) -> None:
        if not self.least <= value <= self.most:  # False for what is not a number
            span = f"{_plain(self.least)} to {_plain(self.most)}"
            raise InvalidInput(f"{field} is a number from {span}, not {shown(value)}")


class Text(NamedTuple):
    """Text of so many bytes of UTF-8."""

    least: int
    most: int

    def check(self, value: str, field: str) -> None:
        size = len(value)
        if size * 4 > self.most:
            size = len(value.encode(errors="surrogatepass"))
        if not self.least <= size <= self.most:
            raise InvalidInput(
                f"{field} has {size:,} bytes; it needs {self.least} to {self.most:,} bytes of UTF-8"
            )


class Json(NamedTuple):
    """JSON text in one line; "" too if that has a meaning."""

    most: int
    empty: bool = False

    def check(self, value: str, field: str) -> None:
        if self.empty and not value:
            return
        if len(value) > self.most or len(value) * 4 > self.most < len(value.encode()):
            raise InvalidInput(f"{field} has more than {self.most:,} bytes")
        if "\n" in value:
            raise InvalidInput(f"{field} is JSON in one line: it holds a newline")
        try:
            _decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            # The syntax of JSON allows half a surrogate pair, which msgspec refuses.
            if "\\ud" not in value.lower() or not _is_json(value):
                raise InvalidInput(f"{field} is not JSON: {error}") from error


class Each(NamedTuple):
    """So many values within one bound; of a mapping, with another bound for its names."""

    of: Bound
    most: int
    least: int = 0
    names: Bound | None = None

    def check(self, value: Any, field: str) -> None:
        if not self.least <= len(value) <= self.most:
            raise InvalidInput(
                f"{field} holds {len(value):,}; it needs {self.least} to {self.most:,}"
            )
        check, names = self.of.check, self.names
        if names is not None:
            for name in value:
                names.check(name, field)
            value = value.values()
        for each in value:
            if each is not None:
                check(each, field)


class Pair(NamedTuple):
    """A tuple with a bound for each of its places."""

    places: tuple[Bound, ...]

    def check(self, value: Any, field: str) -> None:
        for bound, each in zip(self.places, value, strict=True):
            bound.check(each, field)


class Fields(NamedTuple):
    """One of the types of this table."""

    def check(self, value: Any, field: str) -> None:
        for name, qualified, empty, check in _CHECKS[type(value)]:
            each = getattr(value, name)
            if each is not None and each is not empty:
                check(each, qualified)


class Any_(NamedTuple):
    """True or False, or one of a few words: the decoder checks it."""

    def check(self, value: Any, field: str) -> None:
        pass


Bound = Number | Text | Json | Each | Pair | Fields | Any_

ID, MAYBE_ID, NAME = Text(1, ID_BYTES), Text(0, ID_BYTES), Text(0, NAME_BYTES)
COUNT, TIME, SPAN = Number(0, MOST), Number(0, LAST_MOMENT), Number(0, LONGEST)
JSON, FIELDS, ANY = Json(JSON_BYTES), Fields(), Any_()
NAMES = Each(NAME, MOST_NAMES)

BOUNDS: Mapping[type, Mapping[str, Bound]] = {
    Entity: {"namespace": ID, "kind": ID, "id": ID},
    # checks
    LogAt: {"version": Number(-1, MOST), "stamp": NAME},
    DocumentAt: {"name": NAME, "version": COUNT, "stamp": NAME},
    StatusIn: {"statuses": Each(NAME, MOST_NAMES)},
    Fence: {"token": Number(-1, MOST), "nonce": NAME},
    CommitsAt: {"commits": COUNT},
    NotDroppedSince: {"at": TIME},
    # writes
    Append: {"bodies": Each(JSON, MOST_BODIES, 1), "key": NAME, "takes_first": ANY, "note": JSON},
    Put: {"name": NAME, "value": JSON},
    Delete: {"name": NAME},
    Trim: {"upto": COUNT},
    Replace: {"entries": Each(JSON, MOST_BODIES, names=Number(0, ANY_NUMBER))},
    Acquire: {"nonce": NAME, "ttl": SPAN, "holder": NAME},
    Renew: {"token": COUNT, "nonce": NAME, "ttl": SPAN},
    Release: {"token": COUNT, "nonce": NAME},
    SetHead: {
        "status": NAME,
        "label": NAME,
        "owner": MAYBE_ID,
        "due": TIME,
        "due_in": SPAN,
        "retain": SPAN,
    },
    Restore: {
        "head": FIELDS,
        "entries": Each(FIELDS, MOST_BODIES),
        "documents": Each(FIELDS, MOST_NAMES, names=NAME),
        "continued": ANY,
    },
    # operations
    Commit: {
        "entity": FIELDS,
        "op": Text(1, ID_BYTES),
        "writes": Each(FIELDS, MOST_WRITES, 1),
        "checks": Each(FIELDS, MOST_WRITES),
        "owner": MAYBE_ID,
        "retain": SPAN,
        "reading": NAMES,
    },
    Fetch: {
        "entity": FIELDS,
        "owner": MAYBE_ID,
        "log": FIELDS,
        "documents": NAMES,
        "all_documents": ANY,
        "known": Each(Pair((COUNT, NAME)), MOST_NAMES, names=NAME),
    },
    Log: {
        "after": COUNT,
        "upto": COUNT,
        "first": COUNT,
        "last": COUNT,
        "stamp": NAME,
        "details": ANY,
        "whole": ANY,
    },
    List: {
        "namespace": ID,
        "kind": ID,
        "owner": MAYBE_ID,
        "prefix": NAME,
        "status": NAME,
        "label": NAME,
        "due": ANY,
        "recent": ANY,
        "expired": ANY,
        "within": FIELDS,
        "values": ANY,
        "documents": NAMES,
        "reverse": ANY,
        "limit": Number(1, LARGEST_PAGE),
        "after": Text(0, CURSOR_BYTES),
        "tally": ANY,
    },
    Sweep: {"limit": COUNT},
    # requests
    ExecuteBody: {"ops": Each(ANY, MOST_OPS), "within": Number(-LONGEST, LONGEST)},
    WaitBody: {
        "cursors": Each(Pair((FIELDS, COUNT)), MOST_OPS, 1),
        "timeout": Number(-LONGEST, LONGEST),
    },
    # what a restore writes
    Head: {
        "exists": ANY,
        "owner": MAYBE_ID,
        "status": NAME,
        "label": NAME,
        "due": TIME,
        "retain": SPAN,
        "expires": Number(0, LAST_MOMENT + LONGEST),
        "created": TIME,
        "updated": TIME,
        "version": COUNT,
        "stamp": NAME,
        "base": COUNT,
        "live": COUNT,
        "commits": COUNT,
        "life": COUNT,
        "dropped": TIME,
        "lease": FIELDS,
        "base_stamp": NAME,
        "token": COUNT,
    },
    Lease: {"token": COUNT, "nonce": NAME, "holder": NAME, "granted": TIME, "until": TIME},
    Value: {"json": JSON, "version": COUNT, "stamp": NAME, "updated": TIME, "log": COUNT},
    Entry: {
        "seq": COUNT,
        "at": TIME,
        "body": Json(JSON_BYTES, empty=True),
        "stamp": NAME,
        "key": NAME,
        "digest": Number(-(1 << 63), (1 << 63) - 1),
        "note": JSON,
    },
}


def check_request(body: ExecuteBody | WaitBody) -> None:
    """Raise `InvalidInput` for a batch or a wait out of its bounds."""
    FIELDS.check(body, "")


def check_op(op: Op) -> None:
    """Raise `InvalidInput` with the name of the field that is out of its bounds."""
    FIELDS.check(op, "")
    if type(op) is Commit:
        try:
            check_shape(op)
        except ValueError as error:
            raise InvalidInput(f"Commit.writes: {str(error)[:200]}") from error
        only = op.writes[0]
        if type(only) is Restore:
            _check_span(only)
    elif type(op) is List and op.recent and op.kind is None:
        raise InvalidInput("List.recent needs List.kind")
    elif type(op) is Fetch and op.log is not None:
        log = op.log
        if log.last is not None and (log.first is not None or log.whole):
            raise InvalidInput("Log.last excludes Log.first and Log.whole")
        if log.whole and op.known:
            raise InvalidInput("Fetch.known excludes Log.whole")


def _check_span(write: Restore) -> None:
    """Refuse a restore of numbers without entries, which some engines store one by one."""
    head, numbers = write.head, [entry.seq for entry in write.entries]
    begin = min([head.version, *numbers]) if write.continued else head.base
    if head.version < begin or max([head.version, *numbers]) - begin > MOST_RESTORED:
        raise InvalidInput(
            f"Head.version is at most {MOST_RESTORED:,} above the first number of its Restore"
        )


def _checks_of(kind: Any) -> tuple[tuple[str, str, Any, Callable[[Any, str], None]], ...]:
    """Return name, qualified name, harmless default and check of each field that has a bound."""
    defaults: Mapping[str, Any] = getattr(kind, "_field_defaults", {})
    if issubclass(kind, Struct):
        defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    return tuple(
        (name, f"{kind.__name__}.{name}", defaults.get(name), bound.check)
        for name, bound in BOUNDS.get(kind, {}).items()
        if not isinstance(bound, Any_)
    )


def _plain(number: float) -> str:
    return f"{number:,.0f}" if abs(number) < 1e15 or isinstance(number, int) else f"{number:g}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=int)
    except (ValueError, RecursionError):
        return False
    return True


class _Checks(dict[type, Any]):
    def __missing__(self, kind: type) -> Any:
        checks = self[kind] = _checks_of(kind)
        return checks


_decode = msgspec.json.Decoder(msgspec.Raw).decode  # its syntax alone
_CHECKS = _Checks()
