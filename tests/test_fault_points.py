"""Every point at which a public operation can fail, one after the other.

The n-th call of the engine fails, for n = 1, 2, … until the operation gets through without
meeting the fault: once or for good, before the batch was applied or after (its reply is lost).
Time is virtual, so that deadlines pass at once and can be measured exactly.

On servers too, because each engine has a form of its own in which it remembers what was applied.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from public_operations import OPERATIONS, PAGE, POLICY, READ, Operation
from servers.postgres import PostgresServer
from servers.redis import running

from stateward import StoreUnavailable
from stateward.engines.registry import create_engine, parse
from stateward.testing.fault_plan import Fault, Faults
from stateward.testing.faults import FaultyEngine, FaultyStore
from stateward.world import World


class VirtualWorld(World):
    """Time passes only where somebody waits, and then at once.

    Ops ascend, as those of a process do, or descend, as those of one whose clock runs backwards.
    """

    def __init__(self, *, descending: bool = False) -> None:
        self._passed = 0.0
        self._ids = 0
        self._descending = descending

    def now(self) -> float:
        return 1_800_000_000.0 + self._passed

    def monotonic(self) -> float:
        return self._passed

    def random(self) -> float:
        return 0.5

    def new_id(self) -> str:
        self._ids += 1
        return f"id-{self._ids}"

    def new_op(self) -> str:
        self._ids += 1
        return f"op-{999_999 - self._ids if self._descending else self._ids:06}"

    async def pause(self, seconds: float) -> None:
        self._passed += seconds
        await asyncio.sleep(0)


URLS = {"memory": "memory://", "sqlite": "sqlite:///{folder}/agents.db?durability=relaxed"}
_runs = itertools.count(1)
Plan = Callable[[Faults, int], tuple[Fault, ...]]
PLANS: dict[str, Plan] = {
    "once, before": lambda faults, n: (faults.fail_before(n),),
    "once, after": lambda faults, n: (faults.fail_after(n),),
    "for good, before": lambda faults, n: (faults.fail_before(n, times=None),),
    "for good, after": lambda faults, n: (faults.fail_after(n, times=None),),
    "for good, the first after": lambda faults, n: (
        faults.fail_after(n),
        faults.fail_before(n + 1, times=None),
    ),
}


class Run:
    """One operation in a fresh namespace of a store, whose n-th call of the engine fails."""

    def __init__(
        self, operation: Operation, url: str, folder: Path, *, descending: bool = False
    ) -> None:
        folder.mkdir()
        self._on_server = not url.startswith(("memory:", "sqlite:"))
        self.operation = operation
        self.folder = folder
        self.world = VirtualWorld(descending=descending)
        engine = create_engine(parse(url.format(folder=folder.parent)), self.world)
        faulty = FaultyEngine(engine, self.world)
        faulty.capabilities = replace(faulty.capabilities, page=PAGE)
        self.store = FaultyStore(
            faulty, policy=POLICY, world=self.world, namespace=f"run {next(_runs)}"
        )

    async def effect(self) -> int:
        assert self.operation.effect is not None
        return await self.operation.effect(self.store, self.folder)

    async def meet(self, plan: Plan, n: int, transient: bool) -> bool:
        """Meet the fault; returns whether it fired."""
        operation = self.operation
        async with self.store:
            await operation.prepare(self.store)
            start = self.world.monotonic()
            answer, error = None, None
            planned = plan(self.store.faults, n)
            try:
                answer = await operation.act(self.store, self.folder)
            except StoreUnavailable as caught:
                error = caught
            self.store.faults.clear()
            fired = all(fault.fired for fault in planned)
            if error is None:
                assert operation.right(answer), answer
                assert transient or not fired, "it cannot have got an answer"
                assert operation.effect is None or await self.effect() == 1
                return fired
            assert fired
            assert not transient, "one failure is survived without the caller noticing"
            # While a server answers, others wait too, and their pauses count in virtual time.
            assert self._on_server or self.world.monotonic() - start <= operation.deadline
            await self._repeat(error)
            return True

    async def _repeat(self, error: StoreUnavailable) -> None:
        """The store is back: nothing is half done, and the operation can be had exactly once."""
        operation = self.operation
        if operation.effect is None:
            assert operation.right(await operation.act(self.store, self.folder))
            return
        before = await self.effect()
        assert before <= 1
        if error.applied == "no" and not operation.several:
            assert before == 0
        if before and not operation.repeatable:
            return
        try:
            await operation.act(self.store, self.folder)
        except Exception as refusal:
            if not before or operation.refused is not type(refusal):
                raise
        assert 1 <= await self.effect() <= (operation.most if before else 1)


async def sweep(name: str, plan: str, url: str, folder: Path, *, descending: bool = False) -> None:
    for n in range(1, 60):
        run = Run(OPERATIONS[name], url, folder / str(n), descending=descending)
        if not await run.meet(PLANS[plan], n, transient=plan.startswith("once")):
            assert n > 1, "the fault never fired: the test proves nothing"
            return
    raise AssertionError("the operation never got through")


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_call_that_fails_at_any_point_leaves_nothing_half_done(
    name: str, plan: str, tmp_path: Path
) -> None:
    await sweep(name, plan, URLS["memory"], tmp_path)


@pytest.mark.parametrize("plan", ["once, after", "for good, after"])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if OPERATIONS[name].deadline != READ])
async def test_a_reply_lost_at_any_point_makes_nothing_count_twice_in_a_file(
    name: str, plan: str, tmp_path: Path
) -> None:
    await sweep(name, plan, URLS["sqlite"], tmp_path)


# --- servers ----------------------------------------------------------------------------

# Each of these has a short way on a server, or writes several times.
EVERYDAY = ("append", "append with a key", "update", "delete a thread", "erase")
LOST = ("once, after", "for good, after")


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("valkey"), "valkey", "--appendonly", "no") as server:
        yield server.url


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    server = PostgresServer(fsync="off").start()
    yield server.url_of("faults")
    server.remove()


@pytest.fixture(params=["valkey", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("plan", LOST)
@pytest.mark.parametrize("name", EVERYDAY)
async def test_a_reply_of_a_server_that_is_lost_makes_nothing_count_twice(
    name: str, plan: str, url: str, tmp_path: Path
) -> None:
    await sweep(name, plan, url, tmp_path)


@pytest.mark.parametrize("plan", LOST)
async def test_a_reply_that_is_lost_counts_once_if_the_clock_runs_backwards(
    plan: str, url: str, tmp_path: Path
) -> None:
    await sweep("append", plan, url, tmp_path, descending=True)


@pytest.mark.soak
@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_call_of_a_server_that_fails_at_any_point_leaves_nothing_half_done(
    name: str, plan: str, descending: bool, url: str, tmp_path: Path
) -> None:
    await sweep(name, plan, url, tmp_path, descending=descending)
