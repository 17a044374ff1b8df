"""Conversations as another framework, or a file, stores them.

A new source is a class of the shape of `ForeignStore`, and a line in `catalogue.py`. Most sources
say which entries and documents a conversation has here, as their adapter would have stored them,
and `EntityWriter` does the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, Protocol

from msgspec import Struct

from stateward.codec import Limits, encode_messages
from stateward.engine import SyncEngine
from stateward.engines.url import EngineURL
from stateward.kinds import THREAD
from stateward.transfer.erasures import Erasures

# Other frameworks may allow larger messages than Stateward.
LIMITS = Limits(message=Limits().commit)


class ForeignThread(Struct, frozen=True, kw_only=True):
    """A conversation with its address in the target. Times are seconds since 1970."""

    id: str
    owner: str = ""  # "" if no user owns the conversation
    kind: str = THREAD
    status: str = ""  # status of the head, by which an adapter recognises its own threads
    created: float | None = None
    updated: float | None = None
    refused: str = ""  # the reason why the conversation cannot be moved, or ""


class ForeignItem(NamedTuple):
    """One entry of a conversation's log, in the JSON text that the adapter would have stored."""

    body: str
    at: float | None = None  # None: the source does not say when


class ForeignStore(Protocol):
    """A source of conversations. May be read any number of times, in the same order.

    A conversation whose items or documents raise `InvalidInput` is refused; the others continue.
    """

    name: str  # for people: without a password

    @property
    def lost(self) -> tuple[str, ...]:
        """Return descriptions of all omitted data, as far as the source was read."""

    def size(self) -> int:
        """Return the approximate number of items, to report progress."""

    def threads(self) -> Iterator[ForeignThread]:
        """Yield every conversation once."""

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        """Yield the log of a conversation, oldest entry first, reading in small portions."""

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        """Return the documents beside the log, by name, as JSON text."""

    def close(self) -> None:
        """Close files and connections."""


class ForeignMessages:
    """The common part of sources that have messages and no documents."""

    @property
    def lost(self) -> tuple[str, ...]:
        return ()

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        return {}


def message_body(message: object) -> str:
    """Return a message as a thread stores it; `InvalidInput` if it is malformed or too large."""
    return encode_messages((message,), LIMITS)[0]


def time_of(at: Any) -> float:
    """Return the seconds of a source's time: seconds, a datetime or its text; UTC by default."""
    if isinstance(at, int | float):
        return float(at)
    date = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()


# --- outcomes -----------------------------------------------------------------------------

Fate = Literal["moved", "there", "erased", "refused"]


class MovedThread(NamedTuple):
    """The outcome of the move of one conversation."""

    thread: ForeignThread
    fate: Fate
    why: str = ""  # the reason for a refusal, or ""
    items: int = 0  # of the source
    added: int = 0  # items written by this run
    bytes: int = 0  # of the source
    digest: str = ""  # digest of the source
    read: str = ""  # digest of the data read back from the target


class Terms(NamedTuple):
    """The options of a move, for all conversations."""

    namespace: str
    retain: float | None = None  # seconds, counted from the import; None: no limit
    again: bool = False  # import conversations again that were deleted in the target


class MoveTarget(NamedTuple):
    """The opened target of conversations."""

    url: EngineURL
    engine: SyncEngine
    erasures: Erasures  # erased users, whose data must not be imported again
    terms: Terms
