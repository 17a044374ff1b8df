"""Finding the new part of a list: a list that only grew is stored by its new part.

An element is compared with its stored state, never by identity alone: code that changes a message
in place must not lose that change. Messages are compared by a
copy of their fields, which takes a fraction of a microsecond each; encoding them anew takes tens.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from langgraph.checkpoint.serde.base import SerializerProtocol

from stateward.codec import encode
from stateward.errors import InvalidInput
from stateward.integrations.langgraph.serializer import KINDS, to_json

REMEMBERED = 50_000  # elements of lists, over all threads of one saver
ATOMS = frozenset((str, int, bool, float, type(None)))
ChannelKey = tuple[str, str, str]  # thread, namespace, channel

_EMPTY: dict[type, Any] = {dict: {}, list: []}  # most containers in a message are
_fields = attrgetter("__dict__")
_extra = attrgetter("__pydantic_extra__")


class Opaque(Exception):
    """A value in a list that can only be compared in its stored form."""


class ListRef(NamedTuple):
    """A stored list: its newest part, its length, and the number of elements in all parts.

    `segment` is the last part of the name of the segment that has the newest part, if one has it.
    """

    id: str
    length: int
    stored: int
    segment: str | None = None


class Frozen:
    """A copy of a list's elements, unaffected by later changes of the objects.

    Either all of them are messages, kept as copies of their fields, or all are plain JSON, kept as
    text; otherwise `Opaque`. In a message, numbers that are equal count as the same.
    """

    __slots__ = ("columns", "messages")

    def __init__(self, items: Sequence[Any]) -> None:
        kinds = set(map(type, items))
        self.messages = bool(kinds) and kinds <= KINDS.keys()
        if self.messages:
            fields, extras = map(_fields, items), map(_extra, items)
            self.columns = [
                list(map(type, items)),
                [_copied(item) for item in fields],
                [_copied(item) for item in extras],
            ]
        else:
            self.columns = [[_text(item) for item in items]]

    def __len__(self) -> int:
        return len(self.columns[0])

    def common(self, items: Sequence[Any]) -> int:
        """Return the number of elements from the beginning that have not changed."""
        most = min(len(self), len(items))
        if self._begins(items, most):
            return most
        low, high = 0, most  # the first `low` elements are equal, the first `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            if self._begins(items, middle):
                low = middle
            else:
                high = middle
        return low

    def _begins(self, items: Sequence[Any], count: int) -> bool:
        front = items[:count]
        if not self.messages:
            return [_text(item) for item in front] == self.columns[0][:count]
        kinds, fields, extras = self.columns
        return (
            list(map(type, front))
            == kinds[:count]  # compare classes first: other classes need not have these fields
            and list(map(_fields, front)) == fields[:count]
            and list(map(_extra, front)) == extras[:count]
        )

    def extended(self, keep: int, added: Sequence[Any]) -> Frozen:
        """Return the first `keep` elements, extended by others."""
        new = Frozen(added)
        if not keep:
            return new
        if added and new.messages is not self.messages:
            raise Opaque
        rest = new.columns if added else [[] for _ in self.columns]
        new.messages = self.messages
        new.columns = [a[:keep] + b for a, b in zip(self.columns, rest, strict=True)]
        return new


def _text(item: Any) -> str:
    try:
        return encode(item, "an element")
    except InvalidInput as error:
        raise Opaque from error


def _copied(value: Any) -> Any:
    """Return a copy of the containers that shares immutable values."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if not value and (kind is dict or kind is list):
        return _EMPTY[kind]
    if kind is dict:
        return {key: item if type(item) in ATOMS else _copied(item) for key, item in value.items()}
    if kind is list:
        return [_copied(item) for item in value]
    raise Opaque


def frozen(items: Sequence[Any]) -> Frozen | None:
    """Freeze elements; None if a type other than JSON's and messages occurs."""
    try:
        return Frozen(items)
    except Opaque:
        return None


def common_as_stored(before: Sequence[Any], items: Sequence[Any], serde: SerializerProtocol) -> int:
    """Return the number of elements from the beginning that equal a list read from the store."""
    count = 0
    for stored, item in zip(before, items, strict=False):
        if to_json(item, serde) != stored:
            break
        count += 1
    return count


class KnownLists:
    """The newest list of each channel that this process has stored or read lately.

    Any thread may ask; the least recent are forgotten first.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._size = 0
        self._lock = threading.Lock()
        self._lists: OrderedDict[ChannelKey, tuple[str, Frozen]] = OrderedDict()

    def get(self, channel: ChannelKey, id: str) -> Frozen | None:
        """Return the list whose newest part is `id`."""
        with self._lock:
            entry = self._lists.get(channel)
            if entry is None or entry[0] != id:
                return None
            self._lists.move_to_end(channel)
            return entry[1]

    def put(self, channel: ChannelKey, id: str, items: Frozen | None) -> None:
        with self._lock:
            before = self._lists.pop(channel, None)
            if before is not None:
                self._size -= len(before[1]) + 1
            if items is None or len(items) > self._most:
                return
            self._lists[channel] = (id, items)
            self._size += len(items) + 1
            while self._size > self._most:
                _, (_, oldest) = self._lists.popitem(last=False)
                self._size -= len(oldest) + 1
