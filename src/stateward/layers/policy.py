"""The policy for a failing store: how long a call may take, and what becomes of an append."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from stateward.engine import CALL_SECONDS
from stateward.errors import InvalidInput


class Policy(Struct, frozen=True):
    """The behaviour of a store when its engine fails.

    A call fails with `StoreUnavailable` after `read_timeout` or `write_timeout` seconds, which are
    120 at most.
    `threads` says what happens to a plain append that fails that way: "suppress" keeps it locally
    and lets the caller continue, "raise" raises. After `breaker_failures` failures in a row, calls
    fail immediately, and every `breaker_seconds` one of them checks whether the store answers.
    """

    read_timeout: float = 1.0
    write_timeout: float = 5.0
    threads: Literal["suppress", "raise"] = "suppress"
    breaker_failures: int = 5
    breaker_seconds: float = 1.0

    def __post_init__(self) -> None:
        for name in ("read_timeout", "write_timeout", "breaker_seconds"):
            value: Any = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value < 1e9:
                raise InvalidInput(f"Policy.{name} is in seconds above 0, not {value!r}")
        for name in ("read_timeout", "write_timeout"):
            value = getattr(self, name)
            if value > CALL_SECONDS:
                raise InvalidInput(
                    f"Policy.{name} is at most {CALL_SECONDS:g} seconds, not {value!r}: a store "
                    "only recognises a retry for that long"
                )
        if type(self.breaker_failures) is not int or self.breaker_failures < 1:
            raise InvalidInput(
                "Policy.breaker_failures is a whole number of at least 1, "
                f"not {self.breaker_failures!r}"
            )
        if self.threads not in ("suppress", "raise"):
            raise InvalidInput(f'Policy.threads is "suppress" or "raise", not {self.threads!r}')
