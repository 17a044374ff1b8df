"""A JSON value by what is new in it: what grows is stored as its new part.

A value is compared as text, never by identity: code that changes a message in place must not lose
the change. Lists are compared element by element, and objects name by name, however deep they are;
what moved within its list is found again, so that a window that slides is stored by its new part
too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Raw
from msgspec.json import Decoder, encode

# The texts of a list's elements, what an object has by name in its order, or another text.
Frozen = bytes | list[bytes] | tuple[tuple[str, "Frozen"], ...]
T = TypeVar("T")

_elements = Decoder(list[Raw])
_members = Decoder(dict[str, Raw])
_range = Decoder(tuple[int, int])


def freeze(text: bytes | Raw) -> Frozen:
    """The parts of a JSON text as it is stored, i.e. without spaces."""
    text = bytes(text)
    if text[:1] == b"[":
        return [bytes(element) for element in _elements.decode(text)]
    if text[:1] == b"{":
        return tuple((name, freeze(member)) for name, member in _members.decode(text).items())
    return text


def thaw(value: Frozen) -> bytes:
    """The JSON text of these parts."""
    if type(value) is list:
        return b"[%b]" % b",".join(value)
    if type(value) is tuple:
        return _object((name, thaw(member)) for name, member in value)
    assert type(value) is bytes
    return value


def difference(was: Frozen, now: Frozen) -> bytes:
    """JSON that makes `now` of `was`: stretches of what was there by their places, and what is new.

    {"list": [[0, 7], {"new": [element, …]}]}, {"object": [[0, 2], {name: difference}]}, or
    {"new": value}.
    """
    if type(was) is list and type(now) is list:
        elements = (
            b'{"new":[%b]}' % b",".join(found) if isinstance(found, list) else b"[%d,%d]" % found
            for found in _stretches(was, now)
        )
        return b'{"list":[%b]}' % b",".join(elements)
    if type(was) is tuple and type(now) is tuple:
        before = dict(was)
        members = (
            _object((name, difference(before.get(name, b""), new)) for name, new in found)
            if isinstance(found, list)
            else b"[%d,%d]" % found
            for found in _stretches(was, now)
        )
        return b'{"object":[%b]}' % b",".join(members)
    return b'{"new":%b}' % thaw(now)


def apply(was: Frozen, delta: bytes | Raw) -> Frozen:
    """What `difference` was made of."""
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
    """`now`, in order: where something lies in `was`, from and up to, or what is not there."""
    grown = len(was) if now[: len(was)] == was else 0  # nearly always: no need to look further
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
    """By which an item is looked for: an element's text, or the name of a member."""
    return item[0] if type(item) is tuple else item
