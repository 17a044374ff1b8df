"""JSON merge patches: RFC 7396."""

from __future__ import annotations

from typing import Any

from stateward.codec import Json, canonical


def merge_patch(value: Any, patch: Any) -> Any:
    """Return the value with the patch applied: objects merge, null removes, the rest replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), item)
    return merged


def with_unknown(was: Json, typed: Json, new: Json) -> Json:
    """Return `new` with the fields of the old value that its type does not have.

    `was` is the old value, and `typed` the part of it that the type has. A replica with an older
    class must not remove the fields of a newer one.
    """
    for name, value in was.items():
        if name not in typed:
            new.setdefault(name, value)
        elif name in new:
            new[name] = _with_unknown(value, typed[name], new[name])
    return new


def _with_unknown(was: Any, typed: Any, new: Any) -> Any:
    if type(was) is dict and type(typed) is dict and type(new) is dict:
        return with_unknown(was, typed, new)
    if type(was) is list and type(typed) is list and type(new) is list and len(was) == len(typed):
        return was if new == typed else _items_with_unknown(was, typed, new)
    return new


def _items_with_unknown(was: list[Any], typed: list[Any], new: list[Any]) -> list[Any]:
    """Add to each item the fields of its old one: the equal item, or else the one at its place."""
    places = {canonical(each, "an item"): at for at, each in enumerate(typed)}
    items = []
    for at, item in enumerate(new):
        if at >= len(typed) or typed[at] != item:
            at = places.get(canonical(item, "an item"), at)
        items.append(_with_unknown(was[at], typed[at], item) if at < len(typed) else item)
    return items
