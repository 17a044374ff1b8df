"""JSON patches: RFC 6902."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def difference(a: Any, b: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Operations of a JSON patch (RFC 6902) that make `b` of `a`, and what `was` there before.

    Whoever applies it passes `was` over: it is for people.
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
    """What is alike at both ends stays; of what is between, the places are compared one by one."""
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
    for at in range(last_a - 1, both - 1, -1):  # from the end: the others keep their places
        yield {"op": "remove", "path": f"{path}/{at}", "was": a[at]}
    for at in range(both, last_b):
        yield {"op": "add", "path": f"{path}/{at}", "value": b[at]}


def _same(a: Any, b: Any) -> bool:
    """Whether two JSON values are one: 1, 1.0 and true are three, and names have no order."""
    if type(a) is not type(b):
        return False
    if type(a) is dict:
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if type(a) is list:
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _step(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
