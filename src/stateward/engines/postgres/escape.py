"""Text that PostgreSQL cannot hold. It refuses U+0000, which ids, names and keys may contain.

U+0000 is stored as U+0001 U+0001 and U+0001 as U+0001 U+0002: reversible, and the order of bytes
and every prefix stay what they were. JSON text needs none of it: both are always escaped there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

_ESCAPE = {0: "\x01\x01", 1: "\x01\x02"}

T = TypeVar("T")


def escape(text: str) -> str:
    """Return the text as the database stores it."""
    return text.translate(_ESCAPE) if "\x00" in text or "\x01" in text else text


def escape_or_none(text: str | None) -> str | None:
    return None if text is None else escape(text)


def unescape(text: str) -> str:
    """Return the text as it was before `escape`."""
    if "\x01" not in text:
        return text
    return text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01")


def escape_all(value: T) -> T:
    """A struct, tuple or mapping with every text in it as the database holds it."""
    return _each(value, escape)  # type: ignore[no-any-return]


def unescape_all(value: T) -> T:
    """The reverse of `escape_all`."""
    return _each(value, unescape)  # type: ignore[no-any-return]


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)(_each(item, change) for item in value)
    if isinstance(value, Mapping):
        return {_each(key, change): _each(item, change) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = {n: _each(getattr(value, n), change) for n in value.__struct_fields__}
        return type(value)(**fields)
    return value
