"""Each operation as a plan: what to ask, and what to make of the answers. No I/O here.

A plan is a generator. It yields steps, gets their replies, and returns the outcome when it has
one; most take one round. Engines of both colours carry out the plans of a batch side by side.
`commit.py`, `fetch.py`, `listing.py`, `sweep.py` and `purge.py` have one each; here is what they
share.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from stateward.engine import MINUTE
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.server import Server
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.keys import PARTS
from stateward.engines.redis.outcomes import time_of
from stateward.ops import Commit, Entity

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
    """The last members of short parts of an index; None: too many to guess them."""

    LONGEST = 8

    def guess(self, asked: Command) -> list[bytes]:
        return self.get(asked) or []

    def is_long(self, asked: Command) -> bool:
        """Return True if a guess would be wrong."""
        return self.get(asked, ()) is None

    def learn(self, asked: Command, found: list[bytes]) -> None:
        if found:
            self.keep(asked, None if len(found) > self.LONGEST else found)
        else:
            self.pop(asked, None)


class Touched(NamedTuple):
    """The owner and minute last written to the index for an entity."""

    owner: str
    minute: int


class Traits(NamedTuple):
    """Traits of the server that plans depend on, and guesses that save rounds."""

    server: Server
    inline: bool  # scripts may reach the index: there is only one server
    clock: Clock | None  # for tests: tells the time instead of the server
    seen: Latest[
        Entity, str
    ]  # entities that were written before: probably they exist, and are theirs
    touched: Latest[Entity, Touched]  # last known entries in the index of a cluster
    members: SeenMembers  # members that listings probably return
    looked_at: set[str]  # namespaces of a cluster whose index is in parts, as it must be
    agreed: set[str]  # "clock": a node of a cluster has agreed with the clock of this process

    @property
    def flags(self) -> str:
        return ("i" if self.inline else "") + ("r" if self.server.wait_replicas else "")

    def guess(self) -> float:
        """Return the probable time on the server."""
        return self.server.world.now() if self.clock is None else self.clock()

    def minute(self) -> int:
        """Return the probable minute on the server."""
        return int(self.guess() // MINUTE)

    def parts(self) -> Sequence[int | None]:
        """The parts that an index has."""
        return (None,) if self.inline else PARTS

    def owner_of(self, op: Commit) -> str | None:
        """Return the likely owner; None: the commit does not say, and on a cluster nobody asks."""
        if op.owner is None and self.inline:
            return self.seen.get(op.entity, "")
        return op.owner

    def at(self) -> str:
        """Return the time for a script; "" makes the script use the server's own."""
        return "" if self.clock is None else f"{self.clock():.6f}"

    def now(self, reply: Any) -> float:
        """The time that a server's answer to TIME stands for."""
        return time_of(reply) if self.clock is None else self.clock()


def run_with(plan: Plan[T], along: Sequence[PipelineStep]) -> Plan[tuple[T, Sequence[Any]]]:
    """Run a plan with more steps in its first round; return its outcome and their replies."""
    asked = tuple(next(plan))
    replies = yield (*asked, *along)
    answers = replies[: len(asked)]
    while True:
        try:
            steps = plan.send(answers)
        except StopIteration as ended:
            return ended.value, replies[len(asked) :]
        answers = yield steps
