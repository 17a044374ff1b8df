"""Faults on the way to servers that name each other, or that prove who they are."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from servers.postgres import PostgresServer
from servers.proxy import Proxy, TlsProxy, client_tls, server_tls
from servers.redis import RedisServer, running
from servers.redis_cluster import RedisCluster, running_sentinels

from audit.auditing import answer, judged, recorded, small
from stateward.audit.conductor import Audit
from stateward.audit.faults.link import LABELS, LinkFault
from stateward.audit.faults.link import Proxy as LinkProxy
from stateward.audit.faults.route import Route
from stateward.audit.record import Record
from stateward.audit.report import BAD
from stateward.audit.targets.custom import CustomTarget
from stateward.audit.targets.store import StoreTarget
from stateward.audit.targets.target import AuditTarget


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """Three primaries and their replicas."""
    settings = ("--appendonly", "yes", "--appendfsync", "always")
    found = RedisCluster(tmp_path_factory.mktemp("cluster"), "valkey", *settings)
    try:
        yield found.start()
    finally:
        found.stop()


def refused(record: Record) -> None:
    """Calls met the fault, and nothing was lost by it."""
    assert record.problems == {}
    assert record.outages is not None
    met, *killed = record.outages  # none if the replica had accepted nothing when it was killed
    assert [each.fault for each in killed] in ([], [f"{met.fault}, and the replica is killed"])
    assert all(set(each.accepted) <= set(each.found) for each in killed)
    assert (met.fault, met.fired) == (LABELS["refuse"], True)
    assert ("append", "kept") in {(each.what, each.outcome) for each in met.tried}
    assert ("read", "error") in {(each.what, each.outcome) for each in met.tried}
    assert all(each.typed for each in met.tried)
    assert set(met.accepted) <= set(met.found)


def test_all_nodes_of_a_cluster_are_cut_off_at_once_and_the_alarm_comes(
    cluster: RedisCluster,
) -> None:
    record = recorded(small(cluster.url, "outage", "monitoring", faults=("refuse",)))
    route = asyncio.run(StoreTarget(cluster.url, "n", "/").route())
    assert isinstance(route, Route)
    assert {port for _, port in route.addresses} == {node.port for node in cluster.nodes}
    refused(record)
    assert answer(judged(record), "monitoring").verdict == "pass"


def test_a_cluster_passes_what_is_asked_of_every_store(cluster: RedisCluster) -> None:
    asked = ("sessions", "sharing", "races", "updates", "settings")
    record = recorded(small(cluster.url, *asked))
    report = judged(record)
    assert {a.id: a.summary for a in report.answers if a.verdict in (*BAD, "unknown")} == {}
    assert record.settings is not None
    assert record.settings.values["primaries"] == 3


@pytest.mark.soak
def test_a_cluster_passes_as_a_whole(cluster: RedisCluster) -> None:
    report = judged(recorded(small(cluster.url)))
    assert {a.id: a.summary for a in report.answers if a.verdict in BAD} == {}


def test_the_primary_is_cut_off_and_its_sentinels_with_it(tmp_path: Path) -> None:
    with running_sentinels(tmp_path) as sentinels:
        refused(recorded(small(sentinels.url, "outage", faults=("refuse",))))


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[RedisServer]:
    with running(tmp_path) as server:
        yield server


async def test_a_redis_with_tls_is_cut_off_by_its_own_name(valkey: RedisServer) -> None:
    async with Proxy(valkey.port, server_tls()) as tls:
        url = f"rediss://localhost:{tls.port}?{urlencode(client_tls())}"
        refused(await Audit(small(url, "outage", faults=("refuse",)), lambda _: None).run())


DETOUR = """
import asyncio, logging, sys
import stateward, stateward.sync
from stateward.audit.faults import reroute

logging.disable()
RAISE = stateward.Policy(threads="raise")

async def asynchronous(url):
    async with stateward.open(url, policy=RAISE) as store:
        await store.thread("t").append({"n": 1})

def blocking(url):
    with stateward.sync.open(url, policy=RAISE) as store:
        store.thread("t").append({"n": 1})

async def main(url, port):
    reroute.take({"localhost:1": port, "elsewhere:1": port})
    for host in ("localhost", "elsewhere"):
        there = url.replace("HOST", host)
        for attempt in (asynchronous(there), asyncio.to_thread(blocking, there)):
            try:
                await attempt
                print(host, "answers")
            except stateward.StoreUnavailable as error:
                print(host, "Hostname mismatch" in str(error))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


async def test_a_connection_that_is_led_aside_still_verifies_the_name_it_was_meant_for(
    valkey: RedisServer,
) -> None:
    """Port 1 answers nobody, so who is answered was led aside."""
    async with Proxy(valkey.port, server_tls()) as tls:
        said = await asyncio.to_thread(
            subprocess.run,
            [
                *(sys.executable, "-c", DETOUR),
                f"rediss://HOST:1?{urlencode(client_tls())}",
                str(tls.port),
            ],
            capture_output=True,
            text=True,
        )
    assert said.stderr == ""
    assert said.stdout.splitlines() == [
        *("localhost answers", "localhost answers"),
        *("elsewhere True", "elsewhere True"),
    ]


def change(url: str, ports: list[int]) -> tuple[list[tuple[str, int]], str]:
    route = asyncio.run(StoreTarget(url, "n", "/").route())
    assert isinstance(route, Route)
    return route.addresses, route.change(ports)["name"]


def test_a_postgresql_is_told_another_address_and_keeps_its_name() -> None:
    url = "postgresql://me:p%40ss@db.example:5433/agents?sslmode=verify-full&schema=s"
    assert change(url, [7]) == (
        [("db.example", 5433)],
        "postgresql://me:p%40ss@/agents?sslmode=verify-full&schema=s"
        "&host=db.example&hostaddr=127.0.0.1&port=7",
    )
    assert change("postgres://a,b:1/agents", [7, 8]) == (
        [("a", 5432), ("b", 1)],
        "postgres:///agents?host=a%2Cb&hostaddr=127.0.0.1%2C127.0.0.1&port=7%2C8",
    )
    assert change("postgresql:///?host=a&port=3&hostaddr=10.0.0.1", [7])[0] == [("10.0.0.1", 3)]


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (StoreTarget("unix:///run/redis.sock", "n", "/"), "not reached by TCP"),
        (StoreTarget("postgresql:///agents", "n", "/"), "not reached by TCP"),
        (StoreTarget("postgresql:///agents?host=/run", "n", "/"), "not reached by TCP"),
        (StoreTarget("postgresql:///?service=agents", "n", "/"), "not by an address in its URL"),
        (StoreTarget("memory://", "n", "/"), "memory://"),
        (CustomTarget("a:b", "n", "/"), "--url"),
        (CustomTarget("a:b", "n", "/", url="mysql://a"), "mysql"),
        (CustomTarget("a:b", "n", "/", url="redis://a,b"), "several servers"),
        (CustomTarget("a:b", "n", "/", url="postgresql://a?sslmode=verify-full"), "verified"),
        (StoreTarget("redis+cluster://127.0.0.1:1", "n", "/"), "could not be found"),
    ],
)
def test_where_no_proxy_can_be_put_the_reason_is_said(target: AuditTarget, why: str) -> None:
    said = asyncio.run(target.route())
    assert isinstance(said, str)
    assert why in said


async def test_a_postgresql_with_verified_tls_is_cut_off(tmp_path: Path) -> None:
    files = client_tls()
    key = tmp_path / "client.key"
    shutil.copy(files["key"], key)
    key.chmod(0o600)  # the driver refuses one that others can read
    query = urlencode(
        {
            "sslmode": "verify-full",
            "sslrootcert": files["ca"],
            "sslcert": files["cert"],
            "sslkey": str(key),
        }
    )
    server = PostgresServer().start()
    try:
        async with TlsProxy(server.port, server_tls()) as tls:
            url = f"postgresql://postgres@localhost:{tls.port}/postgres?{query}"
            refused(await Audit(small(url, "outage", faults=("refuse",)), lambda _: None).run())
    finally:
        server.remove()


def test_a_store_that_needs_one_connection_has_met_the_end_of_all_others(tmp_path: Path) -> None:
    """Nobody asked for another one; that is an answer, not the lack of one."""
    server = PostgresServer().start()
    try:
        record = recorded(small(f"{server.url}?pool=2", "outage", faults=("exhaust",)))
    finally:
        server.remove()
    assert record.outages is not None
    assert [(met.fault, met.fired) for met in record.outages] == [(LABELS["exhaust"], True)]
    assert answer(judged(record), "outage").verdict in ("pass", "warn")


async def test_nothing_is_known_of_a_way_that_nobody_took(valkey: RedisServer) -> None:
    proxy = LinkProxy([("127.0.0.1", valkey.port)])
    await proxy.open()
    for connected in (False, True):
        fault = LinkFault(proxy, "exhaust", {})
        if connected:
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.ports[0])
            writer.write(b"PING\r\n")
            assert await reader.readline() == b"+PONG\r\n"
        await fault.begin(None)
        assert fault.fired([]) is False
        assert fault.fired(["a call"]) is connected
        await fault.end(None)
    writer.close()
    await proxy.close()
