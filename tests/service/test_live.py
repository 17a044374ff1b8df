"""Live answers over HTTP: read from any replica, resumed, stopped, and ended with their writers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace
from servers.service import RunningService

import stateward
from service.conftest import Served
from service.test_streams import Clients
from stateward.kinds import STREAM
from stateward.ops import Fetch, Fetched, Op, Outcome
from stateward.server.keys import DOCUMENT, key_entity, record_of, storing
from stateward.state.stream_record import POLL_SECONDS
from stateward.world import World

PATIENCE = 60.0
QUESTION = {"role": "user", "content": "Tell me everything."}
WORDS = [f"word-{number} " for number in range(30)]


class Event(NamedTuple):
    """One event as a client gets it."""

    id: str
    kind: str
    data: dict[str, Any]


@pytest.fixture
def replicas(service: RunningService, tmp_path: Path) -> Any:
    """Two replicas of the service over one store."""
    names = [f"{tmp_path.name}-{number}" for number in range(2)]
    made = [Served(service, tmp_path / "agents.db", name) for name in names]
    yield made
    for each in made:
        each.close()


def path_of(served: Served, asked: str = "request=r", thread: str = "t") -> str:
    return f"/{served.url.rsplit('/', 1)[1]}/v1/threads/{thread}/live?{asked}"


async def events_of(reader: asyncio.StreamReader) -> AsyncIterator[Event]:
    """Yield the whole events of a response, in chunks as HTTP has them."""
    fields: dict[str, str] = {}
    while (line := (await reader.readline()).decode()) not in ("", "0\r\n"):  # the last chunk
        name, colon, value = line.strip().partition(": ")
        if colon and name:
            fields[name] = value
        elif not line.strip() and "data" in fields:
            yield Event(fields["id"], fields["event"], json.loads(fields["data"]))
            fields = {}


async def read(clients: Clients, path: str, headers: str = "", most: int = 10_000) -> list[Event]:
    """Return the events of a live answer to its end, or so many."""
    read: list[Event] = []
    async for event in events_of(await clients.follow(path, headers)):
        read.append(event)
        if event.kind == "end" or len(read) == most:
            break
    return read


def text_of(events: Sequence[Event]) -> str:
    """Return what a page shows, which clears it when an answer is begun again."""
    text = ""
    for event in events:
        text = "" if event.kind == "begin" else text + event.data.get("text", "")
    return text


@asynccontextmanager
async def writing(url: str, user: str | None = None) -> AsyncIterator[stateward.Turn]:
    """Answer the request "r" in the thread "t"; the block writes."""
    async with (
        stateward.open(url, heartbeat=None) as store,
        store.thread("t", user).turn(key="r", question=QUESTION, live=True) as turn,
    ):
        await turn.write(WORDS[0])
        yield turn


async def write_all(turn: stateward.Turn) -> None:
    for word in WORDS[1:]:
        await turn.write(word)
        await World().pause(0.01)
    await turn.store({"role": "assistant", "content": turn.text})


# --- reading ----------------------------------------------------------------------------


async def test_readers_resume_on_another_replica_without_gap_or_repeat(
    replicas: list[Served],
) -> None:
    keys = [replicas[0].key("read"), replicas[0].key("write", user="ada")]
    async with (
        asyncio.timeout(PATIENCE),
        Clients(replicas[0].port) as clients,
        writing(replicas[0].direct, "ada") as turn,
    ):
        storing = asyncio.create_task(write_all(turn))
        for key in keys:
            events: list[Event] = []
            number = 0
            while not events or events[-1].kind != "end":
                headers = f"authorization: Bearer {key}\r\n"
                if events:
                    headers += f"last-event-id: {events[-1].id}\r\n"
                path = path_of(replicas[number % 2])
                events += await read(clients, path, headers, most=1 + number % 3)
                number += 1
            assert text_of(events) == "".join(WORDS)
            deltas = [event.id for event in events if event.kind == "delta"]
            assert len({*deltas}) == len(deltas)
            assert events[-1].data["status"] == "done"
            assert events[-1].data["message"]["content"] == "".join(WORDS)
        await storing
    late = await asyncio.to_thread(
        replicas[1].ask, "GET", "/v1/threads/t/live?request=r", None, key
    )
    assert late.headers["content-type"] == "text/event-stream"
    assert b'"status":"done"' in late.body


async def test_a_page_that_reloads_finds_the_request_that_is_answered(
    serve: Callable[..., Served],
) -> None:
    served = serve(insecure_local=True)
    async with asyncio.timeout(PATIENCE), Clients(served.port) as clients:
        async with writing(served.direct) as turn:
            storing = asyncio.create_task(write_all(turn))
            assert text_of(await read(clients, path_of(served, ""))) == "".join(WORDS)
            await storing
        lives = await asyncio.to_thread(served.ask, "GET", "/v1/threads/t/lives")
        (answer,) = json.loads(lives.body)["items"]
        assert (answer["request"], answer["status"]) == ("r", "done")
        none = await asyncio.to_thread(served.ask, "GET", "/v1/threads/t/live")
        assert (none.status, none.problem["detail"]) == (
            404,
            "there is no live answer in the thread 't'",
        )


async def test_a_reader_may_come_before_the_answer_is_begun(serve: Callable[..., Served]) -> None:
    served = serve(insecure_local=True)
    async with asyncio.timeout(PATIENCE), Clients(served.port) as clients:
        reading = asyncio.create_task(read(clients, path_of(served, "request=r&wait=30")))
        async with writing(served.direct) as turn:
            await write_all(turn)
        assert text_of(await reading) == "".join(WORDS)


@pytest.mark.parametrize(
    ("asked", "status", "why"),
    [
        ("request=none", 404, "there is no request 'none'"),
        ("", 404, "there is no live answer"),
        ("request=r&after=nonsense", 400, "is not a position in a live answer"),
        ("request=r&wait=31", 400, "wait"),
        ("request=", 400, "request"),
    ],
)
def test_a_refusal_comes_before_the_first_byte(
    serve: Callable[..., Served], asked: str, status: int, why: str
) -> None:
    served = serve(insecure_local=True)
    answered = served.ask("GET", f"/v1/threads/t/live?{asked}")
    assert answered.status == status
    assert why in answered.problem["detail"]


async def test_twenty_readers_cost_the_engine_what_one_does(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(insecure_local=True)
    looks = 0
    execute = served.engine.execute

    async def counted(ops: Sequence[Op], **options: Any) -> list[Outcome]:
        nonlocal looks
        looks += sum(type(op) is Fetch and op.entity.kind == STREAM for op in ops)
        outcomes: list[Outcome] = await execute(ops, **options)
        return outcomes

    monkeypatch.setattr(served.engine, "execute", counted)
    world = World()
    async with (
        asyncio.timeout(PATIENCE),
        Clients(served.port) as clients,
        writing(served.direct) as turn,
    ):
        readers = [events_of(await clients.follow(path_of(served))) for _ in range(20)]
        for reader in readers:
            assert [(await anext(reader)).kind for _ in range(2)] == ["begin", "delta"]
        looks, began = 0, world.monotonic()
        for number in range(40):
            await turn.write(f"{number} ")
            for reader in readers:
                assert (await anext(reader)).data["text"] == f"{number} "
        polls = (world.monotonic() - began) / POLL_SECONDS
        print(f"20 readers: {looks} reads of the engine in {polls:.0f} polls")
        assert looks <= 3 * polls + 20
        await turn.store({"role": "assistant", "content": turn.text})


# --- ends -------------------------------------------------------------------------------


async def test_an_answer_is_stopped_from_another_replica_by_its_user(
    replicas: list[Served],
) -> None:
    own, others = (replicas[0].key("write", user=user) for user in ("ada", "bob"))
    path, body = "/v1/threads/t/stop", b'{"request":"r"}'

    def stop(key: str, request: bytes = body) -> Any:
        kind = "application/json"
        return replicas[1].ask("POST", path, request, key, content_type=kind)

    async with asyncio.timeout(PATIENCE), Clients(replicas[0].port) as clients:
        headers = f"authorization: Bearer {own}\r\n"
        with pytest.raises(stateward.TurnStopped):
            async with writing(replicas[0].direct, "ada") as turn:
                reading = asyncio.create_task(read(clients, path_of(replicas[0]), headers))
                assert (
                    await asyncio.to_thread(stop, others)
                ).status == 404  # as if there were none
                absent = await asyncio.to_thread(stop, own, b'{"request":"none"}')
                assert absent.status == 404
                stopped = await asyncio.to_thread(stop, own)
                assert (stopped.status, stopped.body) == (200, b'{"changed":true}')
                while True:
                    await turn.write("more ")
                    await World().pause(0.01)
        events = await reading
        assert events[-1].data == {"status": "stopped", "message": None}
        again = await asyncio.to_thread(stop, own)
        assert (again.status, again.body) == (200, b'{"changed":false}')


async def test_a_user_deletes_a_conversation_that_is_answered_live(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    key = served.key("write", user="ada")
    async with asyncio.timeout(PATIENCE), writing(served.direct, "ada") as turn:
        deleted = await asyncio.to_thread(served.ask, "DELETE", "/v1/threads/t", None, key)
        assert (deleted.status, deleted.body) == (204, b"")
        turn.give_up()


WRITER = """
import asyncio, sys, stateward

async def main():
    async with stateward.open(sys.argv[1], heartbeat=None) as store:
        async with store.thread("t", "ada").turn(key="r", live=True, ttl=1.0) as turn:
            while True:
                await turn.write("word ")
                await asyncio.sleep(0.01)

asyncio.run(main())
"""


@pytest.mark.parametrize("user", [None, "ada"])
async def test_readers_are_told_that_the_writer_was_killed(
    serve: Callable[..., Served], user: str | None
) -> None:
    served = serve()
    headers = f"authorization: Bearer {served.key('read', user=user)}\r\n"
    async with stateward.open(served.direct, heartbeat=None) as store:
        await store.thread("t", "ada").append(QUESTION)  # until then its user learns nothing of it
    async with asyncio.timeout(PATIENCE), Clients(served.port) as clients:
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, served.direct)
        try:
            path = path_of(served, "request=r&wait=30")
            events = await read(clients, path, headers, most=5)
        finally:
            writer.kill()
            await writer.wait()
        headers += f"last-event-id: {events[-1].id}\r\n"
        events += await read(clients, path, headers)
    assert events[-1].data == {"status": "interrupted", "message": None}
    assert text_of(events).startswith("word word word ")


async def test_a_live_answer_ends_with_the_key_of_its_reader(serve: Callable[..., Served]) -> None:
    served = serve()
    key = served.key("read")
    async with (
        asyncio.timeout(PATIENCE),
        Clients(served.port) as clients,
        writing(served.direct) as turn,
        stateward.open(served.direct, heartbeat=None) as store,
    ):
        headers = f"authorization: Bearer {key}\r\n"
        reader = await clients.follow(path_of(served), headers)
        fetch = Fetch(key_entity(key.split(".")[1]), documents=(DOCUMENT,))
        (fetched,) = await store.sections["workflows"].execute([fetch])
        assert isinstance(fetched, Fetched)
        record = replace(record_of(fetched.documents[DOCUMENT].json), revoked=1.0)
        await store.sections["workflows"].execute([storing(record, 1, World().new_op())])
        kinds = [event.kind async for event in events_of(reader)]
        assert "end" not in kinds
        turn.give_up()


async def stopped(app: Any) -> None:
    app.stop()


async def test_a_service_that_stops_lets_its_readers_go(replicas: list[Served]) -> None:
    key = replicas[0].key("read")
    headers = f"authorization: Bearer {key}\r\n"
    async with (
        asyncio.timeout(PATIENCE),
        Clients(replicas[0].port) as clients,
        writing(replicas[0].direct) as turn,
    ):
        reader = await clients.follow(path_of(replicas[0]), headers)
        events = [await anext(events_of(reader)) for _ in range(2)]
        replicas[0].call(stopped(replicas[0].app))
        events += [event async for event in events_of(reader)]
        assert "end" not in {event.kind for event in events}
        await turn.store({"role": "assistant", "content": turn.text})
        last = f"last-event-id: {events[-1].id}\r\n"
        rest = await read(clients, path_of(replicas[1]), headers + last)
        assert [event.kind for event in rest] == ["end"]
