"""The ids of messages, as the parsers of FastStream and the libraries of brokers give them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aio_pika import IncomingMessage
from aiokafka import ConsumerRecord
from aiormq.abc import DeliveredMessage
from faststream.kafka.message import KafkaMessage
from faststream.kafka.parser import AioKafkaBatchParser, AioKafkaParser
from faststream.nats.parser import JsParser, NatsParser
from faststream.rabbit.parser import AioPikaParser
from nats.aio.msg import Msg
from pamqp.commands import Basic
from pamqp.header import ContentHeader

import stateward
from stateward import InvalidInput
from stateward.integrations.faststream import StatewardMiddleware, message_id, step

BODY = b'{"charge": 1}'


@pytest.fixture
async def store() -> AsyncIterator[stateward.Store]:
    async with stateward.open("memory://") as store:
        yield store


async def kafka(topic: str, partition: int, **headers: str) -> Any:
    record = ConsumerRecord(
        topic=topic,
        partition=partition,
        offset=17,
        timestamp=1_700_000_000_000,
        timestamp_type=0,
        key=None,
        value=BODY,
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=len(BODY),
        headers=[(name, value.encode()) for name, value in headers.items()],
    )
    return await AioKafkaParser(KafkaMessage, None).parse_message(record)


async def rabbit(queue: str, **options: Any) -> Any:
    sent = await AioPikaParser.encode_message(BODY, **options)
    delivered = DeliveredMessage(
        delivery=Basic.Deliver("consumer", 1, False, "", queue),
        header=ContentHeader(properties=sent.properties),
        body=sent.body,
        channel=None,  # type: ignore[arg-type]
    )
    return await AioPikaParser().parse_message(IncomingMessage(delivered))


async def nats(subject: str, number: int | None, **headers: str) -> Any:
    at = "" if number is None else f"$JS.ACK.shop.worker.1.{number}.{number}.1700000000000000000.0"
    raw = Msg(None, subject=subject, data=BODY, reply=at, headers=headers)  # type: ignore[arg-type]
    if number is None:
        return await NatsParser(pattern=subject, is_ack_disabled=True).parse_message(raw)
    return await JsParser(pattern=subject).parse_message(raw)


async def runs(store: stateward.Store, *messages: Any) -> int:
    """How often the handler of one consumer ran for these deliveries."""
    once, ran = StatewardMiddleware(store, "billing"), []

    async def handle(message: Any) -> None:
        ran.append(message)

    for message in messages:
        await once._handle(handle, message)
    return len(ran)


async def test_equal_offsets_of_two_partitions_or_topics_are_different_messages(
    store: stateward.Store,
) -> None:
    messages = [await kafka(*at) for at in (("pay", 0), ("pay", 1), ("refund", 0))]
    assert await runs(store, *messages, *messages) == 3
    assert [message_id(each) for each in messages] == ["pay 0 17", "pay 1 17", "refund 0 17"]


async def test_a_senders_id_counts_within_its_topic(store: stateward.Store) -> None:
    messages = [
        await kafka("pay", 0, message_id="m-1"),
        await kafka("pay", 1, message_id="m-1"),
        await kafka("refund", 0, message_id="m-1"),
    ]
    assert await runs(store, *messages) == 2


async def test_an_id_that_is_made_up_at_each_delivery_is_none(store: stateward.Store) -> None:
    with pytest.raises(InvalidInput, match="delivered again"):
        await runs(store, await rabbit("orders"))
    twice = [await rabbit("orders", message_id="m-1") for _ in range(2)]
    assert await runs(store, *twice, await rabbit("refunds", message_id="m-1")) == 2


async def test_a_correlation_id_is_no_id(store: stateward.Store) -> None:
    question = await nats("orders", 7, correlation_id="c-1")
    reply = await nats("receipts", 8, correlation_id="c-1")
    assert await runs(store, question, reply, question) == 2
    with pytest.raises(InvalidInput, match="delivered again"):
        await runs(store, await nats("orders", None, correlation_id="c-1"))
    plain = [await nats("orders", None, message_id="m-1") for _ in range(2)]
    assert await runs(store, *plain) == 1


async def test_a_batch_has_no_id_that_stays(store: stateward.Store) -> None:
    records = ((await kafka("pay", 0)).raw_message,)
    batch = await AioKafkaBatchParser(KafkaMessage, None).parse_batch(records)
    with pytest.raises(InvalidInput, match="delivered again"):
        message_id(batch)


async def test_a_senders_id_is_no_syntax(store: stateward.Store) -> None:
    happened: list[str] = []

    async def charge(message: Any) -> str:
        async def charged() -> str:
            happened.append("charged")
            return "receipt"

        return str(await step("charge", charged))

    async def forge(message: Any) -> str:
        return "forged"

    once = StatewardMiddleware(store, "mail", id=lambda message: message.headers["message_id"])
    forged = await kafka("pay", 0, message_id="order-1 / charge")
    assert await once._handle(forge, forged) == "forged"
    order = await kafka("pay", 0, message_id="order-1")
    assert await once._handle(charge, order) == "receipt"
    assert happened == ["charged"]

    other = StatewardMiddleware(store, "mail eu", id=lambda message: "7")
    assert await other._handle(charge, order) == "receipt"
    once = StatewardMiddleware(store, "mail", id=lambda message: "eu 7")
    assert await once._handle(charge, order) == "receipt"
    assert happened == ["charged"] * 3


@pytest.mark.parametrize("sent", ["x" * 5000, "é" * 400, "\x00\n", " "])
async def test_a_message_is_handled_whatever_its_sender_calls_it(
    store: stateward.Store, sent: str
) -> None:
    message = await kafka("pay", 0, message_id=sent, correlation_id=sent)
    assert await runs(store, message, message) == 1


async def test_an_id_that_is_empty_or_no_text_is_refused(store: stateward.Store) -> None:
    for wrong in ("", 7, None):
        once = StatewardMiddleware(store, "mail", id=lambda message, wrong=wrong: wrong)
        with pytest.raises(InvalidInput, match="id of a message"):
            await once._handle(lambda message: None, await kafka("pay", 0))
