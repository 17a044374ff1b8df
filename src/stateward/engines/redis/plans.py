"""Each operation as a plan: what to ask, and what to make of the answers. No I/O here.

A plan is a generator. It yields steps, gets their replies, and returns the outcome when it has
one; most take one round. Engines of both colours carry out the plans of a batch side by side.
`commit.py`, `fetch.py`, `listing.py`, `sweep.py` and `purge.py` have one each; here is what they
share.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.server import Server
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.outcomes import time_of
from stateward.ops import Entity

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Plan = Generator[Sequence[PipelineStep], Any, T]
Clock = Callable[[], float]


class Latest(dict[K, V]):
    """The last of many. Only a guess: what is wrong with it costs a second round."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, value: V) -> None:
        self[key] = value
        if len(self) > self._most:
            try:
                self.pop(next(iter(self)), None)
            except RuntimeError:  # another thread was faster
                pass


class SeenMembers(Latest[Command, list[bytes] | None]):
    """What short parts of an index said last; None: too much to guess it."""

    LONGEST = 8

    def guess(self, asked: Command) -> list[bytes]:
        return self.get(asked) or []

    def is_long(self, asked: Command) -> bool:
        """Whether a guess would be wrong."""
        return self.get(asked, ()) is None

    def learn(self, asked: Command, found: list[bytes]) -> None:
        if found:
            self.keep(asked, None if len(found) > self.LONGEST else found)
        else:
            self.pop(asked, None)


class Traits(NamedTuple):
    """What plans need to know about the server."""

    server: Server
    inline: bool  # scripts may reach the index: there is only one server
    clock: Clock | None  # for tests: tells the time instead of the server
    seen: Latest[Entity, None]  # entities that were written before, so that they probably exist
    members: SeenMembers  # what listings probably find

    @property
    def flags(self) -> str:
        return ("i" if self.inline else "") + ("r" if self.server.wait_replicas else "")

    def at(self) -> str:
        """The time for a script; nothing means that the server's own counts."""
        return "" if self.clock is None else f"{self.clock():.6f}"

    def now(self, reply: Any) -> float:
        """The time that a server's answer to TIME stands for."""
        return time_of(reply) if self.clock is None else self.clock()
