"""JSON merge patches: RFC 7396."""

from __future__ import annotations

from typing import Any

from stateward.codec import Json, canonical


def merge_patch(value: Any, patch: Any) -> Any:
    """The value with the patch applied: objects merge, null removes, the rest replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), item)
    return merged


def with_unknown(was: Json, known: Json, new: Json) -> Json:
    """`new`, with what `was` there and the type does not know (`known` is what it knew of it).

    A replica with an older class must not remove the fields of a newer one.
    """
    for name, value in was.items():
        if name not in known:
            new.setdefault(name, value)
        elif name in new:
            new[name] = _with_unknown(value, known[name], new[name])
    return new


def _with_unknown(was: Any, known: Any, new: Any) -> Any:
    if type(was) is dict and type(known) is dict and type(new) is dict:
        return with_unknown(was, known, new)
    if type(was) is list and type(known) is list and type(new) is list and len(was) == len(known):
        return was if new == known else _items_with_unknown(was, known, new)
    return new


def _items_with_unknown(was: list[Any], known: list[Any], new: list[Any]) -> list[Any]:
    """Each item with its own: wherever it stood if it is the same, otherwise if it stood here."""
    stood = {canonical(each, "an item"): at for at, each in enumerate(known)}
    items = []
    for at, item in enumerate(new):
        if at >= len(known) or known[at] != item:
            at = stood.get(canonical(item, "an item"), at)
        items.append(_with_unknown(was[at], known[at], item) if at < len(known) else item)
    return items
