"""What is moved in: conversations as another framework, or a file, keeps them.

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

LIMITS = Limits(message=Limits().commit)  # an agent may have been given larger ones than here


class ForeignThread(Struct, frozen=True, kw_only=True):
    """A conversation by the address that it gets here. Times are seconds since 1970."""

    id: str
    owner: str = ""  # "": no one's
    kind: str = THREAD
    status: str = ""  # of the head, where an adapter knows its own by it
    created: float | None = None
    updated: float | None = None
    refused: str = ""  # why it cannot be moved, if it cannot


class ForeignItem(NamedTuple):
    """One entry of a conversation's log, in the JSON text that the adapter would have stored."""

    body: str
    at: float | None = None  # None: the source does not say when


class ForeignStore(Protocol):
    """Where conversations come from. May be read as often as is asked, in the same order.

    A conversation whose items or documents raise `InvalidInput` is refused; the others continue.
    """

    name: str  # for people: without a password

    @property
    def lost(self) -> tuple[str, ...]:
        """What it has that is not moved, in words, as far as it was read."""

    def size(self) -> int:
        """About how many items there are, to tell how far the moving has come."""

    def threads(self) -> Iterator[ForeignThread]:
        """Every conversation, once."""

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        """Its log, oldest first, read little by little."""

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        """What stands beside the log, by name, as JSON text."""

    def close(self) -> None:
        """Let go of files and connections."""


class ForeignMessages:
    """Of sources that have messages and nothing beside them."""

    @property
    def lost(self) -> tuple[str, ...]:
        return ()

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        return {}


def message_body(message: object) -> str:
    """A message as a thread keeps it; raises `InvalidInput` if it is none, or is too large."""
    return encode_messages((message,), LIMITS)[0]


def time_of(at: Any) -> float:
    """A time as sources keep it: seconds, a datetime or its text; without a zone it is UTC."""
    if isinstance(at, int | float):
        return float(at)
    said = at if isinstance(at, datetime) else datetime.fromisoformat(at)
    return (said if said.tzinfo is not None else said.replace(tzinfo=UTC)).timestamp()


# --- what becomes of them -----------------------------------------------------------------

Fate = Literal["moved", "there", "erased", "refused"]


class MovedThread(NamedTuple):
    """What became of one conversation, or would."""

    thread: ForeignThread
    fate: Fate
    why: str = ""  # it was refused
    items: int = 0  # of the source
    added: int = 0  # of them, this time
    bytes: int = 0  # of the source
    digest: str = ""  # over what the source has
    read: str = ""  # over what the target reads back


class Terms(NamedTuple):
    """What whoever moves has said, for all conversations."""

    namespace: str
    retain: float | None = None  # seconds, counted from the import; None: for ever
    again: bool = False  # also what was deleted in the target since it was moved


class MoveTarget(NamedTuple):
    """Where conversations go to, opened."""

    url: EngineURL
    engine: SyncEngine
    erasures: Erasures  # whom nothing may bring back
    terms: Terms
