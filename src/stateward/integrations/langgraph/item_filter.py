"""Namespaces and keys as ids that sort by namespace, and the comparisons of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import MatchCondition

from stateward.errors import InvalidInput

OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_ESCAPED = {"%": "%25", "/": "%2F", "=": "%3D"}
_TABLE = str.maketrans(_ESCAPED)


def namespace_id(namespace: Sequence[str]) -> str:
    """Return the prefix of the ids of all items in a namespace and below it."""
    return "".join(label.translate(_TABLE) + "/" for label in namespace)


def item_id(namespace: Sequence[str], key: Any) -> str:
    if not isinstance(key, str):
        raise InvalidInput(f"the key of an item is a string, not {type(key).__name__}: {key!r}")
    return f"{namespace_id(namespace)}={key.translate(_TABLE)}"


def namespace_of(id: str) -> tuple[str, ...]:
    labels = id.partition("=")[0]
    return tuple(_plain(label) for label in labels.split("/")[:-1])


def key_of(id: str) -> str:
    return _plain(id.partition("=")[2])


def _plain(text: str) -> str:
    return text.replace("%3D", "=").replace("%2F", "/").replace("%25", "%")


def common_prefix(conditions: Sequence[MatchCondition]) -> str:
    """Return the common prefix of the ids of all items that can match."""
    best: tuple[str, ...] = ()
    for condition in conditions:
        if condition.match_type == "prefix":
            path = tuple(condition.path)
            fixed = path[: path.index("*")] if "*" in path else path
            best = max(best, fixed, key=len)
    return namespace_id(best)


def matches(namespace: tuple[str, ...], conditions: Sequence[MatchCondition]) -> bool:
    """Return whether a namespace has all these prefixes and suffixes; `*` is any label."""
    for condition in conditions:
        path = tuple(condition.path)
        if len(path) > len(namespace):
            return False
        if condition.match_type == "prefix":
            part = namespace[: len(path)]
        elif condition.match_type == "suffix":
            part = namespace[len(namespace) - len(path) :]
        else:
            raise InvalidInput(f"a match is 'prefix' or 'suffix', not {condition.match_type!r}")
        if any(wanted not in ("*", label) for wanted, label in zip(path, part, strict=True)):
            return False
    return True


def check_filter(filter: Mapping[str, Any]) -> None:
    """Refuse operators that do not exist."""
    for wanted in filter.values():
        if isinstance(wanted, Mapping):
            for name in wanted:
                if isinstance(name, str) and name.startswith("$") and name not in OPERATORS:
                    raise InvalidInput(
                        f"the filter has the operator {name!r}; use one of: {', '.join(OPERATORS)}"
                    )


def fits(value: Mapping[str, Any], filter: Mapping[str, Any]) -> bool:
    """Return whether an item satisfies all conditions of the filter."""
    return all(_fits(field_at(value, key), wanted) for key, wanted in filter.items())


def field_at(value: Mapping[str, Any], key: str) -> Any:
    """Return a field by its name or, if no field has the name, by its path: `user.plan`."""
    if key in value or "." not in key:
        return value.get(key)
    first, _, rest = key.partition(".")
    inner = value.get(first)
    return field_at(inner, rest) if isinstance(inner, Mapping) else None


def _fits(value: Any, term: Any) -> bool:
    if isinstance(term, Mapping):
        if any(isinstance(name, str) and name.startswith("$") for name in term):
            return all(_compare(value, name, other) for name, other in term.items())
        return isinstance(value, Mapping) and fits(value, term)
    if isinstance(term, list | tuple):
        return isinstance(value, list) and len(value) == len(term) and all(map(_fits, value, term))
    return bool(value == term)


def _compare(value: Any, operator: str, other: Any) -> bool:
    if operator == "$eq":
        return bool(value == other)
    if operator == "$ne":
        return bool(value != other)
    if not _comparable(value, other):
        return False
    if operator == "$gt":
        return bool(value > other)
    if operator == "$gte":
        return bool(value >= other)
    if operator == "$lt":
        return bool(value < other)
    return bool(value <= other)


def _comparable(value: Any, other: Any) -> bool:
    """Return whether two values have an order: two numbers or two texts."""
    if isinstance(value, str) and isinstance(other, str):
        return True
    numbers = (int, float)
    return (
        isinstance(value, numbers)
        and isinstance(other, numbers)
        and not isinstance(value, bool)
        and not isinstance(other, bool)
    )
