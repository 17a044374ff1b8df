"""What can never succeed is not an outage: refusals of servers, proxies and firewalls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conformance.test_cancelled import turn
from servers import until
from servers.gateway import Gateway, Refusal

import stateward
from service.conftest import Served
from stateward import InvalidInput, StoreUnavailable, TooLarge, sync
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.errors import EntityBusy, StatewardError, StoreTooSlow, TooFewReplicas
from stateward.ops import Applied
from stateward.server.problems import problem_of
from stateward.wire import PROBLEM, failure_of
from stateward.world import World

Serve = Callable[..., Served]
PASSING = {401, 408, 425, 429}
LASTING = {301, 308, *range(400, 500)} - PASSING
OUTAGES = PASSING | {302, 303, 307, *range(500, 600)}
LIMIT = 1 << 20  # nginx's client_max_body_size, unless it is set
BODIES = {
    "empty": (b"", "text/html"),
    "page": (b"<html><h1>Request refused</h1></html>", "text/html"),
    "words": (b"Forbidden\n", "text/plain"),
    "json": (b'{"message": "Forbidden"}', "application/json"),
    "list": (b"[403]", "application/json"),
    "problem": (b'{"title": "Refused", "status": 400}', PROBLEM),
    "wrong problem": (b'{"title": 7, "error": []}', PROBLEM),
    "foreign error": (b'{"error": "access_denied"}', "application/json"),
    "bytes": (b"\x1f\x8b\x08\x00\xff\xfe", "application/octet-stream"),
}
QUICK = stateward.Policy(write_timeout=5.0, read_timeout=5.0, breaker_seconds=0.05)


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def too_large(size: int, body: bytes) -> Refusal | None:
    return Refusal(413) if size > LIMIT else None


@asynccontextmanager
async def behind_gateway(serve: Serve) -> AsyncIterator[tuple[Gateway, str]]:
    served = serve(insecure_local=True)
    async with asyncio.timeout(120), Gateway(served.port) as gateway:
        yield gateway, served.url.replace(f":{served.port}", f":{gateway.port}")


class Calls:
    """The calls of a store that the tests need, in one of the two colours."""

    def __init__(self, colour: str, url: str, **options: Any) -> None:
        opened = stateward if colour == "async" else sync
        self._colour = colour
        self.store: Any = opened.open(url, heartbeat=None, **({"policy": QUICK} | options))

    async def call(self, work: Callable[[], Any]) -> Any:
        return await (work() if self._colour == "async" else asyncio.to_thread(work))

    async def append(self, id: str, *texts: str) -> str:
        thread = self.store.thread(id)
        receipt = await self.call(lambda: thread.append(*map(say, texts)))
        return str(receipt.status)

    async def texts(self, id: str) -> list[str]:
        window = await self.call(lambda: self.store.thread(id).load())
        return [message["content"] for message in window.messages]

    async def health(self) -> stateward.Health:
        health: stateward.Health = await self.call(self.store.health)
        return health

    async def close(self) -> None:
        await self.call(self.store.close)


colours = pytest.mark.parametrize("colour", ["async", "sync"])


# --- every refusal ----------------------------------------------------------------------


@pytest.mark.parametrize("body", BODIES)
def test_a_refusal_is_an_outage_exactly_if_the_same_request_may_be_accepted_later(
    body: str,
) -> None:
    kinds: dict[int, type[StatewardError]] = {413: TooLarge}
    for status in sorted(LASTING | OUTAGES):
        error = failure_of(status, BODIES[body][0], "https://stateward.example")
        is_outage = isinstance(error, StoreUnavailable)
        assert is_outage == (status in OUTAGES), f"{status}: {error!r}"
        if isinstance(error, StoreUnavailable):
            assert error.applied == ("unknown" if status >= 500 else "no")
        else:
            assert type(error) is kinds.get(status, InvalidInput)
            assert str(status) in str(error)
    assert "client_max_body_size" in str(failure_of(413, BODIES[body][0], "x"))


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreTooSlow, EntityBusy, TooFewReplicas])
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_client_is_told_whether_the_store_serves_others(
    kind: type[StoreUnavailable], is_busy: bool
) -> None:
    """Otherwise its breaker counts what the service's own does not."""
    error = kind("the file is locked by another process")
    error.is_busy = error.is_busy or is_busy
    status, body, _ = problem_of(error)
    received = failure_of(status, body, "https://stateward.example")
    assert isinstance(received, StoreUnavailable)
    assert received.is_busy == (is_busy or kind is EntityBusy)
    assert (b"is_busy" in body) == received.is_busy, "nothing new in other answers"


@colours
async def test_a_lasting_refusal_is_raised_and_never_suppressed_repeated_or_counted(
    serve: Serve, tmp_path: Path, colour: str
) -> None:
    async with behind_gateway(serve) as (gateway, url):
        calls = Calls(colour, url, spill=str(tmp_path / "spill"))
        assert await calls.append("poison", "hello") == "stored"
        for status, (body, kind) in product(sorted(LASTING), BODIES.values()):
            answer = Refusal(status, body, kind)
            gateway.rule = lambda _, sent: answer if b"poison-text" in sent else None  # noqa: B023
            with pytest.raises(InvalidInput):
                await calls.append("poison", "poison-text")
        assert gateway.refused == len(LASTING) * len(BODIES)
        assert await calls.append("other", "hello") == "stored"
        assert await calls.append("poison", "and on") == "stored"
        assert await calls.texts("poison") == ["hello", "and on"]
        counters, health = calls.store.counters, await calls.health()
        assert (counters.suppressed, counters.retries, counters.breaker_opened) == (0, 0, 0)
        assert (health.breaker, health.spill_depth) == ("closed", 0)
        await calls.close()


@colours
@pytest.mark.parametrize("status", [302, 401, 429, 503])
async def test_a_refusal_of_this_moment_is_spilled_and_replayed(
    serve: Serve, tmp_path: Path, colour: str, status: int
) -> None:
    async with behind_gateway(serve) as (gateway, url):
        calls = Calls(colour, url, spill=str(tmp_path / "spill"))
        assert await calls.append("t", "one") == "stored"
        gateway.rule = lambda size, body: Refusal(status)
        assert await calls.append("t", "two") == "spilled"
        assert calls.store.counters.breaker_opened
        gateway.rule = lambda size, body: None
        await until(lambda: calls.store.counters.replayed == 1)
        assert (await calls.texts("t"))[:2] == ["one", "two"]
        await calls.close()


@colours
async def test_an_answer_that_comes_before_the_request_was_read_is_heeded(
    serve: Serve, tmp_path: Path, colour: str
) -> None:
    async with behind_gateway(serve) as (gateway, url):
        calls = Calls(colour, url, spill=str(tmp_path / "spill"))
        assert await calls.append("t", "one") == "stored"
        gateway.rule = lambda size, _: Refusal(413, is_early=True) if size > LIMIT else None
        for _ in range(5):
            with pytest.raises(TooLarge):
                await calls.append("t", *["x" * 900_000] * 8)
        assert calls.store.counters.suppressed == 0
        assert await calls.texts("t") == ["one"]
        await calls.close()


async def test_many_small_turns_that_are_too_large_together_are_all_stored(serve: Serve) -> None:
    async with behind_gateway(serve) as (gateway, url):
        gateway.rule = too_large
        calls = Calls("async", url, spill=False)
        turns = [calls.append(f"t-{number}", "x" * 40_000) for number in range(100)]
        large = calls.append("large", "x" * 600_000, "x" * 600_000)
        *answers, refused = await asyncio.gather(*turns, large, return_exceptions=True)
        assert set(answers) == {"stored"}
        assert type(refused) is TooLarge
        assert gateway.refused > 1, "nothing was sent together"
        await calls.close()


# --- a turn that was kept, and is refused when it is brought ------------------------------


@colours
async def test_a_kept_turn_that_is_refused_is_set_aside_and_holds_up_no_other(
    serve: Serve, tmp_path: Path, colour: str
) -> None:
    spill = tmp_path / "spill"
    async with behind_gateway(serve) as (gateway, url):
        calls = Calls(colour, url, spill=str(spill))
        assert await calls.append("t", "one") == "stored"
        gateway.rule = lambda size, body: Refusal(503)
        assert await calls.append("t", "x" * 600_000, "y" * 600_000) == "spilled"
        assert await calls.append("t", "two") == "spilled"
        opened = calls.store.counters.breaker_opened
        gateway.rule = too_large
        await until(lambda: calls.store.breaker != "open")
        assert await calls.append("other", "hello") == "stored"
        await until(lambda: calls.store.counters.replayed == 1)
        health = await calls.health()
        assert (health.spill_refused, health.spill_depth) == (1, 0)
        assert "memory_write_lost" in health.alarms
        assert calls.store.counters.refused == 1
        assert calls.store.counters.breaker_opened == opened  # by the outage alone
        assert (await calls.texts("t"))[:2] == ["one", "two"]
        await calls.close()

        again = Calls(colour, url, spill=str(spill))
        await until_ready(again)
        assert (await again.health()).spill_refused == 1, "another process reports it as well"
        await again.close()
        (aside,) = spill.glob("*.refused")
        aside.rename(aside.with_suffix(".spill"))
        gateway.rule = lambda size, body: None
        mended = Calls(colour, url, spill=str(spill))
        await until_ready(mended)
        await until(lambda: mended.store.counters.replayed == 1)
        assert [len(text) for text in await mended.texts("t")] == [3, 3, 600_000, 600_000]
        assert (await mended.health()).spill_refused == 0
        await mended.close()


async def until_ready(calls: Calls) -> None:
    await calls.call(lambda: calls.store.ready(timeout=30))


@colours
async def test_where_every_write_is_refused_no_turn_is_set_aside(
    serve: Serve, tmp_path: Path, colour: str
) -> None:
    spill = tmp_path / "spill"
    async with behind_gateway(serve) as (gateway, url):
        calls = Calls(colour, url, spill=str(spill))
        assert await calls.append("t", "one") == "stored"
        gateway.rule = lambda size, body: Refusal(503)
        assert await calls.append("t", "two") == "spilled"
        # Reads pass, and so does what measures the store's clock; other writes do not.
        gateway.rule = lambda _, body: Refusal(404) if b"two" in body or b"clock-" in body else None
        before = gateway.refused
        while gateway.refused < before + 10:
            with suppress(InvalidInput):
                await calls.append("t", "three")
        assert not [*spill.glob("*.refused")]
        gateway.rule = lambda size, body: None
        counters = calls.store.counters
        await until(lambda: counters.replayed == counters.spilled)
        assert (await calls.texts("t"))[:2] == ["one", "two"]
        await calls.close()


# --- connections that were forgotten --------------------------------------------------------


class Later(World):
    """The monotonic clock, some time later."""

    passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed


@colours
async def test_of_idle_connections_that_were_forgotten_only_one_is_tried_and_for_a_short_time(
    serve: Serve, colour: str
) -> None:
    async with behind_gateway(serve) as (gateway, url):
        world = Later()
        make: Any = create_engine if colour == "async" else create_sync_engine
        engine = make(parse(url), world)

        async def call(work: Any, *args: Any, **options: Any) -> Any:
            if colour == "async":
                return await work(*args, **options)
            return await asyncio.to_thread(work, *args, **options)

        await call(engine.open)
        await asyncio.gather(*[call(engine.execute, [turn(n, f"op-{n}")]) for n in range(8)])
        gateway.forget()
        world.passed = 60.0
        deadline = world.monotonic() + 6.0
        (outcome,) = await call(engine.execute, [turn(9, "op-9")], deadline=deadline)
        assert isinstance(outcome, Applied)
        assert deadline - world.monotonic() > 2.0, "it took most of the time of the call"
        assert gateway.ignored == 1
        await call(engine.close)
