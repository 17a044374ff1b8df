"""What the user wants of a pattern, and which of those compared have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from stateward.errors import InvalidInput

Enough = Literal["pass", "warn", "any"]


class Requirements(Struct, frozen=True, forbid_unknown_fields=True):
    """Each must be met; what is not known is not met. None: it does not matter."""

    p95_ms: float | None = None  # of lookups, at most
    durability: Enough = "warn"  # the worst verdict that will do
    races: Enough = "warn"
    mb_a_replica: float | None = None  # at most, and so on
    connections: int | None = None
    gb_a_year: float | None = None
    money_a_month: float | None = None
    prefer: Literal["latency", "money", "memory"] = "latency"


def requirements(config: Mapping[str, Any], words: str | None, p95_ms: float) -> Requirements:
    """From `[require]` of the config file and from `--require name=value,…`."""
    said: dict[str, Any] = {"p95_ms": p95_ms, **config}
    for word in (words or "").split(",") if words else ():
        name, equals, value = word.strip().partition("=")
        if not equals:
            raise InvalidInput(f"--require is like p95_ms=20,durability=pass, not {word!r}")
        said[name.strip()] = value.strip()
    try:
        return msgspec.convert(said, Requirements, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(Requirements.__struct_fields__)
        raise InvalidInput(f"a requirement cannot be used: {error}; there are: {known}") from error
