"""Objects of a type as JSON: only what reads back as the same object is stored. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stateward.codec import Json, shown, to_type
from stateward.errors import InvalidInput
from stateward.state.merge_patch import with_unknown

Path = tuple[str | int, ...]


def to_json(value: object, cls: type[Any], what: str) -> Json:
    """Convert an object of a type to a JSON object that reads back as an equal object."""
    plain = dumped(value, cls, what)
    _check_same(to_type(plain, cls, what), value, what)
    return plain


def dumped(value: object, cls: type[Any], what: str) -> Json:
    """Convert an object to a JSON object, which may leave things out: see `updated`."""
    dump = getattr(value, "model_dump", None)
    try:
        plain = msgspec.to_builtins(value) if dump is None else dump(mode="json", by_alias=True)
    except TypeError as error:
        raise InvalidInput(f"{what} holds what JSON cannot: {error}") from error
    if type(plain) is not dict:
        raise InvalidInput(
            f"{what} is a {getattr(cls, '__name__', None) or cls}, not {shown(value)}"
        )
    return plain


def updated(was: Json, typed: Json, new: object, cls: type[Any], what: str) -> Json:
    """Return the stored value after an update of its object.

    `typed` is what the type wrote of the object before. What the update left alone stays as it is
    stored, even what the type does not write, such as a secret. Where a field is stored under
    another of its aliases, the update replaces that.
    """
    plain = dumped(new, cls, what)
    value = with_unknown(was, typed, plain)
    read = to_type(value, cls, what)
    if _difference(read, new) is None:
        return value
    for path in list(_besides(value, dumped(new, cls, what))):
        without = _without(value, path)
        if dumped(to_type(without, cls, what), cls, what) != dumped(read, cls, what):
            value, read = without, to_type(without, cls, what)
    _check_same(read, new, what)
    return value


def _check_same(read: object, value: object, what: str) -> None:
    where = _difference(read, value)
    if where is not None:
        raise InvalidInput(
            f"{what} would not read back as it is: {where} is lost when the object is written as "
            "JSON. Nothing was written; write that field out with a serializer of your own, "
            "declare the class that it really has, or leave it out of the type"
        )


def _difference(read: Any, value: Any) -> str | None:
    """Return where two objects differ, if one is a Pydantic model; None: nowhere.

    A field that was set to something its type would convert is compared as what is written.
    """
    if read == value or (read != read and value != value):
        return None
    fields = getattr(type(value), "model_fields", None)
    if fields is not None and hasattr(read, "__dict__"):
        besides = getattr(value, "model_extra", None) or {}
        for name in (*fields, *besides):
            inner = _difference(getattr(read, name, None), getattr(value, name, None))
            if inner is not None:
                return f"{name}.{inner}".rstrip(".")
        return None
    if isinstance(value, dict) and isinstance(read, dict) and read.keys() == value.keys():
        each = (_difference(read[key], value[key]) for key in value)
    elif isinstance(value, list | tuple) and isinstance(read, list | tuple):
        each = (_difference(*pair) for pair in zip(read, value, strict=False))
        if len(read) != len(value):
            return ""
    else:
        return None if _written_alike(read, value) else ""
    return next((inner for inner in each if inner is not None), None)


def _written_alike(read: Any, value: Any) -> bool:
    """Return whether two values are the same JSON; a secret is not compared by its mask."""
    if hasattr(value, "get_secret_value"):
        return False
    try:
        from pydantic_core import to_jsonable_python

        return bool(to_jsonable_python(read) == to_jsonable_python(value))
    except (ImportError, ValueError):
        return False


def _besides(value: Any, written: Any) -> Iterator[Path]:
    """Yield the paths of fields that the type did not write."""
    if isinstance(value, dict) and isinstance(written, dict):
        for name, each in value.items():
            if name not in written:
                yield (name,)
            else:
                yield from ((name, *rest) for rest in _besides(each, written[name]))
    elif isinstance(value, list) and isinstance(written, list):
        for at, (each, other) in enumerate(zip(value, written, strict=False)):
            yield from ((at, *rest) for rest in _besides(each, other))


def _without(value: Any, path: Path) -> Any:
    """Return a copy without the field at this path."""
    copied = list(value) if isinstance(value, list) else dict(value)
    first, *rest = path
    if rest:
        copied[first] = _without(value[first], tuple(rest))  # type: ignore[index]
    else:
        del copied[first]  # type: ignore[arg-type]
    return copied
