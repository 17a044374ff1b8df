"""Differences between JSON values: a value that grows is stored as its new part.

Values are compared as text, never by identity: a change made in place must not be lost. Lists are
compared element by element and objects name by name, at any depth. Elements that moved within their
list are recognised, so that a sliding window is stored as its new part too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Raw
from msgspec.json import Decoder, encode

# The texts of a list's elements, the members of an object in order, or any other text.
Frozen = bytes | list[bytes] | tuple[tuple[str, "Frozen"], ...]
T = TypeVar("T")

_elements = Decoder(list[Raw])
_members = Decoder(dict[str, Raw])
_range = Decoder(tuple[int, int])


def freeze(text: bytes | Raw) -> Frozen:
    """Split a JSON text without spaces into its parts."""
    text = bytes(text)
    if text[:1] == b"[":
        return [bytes(element) for element in _elements.decode(text)]
    if text[:1] == b"{":
        return tuple((name, freeze(member)) for name, member in _members.decode(text).items())
    return text


def thaw(value: Frozen) -> bytes:
    """Join parts to a JSON text."""
    if type(value) is list:
        return b"[%b]" % b",".join(value)
    if type(value) is tuple:
        return _object((name, thaw(member)) for name, member in value)
    assert type(value) is bytes
    return value


def difference(was: Frozen, now: Frozen) -> bytes:
    """Return JSON that turns `was` into `now`: ranges that `was` has already, and new parts.

    {"list": [[0, 7], {"new": [element, …]}]}, {"object": [[0, 2], {name: difference}]}, or
    {"new": value}.
    """
    if type(was) is list and type(now) is list:
        elements = (
            b'{"new":[%b]}' % b",".join(part) if isinstance(part, list) else b"[%d,%d]" % part
            for part in _stretches(was, now)
        )
        return b'{"list":[%b]}' % b",".join(elements)
    if type(was) is tuple and type(now) is tuple:
        before = dict(was)
        members = (
            _object((name, difference(before.get(name, b""), new)) for name, new in part)
            if isinstance(part, list)
            else b"[%d,%d]" % part
            for part in _stretches(was, now)
        )
        return b'{"object":[%b]}' % b",".join(members)
    return b'{"new":%b}' % thaw(now)


def apply(was: Frozen, delta: bytes | Raw) -> Frozen:
    """Apply a difference to the value it was made from; returns the new value."""
    ((how, text),) = _members.decode(delta).items()
    if how == "new":
        return freeze(text)
    parts = _elements.decode(text)
    if how == "list":
        assert type(was) is list
        elements: list[bytes] = []
        for part in parts:
            if (stretch := _stretch(part)) is not None:
                elements += was[stretch]
            else:
                elements += map(bytes, _elements.decode(_members.decode(part)["new"]))
        return elements
    assert type(was) is tuple
    before = dict(was)
    members: list[tuple[str, Frozen]] = []
    for part in parts:
        if (stretch := _stretch(part)) is not None:
            members += was[stretch]
        else:
            changed = _members.decode(part).items()
            members += ((name, apply(before.get(name, b""), new)) for name, new in changed)
    return tuple(members)


def _stretch(part: Raw) -> slice | None:
    return slice(*_range.decode(part)) if bytes(part)[:1] == b"[" else None


def _object(members: Iterable[tuple[str, bytes]]) -> bytes:
    return b"{%b}" % b",".join(b"%b:%b" % (encode(name), member) for name, member in members)


def _stretches(was: Sequence[T], now: Sequence[T]) -> Iterator[tuple[int, int] | list[T]]:
    """Yield the parts of `now` in order: a range of `was`, or items that `was` does not have."""
    grown = len(was) if now[: len(was)] == was else 0  # nearly always the whole list
    if grown:
        yield 0, grown
    places: dict[object, int] | None = None
    new: list[T] = []
    start = stop = 0
    for item in now[grown:]:
        if start < stop < len(was) and was[stop] == item:
            stop += 1
            continue
        if start < stop:
            yield start, stop
        if places is None:
            places = {_identity(each): at for at, each in enumerate(was)}
        at = places.get(_identity(item), -1)
        if at >= 0 and was[at] == item:
            if new:
                yield new
            new, start, stop = [], at, at + 1
        else:
            new.append(item)
            start = stop = 0
    if start < stop:
        yield start, stop
    if new:
        yield new


def _identity(item: object) -> object:
    """Return the text of an element, or the name of a member, by which it is searched."""
    return item[0] if type(item) is tuple else item
