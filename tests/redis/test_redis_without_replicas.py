"""A primary that has lost its replicas, as after any failover of a pair, with `wait_replicas=1`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from servers.redis import RedisServer, running
from servers.service import running_service

import stateward
import stateward.sync
from stateward.engines.redis.describe import SILENT, description_of
from stateward.errors import NotReplicated
from stateward.server import app

WAITING = "wait_replicas=1&timeout=0.2"  # half of which the replica that is missing has


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def texts(window: Any) -> list[str]:
    return [message["content"] for message in window.messages]


@pytest.fixture
def url(valkey: RedisServer) -> str:
    return f"{valkey.url}?{WAITING}"


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> str:
    return request.node.name


@pytest.fixture
def served(url: str, namespace: str) -> Iterator[str]:
    with running_service() as service:
        store = stateward.open(url, namespace=namespace)
        yield service.mount("state", lambda: app(store, insecure_local=True))
        service.unmount("state", store.close)


async def check_writes(store: stateward.Store) -> None:
    thread = store.thread("s-1", user="u-1")
    for number in range(3):
        appended = await thread.append(say(f"{number}"))
        assert (appended.status, appended.version) == ("unreplicated", number + 1)
    assert texts(await thread.load()) == ["0", "1", "2"]
    again = [(await thread.append(say("3"), key="k")).status for _ in range(2)]
    assert again == ["unreplicated", "duplicate"]
    with pytest.raises(stateward.KeyReusedError):
        await thread.append(say("other"), key="k")
    with pytest.raises(NotReplicated, match="stored on the primary"):
        await thread.append(say("4"), expect=4)
    with pytest.raises(NotReplicated):
        await store.user("u-1").put({"tea": "green"})
    assert (await store.user("u-1").get()).value == {"tea": "green"}
    for _ in range(2):  # it is released, so that the next caller need not wait for its ttl
        with pytest.raises(NotReplicated):
            async with store.lock("door", ttl=60, wait=20):
                raise AssertionError("after a failover another process might have it as well")
    for asked in (True, False):  # a request is answered, and its redelivery recognised
        async with thread.turn(key="request", last=10) as turn:
            assert turn.known
            assert (turn.answer is None) == asked
            if asked:
                assert (await turn.store(say("5"))).status == "unreplicated"
    assert texts(await thread.load()) == ["0", "1", "2", "3", "4", "5"]


async def check_health(store: stateward.Store) -> None:
    health = await store.health()
    assert (health.ok, health.answers) == (False, True)
    assert "has 0 working replicas" in str(health.error)
    assert (health.breaker, health.spill_depth) == ("closed", 0)


async def test_what_is_stored_is_not_called_lost_and_all_goes_on(url: str, namespace: str) -> None:
    async with stateward.open(url, namespace=namespace) as store:
        await check_writes(store)
        await check_health(store)


async def test_clients_of_a_service_get_the_same_answers(served: str, namespace: str) -> None:
    async with stateward.open(served, namespace=namespace) as store:
        await check_writes(store)
        await check_health(store)


def test_blocking_callers_get_the_same_answers(url: str, namespace: str) -> None:
    with stateward.sync.open(url, namespace=namespace) as store:
        thread = store.thread("s-1", user="u-1")
        assert thread.append(say("one")).status == "unreplicated"
        with pytest.raises(NotReplicated):
            store.user("u-1").put({"tea": "green"})
        with pytest.raises(NotReplicated), store.lock("door", ttl=60):
            pass
        assert texts(thread.load()) == ["one"]
        assert not store.health().ok


async def test_a_policy_that_raises_is_heeded_by_plain_appends(url: str, namespace: str) -> None:
    policy = stateward.Policy(threads="raise")
    async with stateward.open(url, namespace=namespace, policy=policy) as store:
        with pytest.raises(NotReplicated):
            await store.thread("s-1").append(say("one"))
        assert texts(await store.thread("s-1").load()) == ["one"]


async def test_callers_of_one_batch_are_told_apart(url: str, namespace: str) -> None:
    """One refused append among many that are stored."""
    async with stateward.open(url, namespace=namespace) as store:
        await store.thread("reused").append(say("first"), key="k")

        async def one(id: str, text: str) -> str:
            try:
                return (await store.thread(id).append(say(text), key="k")).status
            except stateward.KeyReusedError:
                return "refused"

        asked = [one(f"t{n}", "it") for n in range(20)]
        answers = await asyncio.gather(*asked[:10], one("reused", "other"), *asked[10:])
        assert sorted(answers) == ["refused", *["unreplicated"] * 20]


@asynccontextmanager
async def unwritable(folder: Path) -> AsyncIterator[stateward.Store]:
    """A server that answers reads and takes no writes, with one conversation that has a turn."""
    settings = ("--appendonly", "no", "--min-replicas-max-lag", "10")
    with running(folder / "server", "valkey", *settings) as server:
        async with stateward.open(server.url, spill=folder / "spill") as store:
            await store.thread("s-1").append(say("one"))
            assert server.ask("CONFIG", "SET", "min-replicas-to-write", "1") == b"+OK\r\n"
            yield store
            assert server.ask("CONFIG", "SET", "min-replicas-to-write", "0") == b"+OK\r\n"
            async with asyncio.timeout(20):
                while texts(await store.thread("s-1").load()) != ["one", "two"]:
                    pass  # the next look replays it, or the background has


async def test_reads_do_not_fail_because_of_turns_that_cannot_be_stored(tmp_path: Path) -> None:
    async with unwritable(tmp_path) as store:
        thread = store.thread("s-1")
        assert (await thread.append(say("two"))).status == "spilled"
        for _ in range(3):
            assert texts(await thread.load()) == ["one"]


def test_replicas_that_are_not_in_step_do_not_count() -> None:
    def health_of(*replicas: str) -> str | None:
        lines = {f"slave{n}": f"ip=x,port=1,{line}" for n, line in enumerate(replicas)}
        return description_of({"one": {"connected_slaves": f"{len(lines)}", **lines}}, 1).problem

    assert health_of("state=online,offset=1,lag=1") is None
    for silent in ("state=wait_bgsave,offset=0,lag=0", f"state=online,offset=1,lag={SILENT + 1}"):
        assert "one has 0 working" in str(health_of(silent))
        assert health_of(silent, "state=online,offset=1,lag=0") is None
