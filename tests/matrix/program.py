"""One drawn program: its stores, its clock, its conversations, and what must hold of them."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.errors import StatewardError
from stateward.layers.policy import Policy
from stateward.records import Change
from stateward.state.threads import Thread
from stateward.store import Store
from stateward.testing.clock import SteppableWorld
from stateward.testing.faults import FaultyEngine, FaultyStore

if TYPE_CHECKING:
    from matrix.features.feature import Feature

DAY = 86_400.0
RETENTION = 30 * DAY
USERS = ("ann", "bob")
THREADS = ("t1", "t2")
ACTIONS = 24
Message = dict[str, Any]
Action = Callable[[], Awaitable[str | None]]


class Violation(AssertionError):
    """Something holds no longer that must hold; the text says what."""


@dataclass
class Talk:
    """What one conversation must hold; `life` changes when it ends."""

    id: str
    owner: str
    life: int = 0
    exists: bool = False
    version: int = 0
    entries: dict[int, Message] = field(default_factory=dict)
    retain: float | None = RETENTION
    pinned: bool = False
    archived: bool = False
    since: float = 0.0  # when the retention began

    def ends(self) -> None:
        """Forget everything but the name and the owner."""
        life = self.life + 1
        self.__init__(self.id, self.owner, life)  # type: ignore[misc]

    def is_over(self, now: float) -> bool:
        """Return whether the retention has run out."""
        kept = self.retain is None or self.pinned or self.archived
        return self.exists and not kept and now >= self.since + (self.retain or 0.0)


class Program:
    """The stores that a program uses, and the shared part of its model."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = SteppableWorld(start=1_800_000_000.0)
        self.model = Model()
        self.namespace = "matrix"
        self.options: dict[str, Any] = {}
        self.trace: list[str] = []
        self.talks = {id: Talk(id, USERS[n % 2]) for n, id in enumerate(THREADS)}
        self.features: list[Feature] = []
        self.ends: dict[tuple[str, int], str] = {}  # how each life of a conversation ended
        self.cut_off = False  # whether the first store is out of reach
        self._numbers = 0
        self._stores: list[FaultyStore] = []
        self._open = AsyncExitStack()

    # --- stores ---------------------------------------------------------------------------

    async def __aenter__(self) -> Program:
        self._folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="matrix-"))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.reachable()
        await self.close()
        await self._open.aclose()

    async def close(self) -> None:
        """Close all stores; the next use opens others, as another process would."""
        stores, self._stores = self._stores, []
        for store in stores:
            await store.close()

    @property
    def stores(self) -> list[FaultyStore]:
        """Two replicas of one store; the first may be cut off."""
        while len(self._stores) < 2:
            engine = FaultyEngine(MemoryEngine(self.model, self.world), self.world)
            policy = Policy(read_timeout=5.0, write_timeout=5.0, breaker_seconds=0.001)
            chosen = {"spill": f"{self._folder}/{len(self._stores)}", "heartbeat": None}
            store = FaultyStore(
                engine,
                namespace=self.namespace,
                world=self.world,
                identity="matrix",
                policy=policy,
                **chosen | self.options,
            )
            self._stores.append(store)
        return self._stores

    @property
    def store(self) -> Store:
        """A replica that is not cut off."""
        return self.stores[1] if self.cut_off else self.random.choice(self.stores)

    def reachable(self) -> None:
        """Let the first replica reach the store again."""
        if self.cut_off and self._stores:
            self._stores[0].faults.clear()
        self.cut_off = False

    def thread(self, talk: Talk) -> Thread:
        return self.store.thread(talk.id, user=talk.owner)

    # --- the model ------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.world.now()

    def new(self, word: str) -> str:
        """Return a name that this program has not used yet."""
        self._numbers += 1
        return f"{word}{self._numbers}"

    def pick(self) -> Talk:
        return self.random.choice(list(self.talks.values()))

    def existing(self) -> Talk | None:
        """Return a conversation that exists, or None."""
        there = [talk for talk in self.talks.values() if talk.exists]
        return self.random.choice(there) if there else None

    def appended(self, talk: Talk, *messages: Message) -> None:
        """Note that these messages were stored."""
        if not talk.exists:
            talk.exists = True
        for message in messages:
            talk.version += 1
            talk.entries[talk.version] = message
        talk.since = self.now

    async def taken_back(self, talk: Talk) -> None:
        """Note that messages may have been stored in a later life, and removed at once."""
        version = (await self.thread(talk).load(last=1)).version
        if talk.exists and version > talk.version:
            talk.version, talk.since = version, self.now

    def ended(self, talk: Talk, how: str) -> None:
        """Note that a conversation was deleted or erased, or has expired."""
        self.ends[talk.id, talk.life] = how
        if talk.exists:
            for feature in self.features:
                feature.talk_ended(talk)
        talk.ends()

    def state(self) -> Any:
        """Return a copy of the whole model, for `rewind`."""
        return self.namespace, deepcopy(
            (self.talks, self.ends, [feature.remembered() for feature in self.features])
        )

    def rewind(self, state: Any) -> None:
        """Make the model what it was."""
        self.namespace, parts = state
        self.talks, self.ends, remembered = deepcopy(parts)
        for feature, each in zip(self.features, remembered, strict=True):
            feature.remember(each)

    # --- running --------------------------------------------------------------------------

    async def run(self, features: list[Feature]) -> None:
        """Draw and carry out actions of the features, and check after each."""
        self.features = features
        shared = [self.say, self.say, self.say, self.restart, self.delete]
        mix = ("own",) * 13 + ("shared",) * 4 + ("time",) * 3
        for feature in features:
            await feature.begin()
        for _ in range(ACTIONS):
            own = [action for feature in features for action in feature.actions()]
            drawn = {"own": own, "shared": shared, "time": [self.pass_time]}
            action = self.random.choice(drawn[self.random.choice(mix)])
            self.world.advance(seconds=1)  # actions of the same moment could not be told apart
            self.expire()
            done = await action()
            if done is not None:
                self.trace.append(f"{action.__name__}: {done}")
                self.world.advance(seconds=1)
                await self.check()
        for feature in features:
            await feature.finish()
        self.world.advance(seconds=1)
        await self.check()

    async def check(self) -> None:
        """Compare what is stored with the model."""
        self.expire()
        for talk in self.talks.values():
            for store in self.stores[1:] if self.cut_off else self.stores:
                window = await store.thread(talk.id, user=talk.owner).load(entries=True)
                read = {entry.version: entry.message for entry in window.entries}
                if window.exists != talk.exists or read != talk.entries:
                    raise Violation(
                        f"{talk.id} holds {read} (exists: {window.exists}) instead of "
                        f"{talk.entries} (exists: {talk.exists})"
                    )
        await self._check_listing()
        for feature in self.features:
            await feature.check()

    async def _check_listing(self) -> None:
        for owner in USERS:
            infos = [info async for info in self.store.threads(user=owner, archived=None)]
            listed = {info.id for info in infos}
            expected = {t.id for t in self.talks.values() if t.exists and t.owner == owner}
            if listed != expected:
                raise Violation(f"the conversations of {owner} are {listed}, not {expected}")

    def expire(self) -> None:
        """Note which conversations have reached the end of their retention."""
        for talk in self.talks.values():
            if talk.is_over(self.now):
                self.ended(talk, "expired")

    # --- actions that all programs share --------------------------------------------------

    async def say(self) -> str:
        talk = self.pick()
        message = {"role": "user", "content": self.new("said ")}
        stored = await self.thread(talk).append(message, key=self.new("key"))
        if stored.status != "stored":
            raise Violation(f"an append to a store that answers was {stored.status}")
        self.appended(talk, message)
        return f"{talk.id} {message['content']}"

    async def pass_time(self) -> str:
        days = self.random.choice((0.04, 0.3, 1.5, 8.0, 31.0))
        self.world.advance(days=days)
        self.expire()
        if self.random.random() < 0.3:
            await self.store.sweep()
        return f"{days} days"

    async def restart(self) -> str | None:
        if self.cut_off:
            return None  # a store in memory spills to memory
        await self.close()
        for feature in self.features:
            feature.restarted()
        return "all stores"

    async def delete(self) -> str | None:
        talk = self.existing()
        if talk is None or self.random.random() < 0.5:
            return None
        await self.thread(talk).delete()
        self.ended(talk, "deleted")
        return talk.id


@contextmanager
def refused(what: str, kind: type[StatewardError] = StatewardError) -> Iterator[None]:
    """Expect an error of Stateward; that nothing is raised is a violation."""
    try:
        yield
    except kind:
        return
    raise Violation(f"{what} was not refused")


def numbers(entries: tuple[Change, ...]) -> list[int]:
    return [entry.version for entry in entries]
