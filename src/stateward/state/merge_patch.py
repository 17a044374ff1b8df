"""JSON merge patches: RFC 7396."""

from __future__ import annotations

from typing import Any

from stateward.codec import Json, canonical
from stateward.errors import InvalidInput


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
    if type(new) is type(typed) and new == typed and _text(new) == _text(typed):
        return was
    if type(was) is dict and type(typed) is dict and type(new) is dict:
        return with_unknown(was, typed, new)
    if type(was) is list and type(typed) is list and type(new) is list and len(was) == len(typed):
        return [
            item if at is None else _with_unknown(was[at], typed[at], item)
            for at, item in zip(_places(was, typed, new), new, strict=True)
        ]
    return new


def _places(was: list[Any], typed: list[Any], new: list[Any]) -> list[int | None]:
    """Return the place that each item had before the update; None: it is a new one.

    That of the equal item, or else of the one with the most equal fields. Where no item was removed
    or added, an item that resembles none is the one at its place.
    """
    left = list(range(len(typed)))
    there: dict[str, list[int]] = {}
    for at in reversed(left):
        there.setdefault(_text(typed[at]), []).append(at)
    places: list[int | None] = []
    for number, item in enumerate(new):
        ats = there.get(_text(item), [])
        same = number if number in ats else ats[-1] if ats else None
        if same is not None:
            ats.remove(same)
            left.remove(same)
        places.append(same)
    for number, item in enumerate(new):
        if places[number] is None and left:
            place = number if len(typed) == len(new) else -1
            places[number] = similar = _most_similar(was, typed, item, left, place)
            left = [at for at in left if at != similar]
    return places


def _most_similar(
    was: list[Any], typed: list[Any], item: Any, left: list[int], place: int
) -> int | None:
    """Return which of the items that are left an item was; `place` is its own, if that counts."""
    shared = {at: _shared(typed[at], item) for at in left}
    most = max(shared.values())
    best = [at for at in left if shared[at] == most]
    if place in best:
        return place
    if not most:
        return None
    if len(best) > 1 and any(was[at] != typed[at] for at in best):
        raise InvalidInput(
            "the update removes some items of a list and changes others, and it is ambiguous which "
            "of them have the fields that its type does not know; remove and change in two updates"
        )
    return best[0]


def _shared(a: Any, b: Any) -> int:
    """Return how many fields two items have in common."""
    if type(a) is not dict or type(b) is not dict:
        return 0
    return sum(name in b and type(b[name]) is type(a[name]) and b[name] == a[name] for name in a)


def _text(value: Any) -> str:
    return canonical(value, "a value")
