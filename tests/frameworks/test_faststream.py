"""Handlers that run once for each message of a real Redis stream."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from faststream import AckPolicy
from faststream.redis import RedisBroker, StreamSub
from servers.redis import RedisServer

import stateward
import stateward.sync
from frameworks.conftest import Start
from stateward import InvalidInput, StoreMisused
from stateward.integrations.faststream import StatewardMiddleware, step

PATIENT = 20.0


@asynccontextmanager
async def consuming(
    server: RedisServer, handler: Callable[..., Any], *middlewares: Any, **options: Any
) -> AsyncIterator[RedisBroker]:
    """A broker whose handler gets what is published to the stream `orders`."""
    broker = RedisBroker(server.url, middlewares=list(middlewares), logger=None)
    stream = StreamSub("orders", group="g", consumer="c", polling_interval=10)
    broker.subscriber(stream=stream, **options)(broker.publisher(stream="receipts")(handler))
    async with broker:
        await broker.start()
        yield broker


async def until(condition: Callable[[], Any], patience: float = PATIENT) -> None:
    async with asyncio.timeout(patience):
        while not condition():  # noqa: ASYNC110 (the other side is a broker)
            await asyncio.sleep(0.01)


@pytest.fixture
def server(redis_server: RedisServer) -> RedisServer:
    assert redis_server.ask("FLUSHALL") == b"+OK\r\n"
    return redis_server


async def test_a_message_that_is_published_twice_is_handled_once(
    url: str, redis_server: RedisServer
) -> None:
    if not url.startswith("redis"):
        redis_server.ask("FLUSHALL")
    ran: list[str] = []

    async def bill(order: dict[str, str]) -> dict[str, str]:
        ran.append(order["id"])
        return {"receipt": order["id"]}

    async with stateward.open(url) as store:
        once = StatewardMiddleware(store, "billing", user=lambda message: message.headers["user"])
        async with consuming(redis_server, bill, once) as broker:
            for id in ("1", "2", "1"):
                headers = {"message_id": id, "user": "u-42"}
                await broker.publish({"id": id}, stream="orders", headers=headers)
            client = redis.asyncio.Redis.from_url(redis_server.url)
            async with asyncio.timeout(PATIENT):
                while await client.xlen("receipts") < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await client.aclose()
        assert ran == ["1", "2"]
        tasks = [task.id async for task in store.tasks(user="u-42")]
        assert tasks == ["billing orders 1", "billing orders 2"]
        assert (await store.user("u-42").erase()).removed == {"task": 2}


async def test_a_worker_that_is_killed_leaves_its_message_and_its_progress_to_another(
    server: RedisServer, start: Start, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    effects.touch()
    first = start("faststream_worker", server.url, "a", effects)
    async with RedisBroker(server.url, logger=None) as broker:
        first.until_said("ready")
        for number in range(6):
            hang = {"hang": "a"} if number == 3 else {}
            await broker.publish({"id": str(number), **hang}, stream="orders")
    first.until_said("charged 3")
    first.kill()
    assert "mailed 3" not in effects.read_text()
    start("faststream_worker", server.url, "b", effects)
    await until(lambda: len(effects.read_text().splitlines()) >= 12)
    expected = [f"{what} {n}" for n in range(6) for what in ("charged", "mailed")]
    assert Counter(effects.read_text().splitlines()) == Counter(expected)
    client = redis.asyncio.Redis.from_url(server.url)
    async with asyncio.timeout(PATIENT):
        while (await client.xpending("orders", "billing"))["pending"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await client.aclose()


async def test_steps_that_were_done_are_not_done_again(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    happened: list[str] = []

    async def bill(order: str) -> str:
        async def charge() -> str:
            happened.append("charged")
            return stateward.idempotency_key()

        key = await step("charge", charge)
        happened.append("tried")
        if happened.count("tried") < 3:
            raise ConnectionError("no mail today")
        happened.append("mailed")
        assert isinstance(key, str)
        return key

    async with stateward.open(server.url) as store:
        once = StatewardMiddleware(store, "billing", id=lambda message: "o-1")
        policy = AckPolicy.ACK
        async with consuming(server, bill, once, ack_policy=policy) as broker:
            for _ in range(4):
                await broker.publish("o-1", stream="orders")
            await until(lambda: "mailed" in happened)
    assert happened == ["charged", "tried", "tried", "tried", "mailed"]


async def test_a_message_that_failed_for_good_is_acknowledged_and_kept_for_a_person(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []

    async def refuse(order: str) -> None:
        tries.append(order)
        raise stateward.Permanent("the card has expired")

    async with stateward.open(server.url) as store:
        once = StatewardMiddleware(store, "billing", id=lambda message: "o-1")
        async with consuming(server, refuse, once, ack_policy=AckPolicy.ACK) as broker:
            for _ in range(2):
                await broker.publish("o-1", stream="orders")
            await until(lambda: "message_failed_for_good" in caplog.messages)
            client = redis.asyncio.Redis.from_url(server.url)
            async with asyncio.timeout(PATIENT):
                while (await client.xpending("orders", "g"))["pending"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await client.aclose()
        assert tries == ["o-1"]
        assert [task.id async for task in store.tasks("failed")] == ["billing o-1"]


async def test_a_task_that_a_handler_asks_for_and_that_has_failed_costs_one_attempt(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[str] = []

    async with stateward.open(server.url) as store:

        def expired() -> None:
            raise stateward.Permanent("the card has expired")

        async def bill(order: str) -> None:
            tries.append(order)
            await store.once("check the card", expired)

        with pytest.raises(stateward.Permanent):
            await store.once("check the card", expired)
        once = StatewardMiddleware(store, "billing", id=lambda message: "o-1", attempts=3)
        async with consuming(server, bill, once, ack_policy=AckPolicy.ACK) as broker:
            for _ in range(4):
                await broker.publish("o-1", stream="orders")
            await until(lambda: "message_failed_for_good" in caplog.messages)
        assert len(tries) == 3
        failed = [(task.id, task.failures) async for task in store.tasks("failed")]
        assert failed == [("billing o-1", 3), ("check the card", 1)]


async def test_a_list_without_ids_is_refused(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[BaseException] = []

    class Listening(StatewardMiddleware):
        async def _handle(self, call_next: Any, message: Any) -> Any:
            try:
                return await super()._handle(call_next, message)
            except InvalidInput as error:
                failed.append(error)

    async def bill(order: str) -> None:
        pytest.fail("handled")

    async with stateward.open(server.url) as store:
        once = Listening(store, "billing")
        broker = RedisBroker(server.url, middlewares=[once], logger=None)
        broker.subscriber(list="orders")(bill)
        async with broker:
            await broker.start()
            await broker.publish("o-1", list="orders")
            await until(lambda: failed)
    assert "message_id" in str(failed[0])


async def test_misuse_is_said_in_words(file: str) -> None:
    with pytest.raises(StoreMisused, match="only inside a handler"):
        await step("charge", lambda: 1)
    with pytest.raises(InvalidInput, match=r"stateward\.open"):
        StatewardMiddleware(stateward.sync.open(file), "billing")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="name of a consumer"):
        StatewardMiddleware(stateward.open(file), "")
