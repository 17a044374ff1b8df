"""The answers that a caller gets instead of an outcome when an append did not reach the store."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from stateward.errors import StoreUnavailable


class Suppressed(Struct, frozen=True):
    """An append whose failure was not raised; `error` is the failure of the store."""

    status: ClassVar[Literal["spilled", "dropped"]]
    error: StoreUnavailable


class Spilled(Suppressed, frozen=True):
    """The messages are kept on this machine, and are stored when the store is back."""

    status = "spilled"


class Dropped(Suppressed, frozen=True):
    """The messages are lost: there was no room for them, or the store was closed."""

    status = "dropped"
