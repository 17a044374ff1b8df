"""`stateward serve` as a process: it starts, is killed, stops when it is told to."""

from __future__ import annotations

import asyncio
import getpass
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from servers.issuer import AUDIENCE, Issuer
from servers.ports import free_port

import stateward
from stateward import sync
from stateward.server.asker import OWN_NAMESPACE

PATIENCE = 60.0
EXAMPLE = Path(__file__).parents[2] / "deploy" / "serve.toml"
TLS = Path(__file__).parent.parent / "servers" / "tls"
PATIENT = stateward.Policy(read_timeout=60.0, write_timeout=60.0, breaker_failures=10_000)


class Process:
    """One `stateward serve`."""

    def __init__(self, *options: str) -> None:
        self._errors = TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stateward", "serve", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.complaints()
        self.url: str = json.loads(line)["url"]

    def complaints(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Process]]:
    """Starts services, and ends by its id each one that the test has left behind."""
    started: list[Process] = []

    def start(*options: str) -> Process:
        process = Process(*options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.end()


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stateward", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={name: value for name, value in os.environ.items() if name != "STATEWARD_URL"},
    )


async def test_a_stopped_service_finishes_what_is_under_way(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    """Appends before the stop are acknowledged or fail; a wait of minutes does not delay it."""
    url = f"sqlite:///{tmp_path}/agents.db"
    process = serve(url, "--port", "0", "--insecure-local")
    acknowledged: list[int] = []
    options: dict[str, Any] = {"spill": False, "heartbeat": None}
    policy = stateward.Policy(threads="raise", write_timeout=5.0, breaker_failures=1)
    async with asyncio.timeout(PATIENCE):
        async with stateward.open(process.url, policy=policy, **options) as store:
            engine = store.sections.stacks[0].engine
            await store.thread("t").append({"n": 0})
            waiting = asyncio.create_task(
                engine.wait({store.thread("never").handle.entity: 0}, 600.0)
            )

            async def append() -> None:
                for number in range(1, 1_000_000):
                    await store.thread("t").append({"n": number})
                    acknowledged.append(number)

            appending = asyncio.create_task(append())
            while len(acknowledged) < 20:
                await store.thread("t").load(last=1)
            assert await asyncio.to_thread(process.stop) == 0, process.complaints()
            with pytest.raises(stateward.StoreUnavailable):
                await appending
            await asyncio.wait([waiting])
            waiting.exception()
    assert process.complaints() == ""
    async with stateward.open(url, **options) as store:
        stored = [message["n"] for message in (await store.thread("t").load()).messages]
    assert stored == list(range(len(stored)))
    assert len(stored) - 1 - len(acknowledged) in (0, 1)


def test_a_stopped_service_ends_streams_and_they_go_on_from_their_cursors(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    """Properly, and whoever comes back with the last id misses and repeats nothing."""
    url = f"sqlite:///{tmp_path}/agents.db"
    seen: list[int] = []
    cursor = ""
    for life in range(2):
        process = serve(url, "--port", "0", "--insecure-local")
        connection = http.client.HTTPConnection(process.url[7:], timeout=PATIENCE)
        quiet = http.client.HTTPConnection(process.url[7:], timeout=PATIENCE)
        with closing(connection), closing(quiet), sync.open(process.url, heartbeat=None) as store:
            thread = store.thread("t")
            thread.append({"n": 3 * life}, {"n": 3 * life + 1})
            quiet.request("GET", "/v1/threads/nobodys/changes?follow=true")
            resume = {"last-event-id": cursor} if cursor else {}
            connection.request("GET", "/v1/threads/t/changes?follow=true", headers=resume)
            stream, silent = connection.getresponse(), quiet.getresponse()
            assert (stream.status, silent.status) == (200, 200)
            while not seen or seen[-1] < 3 * life + 1:
                cursor = next_event(stream, seen) or cursor
            process.process.send_signal(signal.SIGTERM)
            while (id := next_event(stream, seen)) is not None:
                cursor = id
            assert b"data:" not in silent.read(), "both ended as they should, or this raises"
            assert process.process.wait(PATIENCE) == 0
        assert process.complaints() == ""
        with sync.open(url, heartbeat=None) as store:
            store.thread("t").append({"n": 3 * life + 2})  # while nobody serves it
    assert seen == list(range(5))


def test_a_stream_that_has_an_end_comes_to_it_though_the_service_stops(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    many = 200  # of 64 KB: more than sockets hold
    with sync.open(url, heartbeat=None) as store:
        store.thread("t").append(*({"n": n, "text": "x" * 65_536} for n in range(many)))
    process = serve(url, "--port", "0", "--insecure-local")
    connection = http.client.HTTPConnection(process.url[7:], timeout=PATIENCE)
    with closing(connection):
        connection.request("GET", "/v1/threads/t/changes?follow=false")
        stream, seen = connection.getresponse(), list[int]()
        assert next_event(stream, seen) is not None
        process.process.send_signal(signal.SIGTERM)
        while next_event(stream, seen) is not None:
            pass
    assert process.process.wait(PATIENCE) == 0
    assert seen == list(range(many)), "its reader takes the end of a stream for the last event"


def next_event(stream: http.client.HTTPResponse, seen: list[int]) -> str | None:
    """The id of the next event, whose number goes to those seen; None: the stream has ended."""
    id = None
    while line := stream.readline().decode():
        if line.startswith("id: "):
            id = line[4:].strip()
        elif line.startswith("data: "):
            seen.append(json.loads(line[6:])["message"]["n"])
        elif line == "\n" and id is not None:
            return id
    return None


async def kill_again_and_again(
    serve: Callable[..., Process], path: Path, kills: int, clients: int
) -> None:
    """Clients append while the service is killed: each turn is there once, and in order."""
    url, port = f"sqlite:///{path}", str(free_port())
    process = serve(url, "--port", port, "--insecure-local")
    done = asyncio.Event()
    told = [0] * clients
    options: dict[str, Any] = {"policy": PATIENT, "spill": False, "heartbeat": None}
    async with stateward.open(process.url, **options) as store:

        async def talk(number: int) -> None:
            thread = store.thread(f"t-{number}")
            while not done.is_set():
                await thread.append({"n": told[number]})
                told[number] += 1

        async with asyncio.TaskGroup() as tasks:
            for number in range(clients):
                tasks.create_task(talk(number))
            for _ in range(kills):
                before = sum(told)
                async with asyncio.timeout(PATIENCE):
                    while sum(told) < before + clients:
                        await store.thread("t-0").load(last=1)
                process.process.kill()
                await asyncio.to_thread(process.process.wait, PATIENCE)
                process = await asyncio.to_thread(serve, url, "--port", port, "--insecure-local")
            done.set()
    async with stateward.open(url, heartbeat=None) as store:
        for number in range(clients):
            window = await store.thread(f"t-{number}").load()
            assert [message["n"] for message in window.messages] == list(range(told[number]))
    assert sum(told) > kills * clients
    print(
        f"{kills} kills under {clients} clients: {sum(told):,} turns acknowledged, each there once"
    )


async def test_a_killed_service_loses_and_doubles_nothing(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    await kill_again_and_again(serve, tmp_path / "agents.db", kills=3, clients=10)


@pytest.mark.soak
async def test_a_service_that_is_killed_300_times(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    await kill_again_and_again(serve, tmp_path / "agents.db", kills=300, clients=50)


def test_keys_are_made_listed_used_and_revoked(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    assert command("key", "list", url).returncode == 1, "a typing error makes no store"
    assert command("migrate", url).returncode == 0
    assert "no keys" in command("key", "list", url).stdout
    words = (
        "--namespace",
        "shop",
        "--note",
        "support",
        "--days",
        "1",
        "--by",
        "ada",
        "--rate",
        "9",
    )
    made = command("key", "create", url, *words, "--by", "ada", "--rate", "5000")
    assert (made.returncode, made.stderr) == (0, "")
    key = made.stdout.strip()
    listed = json.loads(command("key", "list", url, "--json").stdout)["keys"]
    shown = ("namespaces", "note", "revoked", "rate")
    assert [[each[name] for name in shown] for each in listed] == [
        [["shop"], "support", None, 5000.0]
    ]
    secret = key.split(".")[2]
    shown = command("key", "list", url).stdout
    assert "shop" in shown
    assert secret not in shown + json.dumps(listed)
    assert secret.encode() not in (tmp_path / "agents.db").read_bytes()
    cert, private = str(TLS / "server.pem"), str(TLS / "server.key")
    process = serve(url, "--port", "0", "--tls-cert", cert, "--tls-key", private)
    assert process.url.startswith("https://127.0.0.1:")
    safe = f"{process.url.replace('https://', f'https://{key}@')}?ca={TLS / 'ca.pem'}"
    with sync.open(safe, namespace="shop", heartbeat=None) as store:
        store.thread("t").append({"n": 1})
    revoked = command("key", "revoke", url, "--id", listed[0]["id"], "--by", "bob")
    assert (revoked.returncode, revoked.stderr) == (0, "")
    with sync.open(url, namespace=OWN_NAMESPACE, heartbeat=None) as store:
        entries = list(store.operations.entries())
        account = f"{getpass.getuser()}@{socket.gethostname()}"
        assert [(each.who, each.what, each.outcome) for each in entries] == [
            (f"{account} (says: {who})", f"key {what}", outcome)
            for who, what in (("ada", "create"), ("bob", "revoke"))
            for outcome in ("intended", "done")
        ]
        assert {each.target for each in entries} == {f"api-key/{listed[0]['id']}"}
        assert entries[0].detail == {"scope": "write", "one_user": False, "namespaces": ["shop"]}
        assert not store.operations.verify().problems
    policy = stateward.Policy(read_timeout=10.0)
    refused = pytest.raises(stateward.AccessRefused)
    with refused, sync.open(safe, namespace="shop", heartbeat=None, policy=policy) as store:
        for _ in range(2_000):  # it is known for a few seconds still
            store.thread("t").load()
            store.sections["threads"].world.block(0.01)
    assert process.stop(signal.SIGINT) == 0
    assert "[ended_key_used]" in process.complaints()
    assert secret not in process.complaints()


def test_clients_without_a_certificate_are_not_let_in(
    serve: Callable[..., Process], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    assert command("migrate", url).returncode == 0
    key = command("key", "create", url, "--namespace", "default").stdout.strip()
    tls = ("--tls-cert", str(TLS / "server.pem"), "--tls-key", str(TLS / "server.key"))
    process = serve(url, "--port", "0", *tls, "--tls-ca", str(TLS / "ca.pem"))
    safe = f"{process.url.replace('https://', f'https://{key}@')}?ca={TLS / 'ca.pem'}"
    own = f"&cert={TLS / 'client.pem'}&key={TLS / 'client.key'}"
    with sync.open(safe + own, heartbeat=None) as store:
        store.thread("t").append({"n": 1})
    policy = stateward.Policy(read_timeout=5.0)
    refused = pytest.raises(stateward.StoreUnavailable)
    with refused, sync.open(safe, heartbeat=None, spill=False, policy=policy) as store:
        store.thread("t").load()
    assert process.stop() == 0
    assert command("serve", url, "--tls-ca", str(TLS / "ca.pem")).returncode == 2


def test_the_example_of_a_file_is_served(
    serve: Callable[..., Process], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With tokens, limits, and an address of this test's own: the command line wins."""
    issuer = Issuer()
    issuer.add("one")
    monkeypatch.setenv("STATEWARD_URL", f"sqlite:///{tmp_path}/agents.db")
    options = ("--host", "127.0.0.1", "--port", "0", "--rate", "0.001", "--burst", "2")
    tokens = ("--jwks", issuer.url, "--audience", AUDIENCE)
    try:
        process = serve("--config", str(EXAMPLE), *options, *tokens)
        asked = partial(urllib.request.urlopen, timeout=PATIENCE)
        assert asked(f"{process.url}/live").status == 200
        endless = urllib.request.Request(f"{process.url}/live", headers={"x": "y" * 1_000_000})
        with pytest.raises((urllib.error.URLError, ConnectionError)) as cut_off:
            asked(endless)
        if isinstance(cut_off.value, urllib.error.HTTPError):  # else it was still sending
            assert cut_off.value.code == 431
            cut_off.value.close()
        bearer = {"authorization": f"Bearer {issuer.token()}"}
        request = urllib.request.Request(f"{process.url}/v1/threads", headers=bearer)
        for _ in range(2):
            with asked(request) as answer:
                assert json.load(answer)["items"] == []
        with pytest.raises(urllib.error.HTTPError) as refused:
            asked(request)
        assert refused.value.code == 429
        refused.value.close()
        assert process.stop() == 0
        assert "refused with 429" in process.complaints()
    finally:
        issuer.close()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("serve", "sqlite:///{}/a.db", "--host", "0.0.0.0", "--insecure-local"), 2, "--host"),
        (("serve", "sqlite:///{}/a.db", "--tls-cert", "x"), 2, "belong together"),
        (("serve", "sqlite:///{}/a.db", "--port", "99999"), 2, "port is from 0"),
        (("serve", "sqlite:///{}/a.db", "--host", "192.0.2.1"), 1, "cannot listen"),
        (("serve", "sqlite:///{}/nowhere/a.db", "--port", "0"), 2, "nowhere"),
        (("serve", "sqlite:///{}/a.db", "--config", "{}/nowhere.toml"), 2, "nowhere.toml"),
        (("serve", "sqlite:///{}/a.db", "--jwks", "https://x/keys"), 2, "--audience"),
        (("serve", "sqlite:///{}/a.db", "--jwks", "{}/no", "--audience", "a"), 2, "no file"),
        (("serve", "sqlite:///{}/a.db", "--rate", "0"), 2, "requests per second"),
        (("key", "create", "sqlite:///{}/b.db"), 2, "--all-namespaces"),
        (("key", "create", "sqlite:///{}/b.db", "--all-namespaces", "--rate", "0"), 2, "rate"),
        (("key", "create", "sqlite:///{}/b.db", "--all-namespaces", "--burst", "5"), 2, "--rate"),
        (("key", "revoke", "sqlite:///{}/b.db"), 2, "--id"),
        (("key", "revoke", "sqlite:///{}/b.db", "--id", "nope"), 2, "no key"),
        (("key", "explode", "sqlite:///{}/b.db"), 2, "ACTION"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    with sync.open(f"sqlite:///{tmp_path}/b.db", heartbeat=None) as store:
        store.health()
    ran = command(*(word.replace("{}", str(tmp_path)) for word in words))
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stderr
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert said in ran.stderr
