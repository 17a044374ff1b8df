"""Limits: how much each asker may ask, and that nobody pays for another."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from servers.issuer import Issuer

import stateward
from service.conftest import Served
from service.test_door import append, thread
from service.test_tokens import awaited, trusting
from stateward import sync
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.ops import Entity, Fetch
from stateward.server import RateSettings, rates
from stateward.server.asker import Asker, Rate
from stateward.server.problems import Refusal
from stateward.server.rates import Rates
from stateward.wire import EXECUTE, STORE, WAIT, ExecuteBody, WaitBody
from stateward.world import World

Serve = Callable[..., Served]
SLOW = 0.001  # requests a second: none comes back while a test runs


class Clock(World):
    """A world whose time passes when it is told to."""

    at = 100.0

    def monotonic(self) -> float:
        return self.at


def taken(bucket: Rates, asker: Asker, most: int = 100) -> int:
    """How many requests are let in."""
    for count in range(most):
        try:
            bucket.take(asker)
        except Refusal:
            return count
    return most


def test_a_bucket_fills_with_time_and_no_further() -> None:
    clock = Clock()
    bucket = Rates(RateSettings(rate=2.0, burst=5), clock)
    ada, bob = Asker("ada", "read"), Asker("bob", "read")
    assert taken(bucket, ada) == 5
    assert taken(bucket, bob) == 5, "it is another's"
    clock.at += 0.5
    assert taken(bucket, ada) == 1
    clock.at += 0.4
    with pytest.raises(Refusal) as refused:
        bucket.take(ada)
    assert refused.value.headers["retry-after"] == "1"
    clock.at += 0.1
    assert taken(bucket, ada) == 1
    clock.at += 3600
    assert taken(bucket, ada) == 5
    slow = Asker("slow", "read", rate=Rate(0.1, 1))
    assert taken(bucket, slow) == 1, "a key's own counts"
    with pytest.raises(Refusal) as refused:
        bucket.take(slow)
    assert refused.value.headers["retry-after"] == "10"
    assert taken(bucket, Asker("ada", "read", by_token=True)) == 5, "no subject is a key"
    assert taken(Rates(RateSettings(), clock), ada) == 100


def test_askers_that_are_many_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MOST_BUCKETS", 10)
    bucket = Rates(RateSettings(rate=SLOW, burst=2), Clock())
    busy = Asker("busy", "read")
    bucket.take(busy)
    for number in range(5):
        bucket.take(Asker(f"{number}", "read"))
    bucket.take(busy)
    for number in range(8):
        bucket.take(Asker(f"more-{number}", "read"))
    assert len(bucket._buckets) == 10
    assert taken(bucket, busy) == 0, "whoever asks most is not forgotten first"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0},
        {"rate": -1},
        {"rate": float("nan")},
        {"burst": 5},
        {"rate": 1, "burst": 0},
        {"streams": 0},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        RateSettings(**wrong)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    made.add("one")
    yield made
    made.close()


def test_too_many_requests_of_one_are_refused_and_others_are_served(
    serve: Serve, issuer: Issuer
) -> None:
    served = serve(rates=RateSettings(rate=SLOW, burst=3), jwt=trusting(issuer))
    key, other = served.key(), served.key(rate=SLOW, burst=5)
    ada, bob = issuer.token(), issuer.token(sub="bob")
    for secret, most in ((key, 3), (other, 5), (ada, 3), (bob, 3)):
        for _ in range(most):
            assert served.ask("GET", "/v1/key", key=secret).status == 200
        for method, path, body in (
            ("GET", STORE, None),
            ("POST", EXECUTE, ExecuteBody((append(thread()),))),
            ("GET", "/v1/threads", None),
            ("GET", "/nowhere", None),
        ):
            told = served.ask(method, path, body, secret)
            assert (told.status, told.problem["title"]) == (429, "Too many requests")
            assert int(told.headers["retry-after"]) >= 1
    assert served.ask("GET", STORE, key=issuer.token(jti="new")).status == 429, "the same subject"
    assert served.ask("GET", "/live").status == 200
    with sync.open(served.direct, heartbeat=None) as store:
        assert list(store.threads()) == []


async def test_an_agent_over_its_limit_knows_that_nothing_was_done(serve: Serve) -> None:
    served = serve(rates=RateSettings(rate=SLOW, burst=3))
    key = served.key()
    while served.ask("GET", STORE, key=key).status == 200:
        pass
    policy = stateward.Policy(threads="raise", write_timeout=0.5, breaker_failures=100)
    url = served.url_with(key)
    async with stateward.open(url, heartbeat=None, spill=False, policy=policy) as store:
        with pytest.raises(StoreUnavailable, match="requests per second") as refused:
            await store.thread("t").append({"n": 1})
    assert refused.value.applied == "no"


def test_streams_of_one_are_counted_and_given_back(serve: Serve) -> None:
    served = serve(rates=RateSettings(streams=2))
    key, other = served.key(), served.key()
    assert served.ask("GET", STORE, key=key).status == 200  # the store is open now
    for_news = WaitBody(((thread(), 0),), 30.0)
    waiting = threading.Thread(target=served.ask, args=("POST", WAIT, for_news, key))
    waiting.start()
    counted = served.app._door.rates._open
    awaited(lambda: sum(counted.values()) == 1)
    with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)) as connection:
        path = f"/{served.url.rsplit('/', 1)[1]}/v1/changes?follow=true"
        connection.request("GET", path, headers={"authorization": f"Bearer {key}"})
        with connection.getresponse() as answer:
            assert answer.status == 200
            for method, path, body in (("POST", WAIT, for_news), ("GET", "/v1/changes", None)):
                told = served.ask(method, path, body, key)
                assert (told.status, told.problem["title"]) == (429, "Too many requests")
                assert told.headers["retry-after"]
            assert served.ask("GET", STORE, key=key).status == 200
            at_once = WaitBody(((thread(), 0),), 0.0)
            assert served.ask("POST", WAIT, at_once, other).status == 204, "it is another's"
    awaited(lambda: sum(counted.values()) == 1)
    assert served.ask("POST", EXECUTE, ExecuteBody((append(thread()),)), other).status == 200
    waiting.join(60)
    awaited(lambda: not counted)


def test_a_batch_counts_as_its_operations(serve: Serve) -> None:
    served = serve(rates=RateSettings(rate=SLOW, burst=10))
    agent, device = served.key(), served.key(user="ada")
    reads = ExecuteBody((Fetch(thread()),) * 100)
    assert served.ask("POST", EXECUTE, reads, agent).status == 200
    told = served.ask("GET", "/v1/key", key=agent)
    assert told.status == 429
    assert float(told.headers["retry-after"]) * SLOW >= 90, "the others are owed"
    assert served.ask("POST", EXECUTE, reads, device).status == 429
    assert served.ask("GET", "/v1/key", key=device).status == 200, "nothing was owed"


def test_an_answer_of_a_long_batch_is_bounded(serve: Serve) -> None:
    served = serve(largest_body=1 << 16)
    key = served.key()
    with sync.open(served.direct, heartbeat=None) as store:
        store.user("ada").put({"text": "x" * 1000}, "d")
    read = Fetch(Entity("default", "user", "ada"), documents=("d",))
    for count, status in ((100, 200), (300, 413)):
        told = served.ask("POST", EXECUTE, ExecuteBody((read,) * count), key)
        assert told.status == status
    assert "several batches" in told.problem["detail"]
    assert served.ask("POST", EXECUTE, ExecuteBody((Fetch(thread()),) * 300), key).status == 200


def test_a_long_batch_that_fails_after_commits_says_that_they_may_be_applied(serve: Serve) -> None:
    served = serve(largest_body=1 << 16)
    key = served.key()
    with sync.open(served.direct, heartbeat=None) as store:
        store.user("ada").put({"text": "x" * 1000}, "d")
        read = Fetch(Entity("default", "user", "ada"), documents=("d",))
        for id, status, last in (
            ("out-of-bounds", 400, Fetch(Entity("default", "thread", ""))),
            ("not-permitted", 403, Fetch(Entity("another", "thread", "t"))),
            ("too-large", 503, read),
        ):
            entity = Entity("default", "thread", id)
            ops = (append(entity), *(read,) * 298, last)
            problem = served.ask("POST", EXECUTE, ExecuteBody(ops), key).problem
            assert problem["status"] == status
            assert problem.get("applied") == ("unknown" if status == 503 else None)
            is_applied = bool(list(store.thread(id).load().messages))
            assert is_applied == (status == 503), id


def test_bodies_that_never_end_are_limited_by_key(serve: Serve) -> None:
    served = serve(largest_body=1 << 20)
    path = f"/{served.url.rsplit('/', 1)[1]}"
    key, other = served.key(), served.key()
    head = (
        f"POST {path}{{}} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {{}}\r\n"
        "content-type: application/json\r\ncontent-length: 900000\r\n\r\n"
    )
    with ExitStack() as open_:

        def begun(where: str, secret: str) -> socket.socket:
            connected = socket.create_connection(("127.0.0.1", served.port), timeout=30)
            open_.enter_context(connected)
            connected.sendall(head.format(where, secret).encode() + b" " * 800_000)
            return connected

        begun("/v1/execute", key)
        awaited(lambda: served.app._arriving._of.total() == 800_000)
        for where in ("/v1/execute", "/v1/threads/t/messages", "/mcp"):
            assert b" 429 " in begun(where, key).recv(100)
        begun("/v1/execute", other)
        awaited(lambda: served.app._arriving._of.total() == 1_600_000)
    awaited(lambda: served.app._arriving._of.total() == 0)
