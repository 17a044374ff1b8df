"""Who may ask what: every route, every operation, and every way of not being entitled to it."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import stateward
from service.conftest import Served
from stateward import sync
from stateward.errors import AccessRefused, NotPermitted
from stateward.kinds import OPERATIONS
from stateward.observe.logs import JsonFormatter
from stateward.ops import (
    Append,
    Applied,
    Commit,
    Drop,
    Entity,
    Fetch,
    Fetched,
    Head,
    List,
    Listed,
    Log,
    Op,
    Put,
    Replace,
    Restore,
    SetHead,
    Sweep,
    Swept,
    Trim,
)
from stateward.server import keys
from stateward.server.asker import OWN_NAMESPACE
from stateward.server.head_limit import HeadLimit
from stateward.server.keys import key_entity
from stateward.wire import EXECUTE, JSON, MSGPACK, OUTCOMES, STORE, WAIT, ExecuteBody, WaitBody
from stateward.world import World

Serve = Callable[..., Served]
WORLD = World()
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER = "sw.AAAAAAAAAAAAAAAA.BBBBBBBBBBBBBBBBCCCCCCCCCCCCCCCC"


def thread(namespace: str = "default", id: str = "t") -> Entity:
    return Entity(namespace, "thread", id)


def append(entity: Entity, owner: str | None = None) -> Commit:
    return Commit(entity, WORLD.new_op(), (Append(('{"n":1}',)),), owner=owner)


BODIES: dict[str, Any] = {
    EXECUTE: ExecuteBody((Fetch(thread()),)),
    WAIT: WaitBody(((thread(), 5),), 0.0),
    STORE: None,
    "/metrics": None,
}


def execute(served: Served, key: str, *ops: Op) -> list[Any]:
    told = served.ask("POST", EXECUTE, ExecuteBody(ops), key)
    assert told.status == 200, told
    return OUTCOMES.decode(told.body, MSGPACK)


def refused(served: Served, key: str, *ops: Op) -> str:
    told = served.ask("POST", EXECUTE, ExecuteBody(ops), key)
    assert told.status == 403, told
    assert told.problem["error"] == "NotPermitted"
    detail: str = told.problem["detail"]
    return detail


# --- every route ------------------------------------------------------------------------


def test_no_route_answers_without_a_key_that_is_in_force(serve: Serve) -> None:
    served = serve()
    good = served.key("admin", None)
    expired = served.key("admin", None, lifetime=-1.0)
    near = good[:-1] + ("A" if good[-1] != "A" else "B")
    bad = [None, OTHER, "", "x", near, expired, good + "A", f"sw.{'x' * 500}.y", "sw..", "Bearer"]
    routes = [*served.app.routes, ("GET", "/nowhere"), ("GET", "/")]
    assert {path for _, path in routes} >= set(BODIES), "a route that is not tried here"
    for method, path in routes:
        for key in bad:
            told = served.ask(method, path, BODIES.get(path), key)
            assert told.status == 401, (method, path, key)
            assert told.headers["www-authenticate"] == "Bearer"
            assert told.problem["title"]
        if path in BODIES:
            assert served.ask(method, path, BODIES[path], good).status in (200, 204)
    basic = served.ask("GET", STORE, authorization=f"Basic {good}")
    assert basic.status == 401


def test_a_request_says_once_who_asks(serve: Serve) -> None:
    """Or a proxy could check one key, and the service take the other."""
    served = serve()
    twice = "".join(f"authorization: Bearer {key}\r\n" for key in (OTHER, served.key())).encode()
    for headers in (twice, twice.replace(b"authorization", b"Authorization", 1)):
        with raw(served, headers + b"content-length: 0\r\n") as (_, hear):
            assert b" 400 " in hear()


def test_live_answers_everybody_and_says_nothing(serve: Serve) -> None:
    told = serve().ask("GET", "/live")
    assert (told.status, told.body) == (200, b'{"live":true}')


def test_a_revoked_key_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "REMEMBERED_SECONDS", 0.2)
    served = serve()
    key = served.key()
    assert served.ask("GET", STORE, key=key).status == 200
    with sync.open(served.direct, heartbeat=None) as store:
        entity = key_entity(key.split(".")[1])
        store.sections["workflows"].execute([Commit(entity, WORLD.new_op(), (Drop(),))])
    end = time.monotonic() + 30
    while served.ask("GET", STORE, key=key).status == 200:
        assert time.monotonic() < end, "a revoked key must not be answered for long"
        time.sleep(0.05)
    assert served.ask("GET", STORE, key=key).status == 401


def test_what_is_not_there_and_not_with_this_method(serve: Serve) -> None:
    served = serve()
    key = served.key()
    for path in ("/", "/v1", "/v1/execute/", "/v1/../v1/execute", "//v1/execute", "/v1/%2e%2e"):
        assert served.ask("GET", path, key=key).status == 404, path
    told = served.ask("GET", EXECUTE, key=key)
    assert (told.status, told.headers["allow"]) == (405, "POST")


# --- every operation --------------------------------------------------------------------

OPS: dict[str, Callable[[str], Op]] = {
    "commit": lambda namespace: append(thread(namespace)),
    "drop": lambda namespace: Commit(thread(namespace), WORLD.new_op(), (Drop(),)),
    "fetch": lambda namespace: Fetch(thread(namespace), log=Log()),
    "list": lambda namespace: List(namespace, "thread"),
    "tally": lambda namespace: List(namespace, tally="owner"),
    "documents": lambda namespace: List("default", within=thread(namespace)),
    "restore": lambda namespace: Commit(
        thread(namespace), WORLD.new_op(), (Restore(Head(exists=True)),)
    ),
}


@pytest.mark.parametrize("name", OPS)
def test_no_operation_reaches_another_namespace(serve: Serve, name: str) -> None:
    served = serve()
    with sync.open(served.direct, namespace="theirs", heartbeat=None) as store:
        store.thread("t", user="u").append({"secret": "theirs"})
    for scope in ("write", "operate", "admin"):
        key = served.key(scope, ("default",))
        assert "theirs" in refused(served, key, OPS[name]("theirs"))
        # Nor does it in company, and its company is not done either.
        mine = append(thread(id=f"{name}-{scope}"))
        refused(served, key, mine, OPS[name]("theirs"))
        (seen,) = execute(served, key, Fetch(mine.entity))
        assert not seen.head.exists
    with sync.open(served.direct, namespace="theirs", heartbeat=None) as store:
        assert store.thread("t", user="u").load().messages == [{"secret": "theirs"}]


def test_a_scope_permits_what_it_says(serve: Serve) -> None:
    served = serve()
    restore = OPS["restore"]("default")
    needs = [(OPS["fetch"]("default"), 0), (OPS["list"]("default"), 0)]
    needs += [(append(thread()), 1), (restore, 2), (Sweep(), 1)]
    for level, scope in enumerate(("read", "write", "operate", "admin")):
        key = served.key(scope, None)
        for op, needed in needs:
            if isinstance(op, Commit):
                op = replace(op, op=WORLD.new_op())
            if level >= needed:
                execute(served, key, op)
            else:
                assert scope in refused(served, key, op)


@pytest.mark.parametrize("scope", ["write", "operate", "admin"])
def test_no_key_writes_or_removes_the_operations_log(serve: Serve, scope: str) -> None:
    served = serve()
    entity = Entity("default", OPERATIONS, OPERATIONS)
    with sync.open(served.direct, heartbeat=None) as store:
        store.operations.record("ops@host", "thread read", "thread", "t")
        check = store.operations.verify()
    for namespaces in (("default",), None):
        key = served.key(scope, namespaces)
        for write in (
            Drop(),
            Append(('{"who":"another"}',)),
            Trim(1),
            Replace({1: None}),
            Put("base", "1"),
            SetHead(retain=1.0),
            Restore(Head(exists=True)),
        ):
            commit = Commit(entity, WORLD.new_op(), (write,))
            assert "service alone" in refused(served, key, commit), write
    with sync.open(served.direct, heartbeat=None) as store:
        assert store.operations.verify(check.head) == replace(check, confirmed=1)


def test_what_an_operator_does_and_reads_by_operations_is_logged(serve: Serve) -> None:
    served = serve()
    agent, operator = served.key(), served.key("operate")
    execute(served, agent, append(thread(), "ada"))
    for _ in range(2):  # an hour's looks at the same are one
        execute(served, operator, Fetch(thread(), log=Log()))
    execute(served, operator, Commit(thread(), WORLD.new_op(), (Drop(),)))
    many = [append(thread(id=f"t{number}")) for number in range(20)]
    execute(served, operator, *many)
    refused(served, operator, append(thread("other")))
    with sync.open(served.direct, heartbeat=None) as store:
        entries = list(store.operations.entries())
        assert store.operations.verify().ok
    assert [(entry.what, entry.target) for entry in entries] == [
        ("operations read", "thread/t"),
        ("operations drop", "thread/t"),
        ("operations append", "thread/*"),
    ]
    assert entries[-1].detail["entities"] == 20
    assert {entry.who for entry in entries} == {f"key {operator.split('.')[1]}"}


def test_the_services_own_namespace_is_for_administrators_of_all(serve: Serve) -> None:
    served = serve()
    reading = List(OWN_NAMESPACE, "api-key", documents=("key",))
    for key in (served.key("operate", None), served.key("admin", (OWN_NAMESPACE,))):
        assert "administrators" in refused(served, key, reading)
        forged = Commit(key_entity("x"), WORLD.new_op(), (Put("key", "{}"),))
        refused(served, key, forged)
    (listed,) = execute(served, served.key("admin", None), reading)
    assert isinstance(listed, Listed)
    assert len(listed.entities) == 3


# --- one user's key ---------------------------------------------------------------------


def test_a_key_of_one_user_speaks_of_no_operations(serve: Serve) -> None:
    served = serve()
    with sync.open(served.direct, heartbeat=None) as store:
        store.thread("hers", user="u-her").append({"secret": "hers"})
        store.thread("mine", user="u-him").append({"n": 1})
    for scope in ("read", "write", "operate", "admin"):
        key = served.key(scope, ("default",), user="u-him")
        for op in (Fetch(thread(id="mine")), List("default", "thread"), Sweep()):
            assert "one user" in refused(served, key, op)
        assert served.ask("GET", STORE, key=key).status == 403
        absent, theirs = (
            served.ask("POST", WAIT, WaitBody(((thread(id=id), 0),), 0.0), key)
            for id in ("absent", "hers")
        )
        assert (absent.status, absent.body) == (403, theirs.body)
        mine = WaitBody(((thread(id="mine"), 0),), 0.0)
        assert served.ask("POST", WAIT, mine, key).status == 204


async def test_a_store_with_a_key_of_one_namespace_erases_a_user_there(serve: Serve) -> None:
    served = serve()
    url = served.url_with(served.key("write", ("default",)))
    async with stateward.open(url) as store:
        await store.thread("t", user="u-him").append({"n": 1})
        await store.user("u-him").put({"tea": True})
        receipt = await store.user("u-him").erase()
        assert receipt.removed == {"thread": 1, "user": 1}
        assert not (await store.thread("t", user="u-him").load()).exists


async def test_errors_say_what_the_key_lacks(serve: Serve) -> None:
    served = serve()
    reader = served.url_with(served.key("read"))
    async with stateward.open(reader, heartbeat=None) as store:
        with pytest.raises(NotPermitted, match="'read'"):
            await store.thread("t").append({"n": 1})
        assert (await store.thread("t").load()).messages == []
    with pytest.raises(AccessRefused, match="key"):
        async with stateward.open(served.url_with(OTHER), heartbeat=None):
            pass
    with pytest.raises(AccessRefused, match="key"):
        sync.open(served.url, heartbeat=None).__enter__()


# --- without a key, on this machine -----------------------------------------------------


def test_insecure_local_is_for_programs_on_this_machine(serve: Serve) -> None:
    served = serve(insecure_local=True)
    assert served.ask("GET", STORE).status == 200
    assert served.ask("GET", STORE, host="localhost:7878").status == 200
    own = {"host": "localhost:7878", "origin": "http://localhost:7878"}
    assert served.ask("GET", STORE, **own, sec_fetch_site="same-origin").status == 200
    for headers in (
        {"host": "evil.example"},
        {"host": "evil.example:7878"},
        {"origin": "http://127.0.0.1"},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": f"https://127.0.0.1:{served.port}"},
        {"origin": "http://evil.example:7878", "host": "evil.example:7878"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"x_forwarded_for": "203.0.113.9"},
        {"forwarded": "for=203.0.113.9"},
    ):
        assert served.ask("GET", STORE, **headers).status == 401, headers
    assert served.ask("GET", STORE, key=OTHER).status == 401, "a wrong key is wrong here too"


# --- bad input --------------------------------------------------------------------------


def deep(levels: int) -> bytes:
    """Arrays in arrays, in a field of an operation that nobody knows."""
    inner = b"\x91" * levels + b"\xc0"
    fetch = b"\x83\xa4type\xa5Fetch\xa6entity\x93\xa1a\xa1b\xa1c\xa1x" + inner
    return b"\x91\x91" + fetch


BAD: dict[str, bytes] = {
    "nothing": b"",
    "no msgpack": b"\xc1",
    "json": b'{"ops": []}',
    "half": msgspec.msgpack.encode(ExecuteBody((Fetch(thread()),)))[:-3],
    "a number": msgspec.msgpack.encode(7),
    "an unknown operation": msgspec.msgpack.encode([[{"type": "Explode"}]]),
    "an unknown check": msgspec.msgpack.encode(
        [
            [
                {
                    "type": "Commit",
                    "entity": ["default", "thread", "t"],
                    "op": "o",
                    "writes": [{"type": "Append", "bodies": ["1"]}],
                    "checks": [{"type": "OnlyOnSundays"}],
                }
            ]
        ]
    ),
    "an operation without its address": msgspec.msgpack.encode([[{"type": "Fetch"}]]),
    "an address of two parts": msgspec.msgpack.encode([[{"type": "Fetch", "entity": ["a", "b"]}]]),
    "numbers for names": msgspec.msgpack.encode([[{"type": "Fetch", "entity": [1, 2, 3]}]]),
    "too deep": deep(100_000),
    "no text": b"\x91\x91\x82\xa4type\xa5Fetch\xa6entity\x93\xa1a\xa1b\xa2\xff\xfe",
    "two writes that do not go together": msgspec.msgpack.encode(
        ExecuteBody((Commit(thread(), "o", (Drop(), Append(("1",)))),))
    ),
    "an append of nothing": msgspec.msgpack.encode(
        ExecuteBody((Commit(thread(), "o", (Append(()),)),))
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies_are_refused_in_words_and_nothing_is_written(serve: Serve, name: str) -> None:
    served = serve(insecure_local=True)
    for path in (EXECUTE, WAIT):
        told = served.ask("POST", path, BAD[name])
        assert told.status == 400, told
        assert "Traceback" not in told.problem["detail"]
        assert told.problem["error"] == "InvalidInput"
    with sync.open(served.direct, heartbeat=None) as store:
        assert list(store.threads()) == []


def test_people_may_ask_in_json(serve: Serve) -> None:
    served = serve(insecure_local=True)
    body = msgspec.json.encode(ExecuteBody((append(thread()), Fetch(thread("other")))))
    told = served.ask("POST", EXECUTE, body, content_type="application/json; charset=utf-8")
    applied, fetched = OUTCOMES.decode(told.body, JSON)
    assert isinstance(applied, Applied)
    assert isinstance(fetched, Fetched)
    facts = served.ask("GET", STORE)
    assert facts.headers["content-type"] == JSON
    assert msgspec.json.decode(facts.body)["description"]["engine"] == "sqlite"
    for bad in (b"", b"{", b"[[" * 100_000, b'[[{"type":"Fetch","entity":[1,2,3]}]]', b"[[]] x"):
        assert served.ask("POST", EXECUTE, bad, content_type=JSON).status == 400


def test_a_body_in_another_format_is_refused(serve: Serve) -> None:
    served = serve(insecure_local=True)
    assert served.ask("POST", EXECUTE, b"{}", content_type="text/plain").status == 415
    assert served.ask("POST", EXECUTE).status == 415


def test_a_body_that_is_too_large_is_refused_before_it_is_read(serve: Serve) -> None:
    served = serve(insecure_local=True, largest_body=1000)
    big = ExecuteBody((Commit(thread(), "o", (Append(("1" * 2000,)),)),))
    assert served.ask("POST", EXECUTE, big).status == 413
    with raw(served, b"content-length: 99999999999\r\n") as (tell, hear):
        assert b" 413 " in hear()
    with raw(served, b"transfer-encoding: chunked\r\n") as (tell, hear):
        tell(b"7d0\r\n" + b"x" * 2000 + b"\r\n")
        assert b" 413 " in hear()
    with sync.open(served.direct, heartbeat=None) as store:
        assert list(store.threads()) == []


def test_a_body_that_comes_too_slowly_is_not_waited_for(serve: Serve) -> None:
    served = serve(insecure_local=True, body_seconds=0.2)
    with raw(served, b"content-length: 100\r\n") as (tell, hear):
        tell(b"\x91")
        assert b" 408 " in hear()
    assert served.ask("GET", STORE).status == 200


def test_a_client_that_hangs_up_amid_its_body_has_written_nothing(serve: Serve) -> None:
    served = serve(insecure_local=True)
    body = msgspec.msgpack.encode(ExecuteBody((append(thread()),)))
    for cut in range(0, len(body), 16):
        with raw(served, f"content-length: {len(body)}\r\n".encode()) as (tell, _):
            tell(body[:cut])
    assert served.ask("GET", STORE).status == 200
    with sync.open(served.direct, heartbeat=None) as store:
        assert list(store.threads()) == []


HEAD = b"GET %s/live HTTP/1.1\r\nhost: x\r\n"


def head_of(served: Served) -> bytes:
    return HEAD % f"/{served.url.rpartition('/')[2]}".encode()


def told_by_hand(served: Served, *pieces: bytes) -> bytes:
    """The first that is answered."""
    with socket.create_connection(("127.0.0.1", served.port), 60.0) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except ConnectionError:  # it has had enough
            pass
        try:
            return connection.recv(65_536)
        except ConnectionError:
            return b""


def test_a_head_may_be_large_and_come_in_pieces_but_not_endless(serve: Serve) -> None:
    """It comes before anybody is asked for a key."""
    served = serve()
    head = head_of(served)
    whole = head + b"\r\n"
    assert b" 200 " in told_by_hand(served, *(whole[n : n + 1] for n in range(len(whole))))
    assert b" 200 " in told_by_hand(served, head, b"x: " + b"y" * 30_000, b"\r\n\r\n")
    assert b" 200 " in told_by_hand(served, whole * 2000), "many in a row are many"
    for endless in (b"x: " + b"y" * 70_000, b"x: y\r\n" * 12_000):
        assert b" 431 " in told_by_hand(served, head, endless)
        assert b" 200 " not in told_by_hand(served, head, *[endless] * 20)


def test_a_head_that_does_not_come_is_not_waited_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    head = head_of(served)
    monkeypatch.setattr(HeadLimit, "head_seconds", 0.3)
    assert b" 408 " in told_by_hand(served), "nothing at all"
    assert b" 408 " in told_by_hand(served, head), "no end"
    monkeypatch.undo()
    with socket.create_connection(("127.0.0.1", served.port), 60.0) as connection:
        connection.sendall(head + b"\r\n")
        said = b""
        while not said.endswith(b"}"):
            said += (more := connection.recv(65_536))
            assert more, said
        monkeypatch.setattr(HeadLimit, "head_seconds", 0.3)
        connection.sendall(head)
        assert b" 408 " in connection.recv(65_536), "the second one"


class raw:
    """A request by hand: its head is sent, then whatever is told; `hear` is the answer's head."""

    def __init__(self, served: Served, headers: bytes) -> None:
        path = served.url.split("/", 3)[3]
        self._socket = socket.create_connection(("127.0.0.1", served.port), 30.0)
        head = f"POST /{path}{EXECUTE} HTTP/1.1\r\nhost: localhost\r\n".encode()
        self._socket.sendall(head + b"content-type: application/msgpack\r\n" + headers + b"\r\n")

    def __enter__(self) -> tuple[Callable[[bytes], None], Callable[[], bytes]]:
        return self._socket.sendall, lambda: self._socket.recv(65_536)

    def __exit__(self, *_: object) -> None:
        self._socket.close()


# --- what a log may say -----------------------------------------------------------------


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.DEBUG)
    return lambda: "\n".join(f"{record.__dict__}" for record in caplog.records)


def test_a_fault_of_the_service_is_told_without_its_inside(
    serve: Serve, logged: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    key = served.key("admin", None)

    async def broken(*_: object) -> None:
        raise LookupError("the inside")

    assert served.ask("GET", STORE, key=key).status == 200
    monkeypatch.setattr(served.app._stack, "execute", broken)
    told = served.ask("POST", EXECUTE, ExecuteBody((Fetch(thread()),)), key)
    assert told.status == 500
    assert b"the inside" not in told.body
    assert "request_failed" in logged()
    assert key.split(".")[2] not in logged()


def test_the_trace_of_a_request_is_in_the_log_and_in_the_answer(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(insecure_local=True)
    assert served.ask("GET", STORE).status == 200
    lines: list[dict[str, Any]] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(msgspec.json.decode(JsonFormatter().format(record)))

    async def broken(*_: object) -> None:
        raise LookupError("the inside")

    monkeypatch.setattr(served.app._stack, "execute", broken)
    body = ExecuteBody((Fetch(thread()),))
    log, kept = logging.getLogger("stateward.service"), Kept()
    log.addHandler(kept)
    try:
        good = f"00-{TRACE}-00f067aa0ba902b7-01"
        told = served.ask("POST", EXECUTE, body, traceparent=good)
        assert (told.status, told.headers["stateward-correlation"]) == (500, TRACE)
        for bad in ("", "x", good.upper(), good + "\t-x", f"00-{'0' * 32}-00f067aa0ba902b7-01"):
            told = served.ask("POST", EXECUTE, body, traceparent=bad)
            assert told.status == 500
            assert "stateward-correlation" not in told.headers
        twice = f"traceparent: {good}\r\n".encode() * 2
        with raw(served, twice + b"content-length: 0\r\n") as (_, hear):
            assert TRACE.encode() not in hear()
    finally:
        log.removeHandler(kept)
    failed = [line["correlation_id"] for line in lines if line["event"] == "request_failed"]
    assert failed == [TRACE, None, None, None, None, None]
    stream = served.ask("GET", "/v1/changes?follow=false", traceparent=good)
    assert stream.headers["stateward-correlation"] == TRACE


def test_a_store_that_is_down_is_a_problem_that_says_so(serve: Serve) -> None:
    served = serve()
    key = served.key("admin", None)
    (swept,) = execute(served, key, Sweep())
    assert isinstance(swept, Swept)

    async def down(*_: object) -> None:
        raise stateward.StoreUnavailable("db.internal:5432 is gone", applied="unknown")

    served.app._stack.execute = down
    told = served.ask("POST", EXECUTE, ExecuteBody((append(thread()),)), key)
    assert told.status == 503
    assert told.headers["retry-after"] == "1"
    assert told.problem["applied"] == "unknown"
    assert told.problem["error"] == "StoreUnavailable"
    assert "db.internal" not in told.problem["detail"]
