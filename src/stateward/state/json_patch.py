"""JSON patches: RFC 6902."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def difference(a: Any, b: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Yield operations of a JSON patch (RFC 6902) that turn `a` into `b`, with what `was` there.

    Programs that apply a patch ignore `was`: it is for people.
    """
    if type(a) is dict and type(b) is dict:
        for name, was in a.items():
            if name not in b:
                yield {"op": "remove", "path": _step(path, name), "was": was}
            else:
                yield from difference(was, b[name], _step(path, name))
        for name, value in b.items():
            if name not in a:
                yield {"op": "add", "path": _step(path, name), "value": value}
    elif type(a) is list and type(b) is list:
        yield from _items(a, b, path)
    elif not _same(a, b):
        yield {"op": "replace", "path": path, "value": b, "was": a}


def _items(a: list[Any], b: list[Any], path: str) -> Iterator[dict[str, Any]]:
    """Yield operations for a list: equal ends stay, the items between are compared."""
    start, ends = 0, min(len(a), len(b))
    while start < ends and _same(a[start], b[start]):
        start += 1
    tail = 0
    while tail < ends - start and _same(a[-1 - tail], b[-1 - tail]):
        tail += 1
    last_a, last_b = len(a) - tail, len(b) - tail
    both = min(last_a, last_b)
    for at in range(start, both):
        yield from difference(a[at], b[at], f"{path}/{at}")
    for at in range(last_a - 1, both - 1, -1):  # from the end: other indexes stay valid
        yield {"op": "remove", "path": f"{path}/{at}", "was": a[at]}
    for at in range(both, last_b):
        yield {"op": "add", "path": f"{path}/{at}", "value": b[at]}


def _same(a: Any, b: Any) -> bool:
    """Return whether JSON values are equal: 1, 1.0 and true differ, the order of names does not."""
    if type(a) is not type(b):
        return False
    if type(a) is dict:
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if type(a) is list:
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _step(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
