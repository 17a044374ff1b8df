"""A user is erased while turns of theirs are kept locally: no replay brings anything back.

Before any one of the calls by which what was kept reaches the store: by the process that kept it,
or by another one, which adopts its file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from conformance.erasures import found_in
from msgspec.structs import replace
from servers import until
from servers.postgres import PostgresServer
from servers.redis import running

from policy.test_suppression import IMPATIENT, files, say
from stateward import Store
from stateward.engine import Engine
from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.registry import create_engine, parse
from stateward.layers.outage import suppression
from stateward.ops import Op, Outcome
from stateward.testing.conformance.harness import Caller
from stateward.testing.faults import FaultyEngine, FaultyStore
from stateward.world import World

USER = "u-42"
SECRET = "4111 1111"
ANEW = "anew"

Make = Callable[[], Engine]


class Meanwhile(FaultyEngine):
    """An engine before one of whose calls something else happens, counted when it is told to."""

    def __init__(self, engine: Engine, happens: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(engine, World())
        self.capabilities = replace(self.capabilities, durable=True)  # so it is kept in a file
        self.calls = 0
        self._at: int | None = None
        self._happens = happens

    def begin(self, at: int) -> None:
        self.calls, self._at = 0, at

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        if self._at is not None:
            self.calls += 1
            if self.calls == self._at:
                await self._happens()
        return await super().execute(ops, deadline=deadline)


async def say_much(store: Store) -> None:
    """All that is kept, of one conversation and of another."""
    thread = store.thread("t", user=USER)
    statuses = [
        (await thread.append(say(SECRET))).status,
        (await thread.append(say(SECRET), say("yes"), key="k")).status,
        (await thread.append(say(SECRET), key="r", repeat="first")).status,
        (await store.thread("another", user=USER).append(say(SECRET))).status,
    ]
    assert statuses == ["spilled"] * 4


async def erased_at_every_call(
    make: Make, folder: Path, *, known: bool, anew: bool, adopted: bool
) -> None:
    """`known`: the conversation had begun before; `anew`: it is begun anew after the erasure."""
    replica = Caller(make(), World())
    await replica.engine.open()
    at = 0
    while True:
        at += 1
        namespace, place = uuid4().hex, folder / f"{at}"
        place.mkdir()
        options: dict[str, Any] = {"namespace": namespace, "policy": IMPATIENT}
        kept_here = options | {"spill": str(place / "spill"), "identity": "it"}
        async with Store(make(), spill=False, **options) as other:

            async def erase(other: Store = other) -> None:
                await other.user(USER).erase()
                if anew:
                    await other.thread("t", user=USER).append(say(ANEW))

            if known:
                await other.thread("t", user=USER).append(say(SECRET))
            engine = Meanwhile(make(), erase)
            async with FaultyStore(engine, **kept_here) as store:
                with store.faults.unavailable():
                    await say_much(store)
                    if adopted:
                        await store.close()
                    else:
                        engine.begin(at)
                if not adopted:
                    await until(lambda: files(place) == [])  # noqa: B023
            if adopted:
                engine = Meanwhile(make(), erase)
                engine.begin(at)
                async with FaultyStore(engine, **kept_here):
                    await until(lambda: files(place) == [])  # noqa: B023
            if engine.calls < at:
                assert at > 8
                await replica.engine.close()
                return
        left = await found_in(replica, namespace, SECRET)
        assert left == [], f"erased before call {at}: {left}"
        assert not anew or await found_in(replica, namespace, ANEW), f"call {at}: lost"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suppression, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(suppression, "CLOSING_SECONDS", 0.0)


SOME = [(False, True, False), (False, True, True), (True, False, False)]  # all in the soak


@pytest.mark.parametrize(("known", "anew", "adopted"), SOME)
async def test_no_replay_brings_back_what_was_erased(
    tmp_path: Path, known: bool, anew: bool, adopted: bool
) -> None:
    model, world = Model(), World()
    await erased_at_every_call(
        lambda: MemoryEngine(model, world), tmp_path, known=known, anew=anew, adopted=adopted
    )


@pytest.fixture(scope="module", params=["sqlite", "valkey", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        yield f"sqlite:///{folder / 'agents.db'}?durability=relaxed"
    elif request.param == "postgres":
        server = PostgresServer(fsync="off").start()
        yield server.url_of("erased")
        server.remove()
    else:
        with running(folder, request.param, "--appendonly", "no") as redis:
            yield redis.url


@pytest.mark.soak
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("adopted", [False, True])
async def test_no_replay_brings_back_what_was_erased_on_any_engine(
    url: str, tmp_path: Path, known: bool, anew: bool, adopted: bool
) -> None:
    parsed = parse(url)
    await erased_at_every_call(
        lambda: create_engine(parsed, World()), tmp_path, known=known, anew=anew, adopted=adopted
    )
