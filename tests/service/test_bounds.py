"""Every field of every operation at its bounds: an answer, or a refusal that names it.

The requests are drawn from the table of bounds itself, so that a field without a bound, or with one
that an engine cannot hold, is met here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import Struct

import stateward
from service.test_rest_engines import postgres, valkey
from service.test_rest_nonsense import answered
from stateward.bounds import BOUNDS, Any_, Bound, Each, Fields, Json, Number, Pair, Text
from stateward.ops import Check, Entity, Entry, Head, Log, Op, Write
from stateward.server import app
from stateward.wire import EXECUTE, MOST_OPS, WAIT, ExecuteBody, WaitBody

HERE = ["default", "thread", "bounds"]
LARGEST = 1 << 20  # a value is not made larger than this to find out what is refused
WRONG: tuple[Any, ...] = ({"x": [1]}, [[]], True, 1.5, "x", None)


def fields(kind: type) -> list[str]:
    if issubclass(kind, Struct):
        return [field.name for field in msgspec.structs.fields(kind)]
    return list(kind._fields)  # type: ignore[attr-defined]


def test_every_field_of_every_operation_has_a_bound() -> None:
    kinds: list[Any] = [*get_args(Op), *get_args(Check), *get_args(Write), Entity, Log]
    for kind in [*kinds, *BOUNDS]:
        assert list(BOUNDS.get(kind, {})) == fields(kind), kind


# --- requests from the table ------------------------------------------------------------


def around(bound: Bound) -> Iterator[tuple[Any, bool]]:
    """Values at the edges of a bound, each with whether it is within."""
    if isinstance(bound, Number):
        step = 1 if isinstance(bound.most, int) else bound.most * 1e-9 + 1
        yield from ((bound.least, True), (bound.most, True))
        yield from ((bound.least - 1, False), (bound.most + step, False))
        if bound.most < 1 << 63:
            yield from ((n, False) for n in (1 << 63, 1 << 64, -(1 << 63) - 1, 1e308))
    elif isinstance(bound, Text):
        yield from (("x" * bound.most, True), ("x" * (bound.most + 1), False))
        yield from (("ä" * (bound.most // 2), True), ("ä" * (bound.most // 2 + 1), False))
        yield from (("\0" * bound.most, True), ("x" * bound.least, True))
        if bound.least:
            yield "x" * (bound.least - 1), False
    elif isinstance(bound, Json):
        yield from ((text, True) for text in ("{}", "null", '"\\u0000"', '"\\ud800"'))
        broken = ("{", "x", "{\n}", "{}{}", "NaN", "\0", '"\0"', "[" * 100_000)
        yield from ((text, False) for text in broken)
        yield "", bound.empty
    elif isinstance(bound, Fields):
        yield ["default", "thread", "bounds"], True
    elif isinstance(bound, Pair):
        for place, of in enumerate(bound.places):
            for value, within in around(of):
                pair = [next(v for v, good in around(each) if good) for each in bound.places]
                yield [*pair[:place], value, *pair[place + 1 :]], within


def request_of(kind: Any, name: str, value: Any) -> tuple[str, Any] | None:
    """A path, and a body in which one field of this type has the value; None: it has no place."""
    if kind is ExecuteBody:
        return EXECUTE, {"ops": [], "within": 1.0, name: value}
    if kind is WaitBody:
        return WAIT, {"cursors": [[HERE, 0]], "timeout": 0.0, name: value}
    op = placed(kind, name, value)
    return None if op is None else (EXECUTE, {"ops": [op], "within": 5.0})


def placed(kind: Any, name: str, value: Any) -> dict[str, Any] | None:
    """An operation in which one field of this type has the value; None: it has no place there."""
    part: Any = {"type": kind.__name__, **NEEDED.get(kind.__name__, {}), name: value}
    if kind in get_args(Op):
        return {"entity": HERE, **OPS.get(kind.__name__, {}), **part}
    if kind is Entity:
        address = [value if each == name else "x" for each in Entity._fields]
        return {"type": "Fetch", "entity": address}
    if kind is Log:
        return {"type": "Fetch", "entity": HERE, "log": part}
    commit = {"type": "Commit", "entity": HERE, **OPS["Commit"]}
    if kind in get_args(Check):
        return {**commit, "checks": [part]}
    if kind in get_args(Write):
        return {**commit, "writes": [part]}
    part.pop("type")
    restore: dict[str, Any] = {"type": "Restore", "head": {"exists": True, "version": 1}}
    match kind.__name__:
        case "Head":
            restore["head"] = part
        case "Lease":
            restore["head"]["lease"] = part
        case "Value":
            restore["documents"] = {"d": part}
        case "Entry":
            restore["entries"] = [part]
    return {**commit, "writes": [restore]}


OPS: dict[str, dict[str, Any]] = {
    "Commit": {"op": "o", "writes": [{"type": "Put", "name": "d", "value": "1"}]},
    "List": {"namespace": "default"},
}
NEEDED: dict[str, dict[str, Any]] = {
    "LogAt": {"version": 0},
    "DocumentAt": {"name": "d", "version": 0},
    "StatusIn": {"statuses": [""]},
    "Fence": {"token": 1, "nonce": "n"},
    "CommitsAt": {"commits": 0},
    "NotDroppedSince": {"at": 0.0},
    "Append": {"bodies": ["{}"]},
    "Put": {"name": "d", "value": "1"},
    "Delete": {"name": "d"},
    "Trim": {"upto": 0},
    "Replace": {"entries": {}},
    "Acquire": {"nonce": "n", "ttl": 1.0},
    "Renew": {"token": 1, "nonce": "n", "ttl": 1.0},
    "Release": {"token": 1, "nonce": "n"},
    "Restore": {"head": {"exists": True}},
    "Lease": {"token": 1, "nonce": "n", "holder": "h", "granted": 0.0, "until": 0.0},
    "Value": {"json": "1", "version": 1, "stamp": "s", "updated": 0.0, "log": 0},
    "Entry": {"seq": 1, "at": 0.0, "body": "1", "stamp": "s"},
}


def cases() -> Iterator[tuple[str, Any, bool | None]]:
    """Field, operation, and whether it is within bounds (None: it may be either)."""
    for kind, bounds in BOUNDS.items():
        for name, bound in bounds.items():
            values: list[tuple[Any, bool | None]] = [(value, None) for value in WRONG]
            of: Bound = bound
            most = 0
            if isinstance(bound, Each):
                of, most = bound.of, bound.most
                names = bound.names
                for value, good in around(of):
                    values.append(({"1": value} if names else [value], good))
                for value, good in () if names is None else around(names):
                    content = "1" if isinstance(of, Json) else next(iter(around(of)), ("", 0))[0]
                    values.append(({str(value): content}, good))
                if name == "ops":
                    fetch = {"type": "Fetch", "entity": HERE}
                    values += [([fetch] * MOST_OPS, True), ([fetch] * (MOST_OPS + 1), False)]
                fitting = next((v for v, good in around(of) if good), None)
                if isinstance(fitting, str) and names is None and most * 8 < LARGEST:
                    values += [(["1"] * most, True), (["1"] * (most + 1), False)]
            elif not isinstance(bound, Any_):
                values += around(bound)
            for value, within in values:
                if within and (kind, name) == (WaitBody, "timeout"):
                    continue  # such a wait takes as long
                if within and (kind, name) in {(Head, "version"), (Entry, "seq")}:
                    within = None  # of a restore it is another field's bound, too
                if (request := request_of(kind, name, value)) is not None:
                    yield f"{kind.__name__}.{name}", request, within


CASES = list(cases())


async def all_are_answered(url: str) -> None:
    async with asyncio.timeout(300), stateward.open(url, spill=False, heartbeat=None) as store:
        service = app(store, insecure_local=True)
        for number, (field, (path, asked), within) in enumerate(CASES):
            ops = asked.get("ops")
            for op in ops if isinstance(ops, list) else ():
                if isinstance(op, dict) and op.get("op") == "o":
                    op["op"] = f"o{number}"  # of one that is known, only the first would be tried
            body = msgspec.json.encode(list(asked.values()))
            headers = [(b"content-type", b"application/json")]
            status, _, data = await answered(service, "POST", path.encode(), b"", body, headers)
            shown = (field, body[:300], status, data[:300])
            assert status in (200, 204, 400), shown
            if within is False:
                assert status == 400, shown
                problem = msgspec.json.decode(data)
                assert problem["error"] == "InvalidInput", shown
                name = field.partition(".")[2]
                assert re.search(rf"{field}|\.{name}|\$\[", problem["detail"]), shown
        health = await store.health()
        assert (health.ok, health.breaker) == (True, "closed")


async def test_each_bound_and_one_past_it_are_answered(tmp_path: Path) -> None:
    await all_are_answered(f"sqlite:///{tmp_path}/bounds.db")


@pytest.mark.parametrize("server", [valkey, postgres], ids=lambda server: str(server.__name__))
async def test_each_bound_and_one_past_it_are_answered_over_a_server(
    tmp_path: Path, server: Callable[[Path], Any]
) -> None:
    with server(tmp_path) as url:
        await all_are_answered(url)
