"""JSON merge patches: RFC 7396."""

from __future__ import annotations

from typing import Any

from stateward.codec import Json


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
        elif type(value) is dict and type(known[name]) is dict and type(new.get(name)) is dict:
            with_unknown(value, known[name], new[name])
    return new
