"""Numbers and times at the edges: refused with a sentence wherever a caller may give one.

`tests/conformance/test_public_methods.py` sees to it that no parameter is missing here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.codec import Limits
from stateward.context.compaction import Compaction
from stateward.errors import InvalidInput
from stateward.layers.cache_memory import Cache
from stateward.layers.outage.spill import Spill
from stateward.layers.policy import Policy
from stateward.observe.alarm import Alarm
from stateward.options import Options
from stateward.state.past import Keep
from stateward.store import Store

NAN, INFINITY = float("nan"), float("inf")
NO_NUMBERS: tuple[Any, ...] = (NAN, INFINITY, -INFINITY, -1, -0.5, True, [], b"1", "1", "one")
TOO_LARGE: tuple[Any, ...] = (2**63, 10**400, 1e300)
MILLISECONDS = 1_700_000_000_000.0  # a time of day that was meant in seconds

Calls = dict[str, Callable[[Store, Any], Awaitable[Any]]]


async def every(listing: Any) -> None:
    async for _ in listing:
        pass


async def lock(store: Store, **options: Any) -> None:
    async with store.lock("l", **options):
        pass


async def lead(store: Store, **options: Any) -> None:
    async with store.thread("t").lead(**options):
        pass


async def turn(store: Store, **options: Any) -> None:
    async with store.thread("t").turn(key=store._scope.world.new_id(), **options) as turn:
        turn.give_up()


async def store_turn(store: Store, **options: Any) -> None:
    async with store.thread("t").turn(key=store._scope.world.new_id()) as turn:
        await turn.store({"n": 1}, **options)


async def elect(store: Store, **options: Any) -> None:
    async with store.elect("e", **options):
        pass


async def drive(store: Store, **options: Any) -> None:
    async with store.workflow("w", kind="k", **options):
        pass


async def work(store: Store, **options: Any) -> None:
    await store.work({}, until=lambda: True, **options)


async def once(store: Store, **options: Any) -> None:
    await store.once("k", lambda: 1, **options)


async def drive_one(store: Store, act: Any) -> None:
    async with store.workflow(store._scope.world.new_id(), kind="k") as run:
        await act(run)


def one() -> int:
    return 1


def declare(store: Store, **options: Any) -> Any:
    return store.schedule("s").declare("0 3 * * *", task="t", **options)


def document(store: Store) -> Any:
    return store.user("u").document()


async def append(make: Any, **options: Any) -> None:
    await make("x", **options).append({"n": 1})


def same(value: Any) -> Any:
    return value


def fold(state: Any, event: Any) -> Any:
    return state


# More than there can be means all of them; a version that is not there yet is a conflict.
async def act(store: Store, **options: Any) -> Any:
    return await store.thread("t").effect("c", lambda: None, **options)


COUNTS: Calls = {
    "OperationsLog.entries last": lambda store, n: every(store.operations.entries(last=n)),
    "OperationsLog.stored_entries last": lambda store, n: every(
        store.operations.stored_entries(last=n)
    ),
    "Thread.load last": lambda store, n: store.thread("t").load(last=n),
    "Thread.load turns": lambda store, n: store.thread("t").load(turns=n),
    "Thread.load max_tokens": lambda store, n: store.thread("t").load(max_tokens=n),
    "Thread.messages_as last": lambda store, n: store.thread("t").messages_as("openai", last=n),
    "Thread.messages_as turns": lambda store, n: store.thread("t").messages_as("openai", turns=n),
    "Thread.messages_as max_tokens": lambda store, n: store.thread("t").messages_as(
        "openai", max_tokens=n
    ),
    "Thread.turn last": lambda store, n: turn(store, last=n),
    "Thread.turn turns": lambda store, n: turn(store, turns=n),
    "Thread.turn instead_of": lambda store, n: turn(store, instead_of=n),
    "Turn.store instead_of": lambda store, n: store_turn(store, instead_of=n),
    "Thread.turn max_tokens": lambda store, n: turn(store, max_tokens=n),
    "DocumentHandle.get version": lambda store, n: document(store).get(version=n),
    "DocumentHandle.history limit": lambda store, n: every(document(store).history(limit=n)),
    "DocumentHandle.diff a": lambda store, n: document(store).diff(n),
    "DocumentHandle.diff b": lambda store, n: document(store).diff(1, n),
    "DocumentHandle.undo to": lambda store, n: document(store).undo(to=n),
    "User.get version": lambda store, n: store.user("u").get(version=n),
    "User.history limit": lambda store, n: every(store.user("u").history(limit=n)),
    "User.diff a": lambda store, n: store.user("u").diff(n),
    "User.diff b": lambda store, n: store.user("u").diff(1, n),
    "User.undo to": lambda store, n: store.user("u").undo(to=n),
    "Store.context last": lambda store, n: store.context(user="u", thread="c", last=n),
    "Store.context turns": lambda store, n: store.context(user="u", thread="c", turns=n),
    "Store.context max_tokens": lambda store, n: store.context(user="u", thread="c", max_tokens=n),
    "Store.sweep limit": lambda store, n: store.sweep(n),
    "Store.threads limit": lambda store, n: every(store.threads(limit=n)),
    "Store.tasks limit": lambda store, n: every(store.tasks(limit=n, order="recent")),
    "Store.workflows limit": lambda store, n: every(store.workflows(limit=n)),
    "Store.effects limit": lambda store, n: every(store.effects(limit=n)),
    "Store.waiting limit": lambda store, n: every(store.waiting(limit=n)),
}
NUMBERS: Calls = {
    "OperationsLog.entries after": lambda store, n: every(store.operations.entries(n)),
    "OperationsLog.entries upto": lambda store, n: every(store.operations.entries(upto=n)),
    "OperationsLog.stored_entries after": lambda store, n: every(
        store.operations.stored_entries(n)
    ),
    "OperationsLog.stored_entries upto": lambda store, n: every(
        store.operations.stored_entries(upto=n)
    ),
    "OperationsLog.trim before": lambda store, n: store.operations.trim(n),
    "Thread.load after": lambda store, n: store.thread("t").load(after=n),
    "Thread.load upto": lambda store, n: store.thread("t").load(upto=n),
    "Thread.messages_as after": lambda store, n: store.thread("t").messages_as("openai", after=n),
    "Thread.messages_as upto": lambda store, n: store.thread("t").messages_as("openai", upto=n),
    "Thread.fork at": lambda store, n: store.thread("t").fork(to="f", at=n),
    "Thread.append expect": lambda store, n: store.thread("t").append({"n": 1}, expect=n),
    "Thread.edit changes": lambda store, n: store.thread("t").edit({n: None} if n != [] else {}),
    "Thread.edit expect": lambda store, n: store.thread("t").edit({1: None}, expect=n),
    "Thread.truncate after": lambda store, n: store.thread("t").truncate(after=n),
    "Thread.truncate expect": lambda store, n: store.thread("t").truncate(after=0, expect=n),
    "Thread.replace expect": lambda store, n: store.thread("t").replace([], expect=n),
    "Thread.retain span": lambda store, n: store.thread("t").retain(n),
    "Thread.lead ttl": lambda store, n: lead(store, ttl=n),
    "Thread.lead wait": lambda store, n: lead(store, wait=n),
    "Thread.effect ttl": lambda store, n: act(store, ttl=n),
    "Thread.effect wait": lambda store, n: act(store, wait=n),
    "Thread.turn ttl": lambda store, n: turn(store, ttl=n),
    "Thread.live wait": lambda store, n: every(store.thread("t").live("r", wait=n)),
    "Thread.turn wait": lambda store, n: turn(store, wait=n),
    "Turn.store expect": lambda store, n: store_turn(store, expect=n),
    "DocumentHandle.put expect": lambda store, n: store.thread("t").vars.put({}, expect=n),
    "DocumentHandle.delete expect": lambda store, n: store.thread("t").vars.delete(expect=n),
    "DocumentHandle.update retries": lambda store, n: store.user("u").update(same, retries=n),
    "DocumentHandle.update within": lambda store, n: store.user("u").update(same, within=n),
    "DocumentHandle.patch retries": lambda store, n: store.user("u").patch({}, retries=n),
    "DocumentHandle.patch within": lambda store, n: store.user("u").patch({}, within=n),
    "DocumentHandle.get at": lambda store, n: document(store).get(at=n),
    "DocumentHandle.undo at": lambda store, n: document(store).undo(at=n),
    "User.get at": lambda store, n: store.user("u").get(at=n),
    "User.undo at": lambda store, n: store.user("u").undo(at=n),
    "User.put expect": lambda store, n: store.user("u").put({}, expect=n),
    "User.delete expect": lambda store, n: store.user("u").delete(expect=n),
    "Journal.append expect": lambda store, n: store.journal("j").append({"n": 1}, expect=n),
    "Journal.trim upto": lambda store, n: store.journal("j").trim(n),
    "Store.knew version": lambda store, n: store.knew("t", n),
    "Store.thread retain": lambda store, n: append(store.thread, retain=n),
    "Store.journal retain": lambda store, n: append(store.journal, retain=n),
    "Store.lock ttl": lambda store, n: lock(store, ttl=n),
    "Store.lock wait": lambda store, n: lock(store, wait=n),
    "Store.elect ttl": lambda store, n: elect(store, ttl=n),
    "Store.elect wait": lambda store, n: elect(store, wait=n),
    "Store.once ttl": lambda store, n: once(store, ttl=n),
    "Store.once wait": lambda store, n: once(store, wait=n),
    "Store.once at": lambda store, n: once(store, at=n),
    "Store.once retain": lambda store, n: once(store, retain=n),
    "Store.workflow ttl": lambda store, n: drive(store, ttl=n),
    "Store.workflow wait": lambda store, n: drive(store, wait=n),
    "Store.workflow retain": lambda store, n: drive(store, retain=n),
    "Store.changes poll": lambda store, n: every(store.changes(wait=False, poll=n)),
    "Store.work ttl": lambda store, n: work(store, ttl=n),
    "Store.work poll": lambda store, n: work(store, poll=n),
    "Store.work concurrency": lambda store, n: work(store, concurrency=n),
    "Store.signals since": lambda store, s: store.signals(since=s),
    "Store.signals step": lambda store, s: store.signals(step=s),
    "Store.ready timeout": lambda store, n: store.ready(n),
    "Store.once attempts": lambda store, n: once(store, attempts=n),
    "Thread.effect attempts": lambda store, n: act(store, attempts=n),
    "Workflow.result wait": lambda store, n: store.workflow("w").result(wait=n),
    "Schedule.declare at_most": lambda store, n: declare(store, at_most=n),
    "Schedule.declare grace": lambda store, n: declare(store, grace=n),
    "Schedule.declare attempts": lambda store, n: declare(store, attempts=n),
    "Schedule.declare retain": lambda store, n: declare(store, retain=n),
    "Run.step retries": lambda store, n: drive_one(store, lambda r: r.step("s", one, retries=n)),
    "Run.step timeout": lambda store, n: drive_one(store, lambda r: r.step("s", one, timeout=n)),
    "Run.effect attempts": lambda store, n: drive_one(
        store, lambda r: r.effect("e", one, attempts=n)
    ),
    "Run.effect ttl": lambda store, n: drive_one(store, lambda r: r.effect("e", one, ttl=n)),
    "Run.wait timeout": lambda store, n: drive_one(store, lambda r: r.wait("s", timeout=n)),
    "Run.sleep seconds": lambda store, n: drive_one(store, lambda r: r.sleep(n)),
    "Run.sleep until": lambda store, n: drive_one(store, lambda r: r.sleep(until=n)),
}
# What is left of a time may have been counted by the workflow itself. A replay counts anew, when it
# is over: then it gets what is recorded, as it would have in time.
MAY_BE_OVER = {"Run.wait timeout", "Run.sleep seconds"}
TIMES = {name for name in NUMBERS if name.endswith((" at", " until"))} - {"Thread.fork at"}
MADE: dict[str, Callable[[Any], Any]] = {
    "Compaction after": lambda n: Compaction(fold, after=n, keep=1),
    "Compaction keep": lambda n: Compaction(fold, keep=n),
    "Compaction most": lambda n: Compaction(fold, most=n),
    "Compaction ttl": lambda n: Compaction(fold, ttl=n),
    "Keep versions": Keep,
    "Keep within": lambda n: Keep(1, n),
    "Limits message": lambda n: Limits(message=n),
    "Limits commit": lambda n: Limits(commit=n),
    "Cache size": lambda n: Cache(size=n),
    "Cache seconds": lambda n: Cache(seconds=n),
    "Policy read_timeout": lambda n: Policy(read_timeout=n),
    "Policy write_timeout": lambda n: Policy(write_timeout=n),
    "Policy breaker_seconds": lambda n: Policy(breaker_seconds=n),
    "Policy breaker_failures": lambda n: Policy(breaker_failures=n),
    "Alarm suppressed": lambda n: Alarm(suppressed=n),
    "Alarm seconds": lambda n: Alarm(seconds=n),
    "Alarm slow": lambda n: Alarm(slow=n),
    "Spill max_bytes": lambda n: Spill(max_bytes=n),
    "Spill max_age": lambda n: Spill(max_age=n),
    "open retain": lambda n: Options(retain=n),
    "open keep": lambda n: Options(keep=n),
    "open heartbeat": lambda n: Options(heartbeat=n),
}
# Sizes and counts of which more than there can be means that there is no limit.
UNLIMITED = {
    *("Compaction after", "Compaction keep", "Compaction most", "Limits message", "Limits commit"),
    *("Cache size", "Policy breaker_failures", "Spill max_bytes"),
}


# A position may be a cursor, which is text.
POSITIONS = {name for name in NUMBERS if name.endswith((" after", " upto"))} | {
    *("Thread.fork at", "Thread.append expect", "Thread.edit expect", "Thread.truncate expect"),
    *("Thread.replace expect", "Turn.store expect", "Journal.append expect", "Store.knew version"),
}


def wrong(name: str) -> list[Any]:
    """The values that a parameter refuses."""
    limited = name not in COUNTS and name not in UNLIMITED
    said = [*NO_NUMBERS, *TOO_LARGE] if limited else [*NO_NUMBERS]
    taken: tuple[Any, ...] = ("1",) if name in POSITIONS else ()
    if name in MAY_BE_OVER:
        taken = (-1, -0.5)
    return [value for value in said if value not in taken]


@case
async def a_number_that_means_nothing_is_refused_everywhere(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        for name, call in (COUNTS | NUMBERS).items():
            for number in wrong(name):
                try:
                    await call(store, number)
                except InvalidInput:
                    continue
                raise AssertionError(f"{name}={number!r} was taken")
        for name, make in MADE.items():
            for number in wrong(name):
                try:
                    make(number)
                except InvalidInput:
                    continue
                raise AssertionError(f"{name}={number!r} was taken")
        assert store.breaker == "closed", "a wrong number is no outage"
        assert (await store.thread("t").load()).version == 1
        assert [info.id async for info in store.threads()] == ["t"]


@case
async def a_time_in_milliseconds_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        for name in TIMES:
            try:
                await NUMBERS[name](store, MILLISECONDS)
            except InvalidInput:
                continue
            raise AssertionError(f"{name} was taken for a time in the year 55840")
