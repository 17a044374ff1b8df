"""A race can be read from the logs alone, and what people said cannot."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken_engines import ServesStale
from processes.children import Child

import stateward
from observability.colours import Open, ok
from observability.lines import Log
from stateward import InvalidInput, Policy, StateConflictError, StoreUnavailable
from stateward.engines.registry import create_engine, parse
from stateward.observe.logs import JsonFormatter
from stateward.world import World

HELLO = {"role": "user", "content": "a secret wish"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


# --- one replica ------------------------------------------------------------------------


async def test_every_write_says_which_version_it_made(store: Any, log: Log) -> None:
    thread = store.thread("s-1", user="u-1")
    with stateward.correlate("request-7"):
        await ok(thread.append(HELLO, HELLO))
        document = await ok(store.user("u-1").put({"name": "a secret name"}))
    await ok(store.user("u-1").put({"name": "another"}, expect=document))
    appended, put, replaced = log.events("write_stored")
    assert (appended["kind"], appended["id"], appended["version"]) == ("thread", "s-1", 2)
    assert (put["kind"], put["operation"], put["documents"]) == ("user", "put", {"default": 1})
    assert appended["correlation_id"] == put["correlation_id"] == "request-7"
    assert replaced["correlation_id"] is None
    assert (replaced["expected_version"], replaced["expected_stamp"]) == (1, put["op"])
    assert appended["service"] == "agents"


async def test_a_refusal_says_what_was_expected_and_what_is_there(store: Any, log: Log) -> None:
    thread = store.thread("s-1")
    await ok(thread.append(HELLO))
    with pytest.raises(StateConflictError):
        await ok(thread.append(HELLO, expect=5))
    (refused,) = log.events("write_refused")
    (stored,) = log.events("write_stored")
    assert (refused["level"], refused["outcome"]) == ("INFO", "conflict")
    assert (refused["expected_version"], refused["current_version"]) == (5, 1)
    assert refused["current_stamp"] == stored["op"]


async def test_a_failure_says_whether_the_write_may_be_there(open_store: Open, log: Log) -> None:
    store = open_store(policy=Policy(read_timeout=0.1, write_timeout=0.1, threads="raise"))
    await ok(store.thread("s-1").load())
    with (
        store.faults.lose_reply(times=1000),
        stateward.correlate("request-8"),
        pytest.raises(StoreUnavailable),
    ):
        await ok(store.thread("s-1").append(HELLO))
    (failed,) = log.events("write_failed")
    assert (failed["level"], failed["applied"], failed["id"]) == ("WARNING", "unknown", "s-1")
    assert failed["correlation_id"] == "request-8"
    with store.faults.unavailable(), pytest.raises(StoreUnavailable):
        await ok(store.thread("s-1").load())
    assert log.events("read_failed")[0]["id"] == "s-1"
    await ok(store.close())


class Ahead(World):
    """Whose monotonic clock can be put forward."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def test_an_outage_does_not_flood_the_log(open_store: Open, log: Log) -> None:
    policy = Policy(read_timeout=0.02, write_timeout=0.02, breaker_failures=1)
    world = Ahead()
    store = open_store(policy=policy, world=world)
    await ok(store.thread("s-1").load())
    with store.faults.unavailable():
        for _ in range(600):  # at once, when the breaker has opened
            with pytest.raises(StoreUnavailable):
                await ok(store.thread("s-1").load())
    lines = log.events("read_failed")
    assert len(lines) == 20
    assert store.metrics().value("agent_state_lookup_error_total") == 600
    world.ahead = 60.0  # the limit is by the minute
    with store.faults.unavailable(), pytest.raises(StoreUnavailable):
        await ok(store.thread("s-1").load())
    lines = log.events("read_failed")
    assert len(lines) + sum(line.get("unlogged", 0) for line in lines) == 601
    await ok(store.close())


async def test_suppressed_appends_do_not_flood_the_log_and_are_summed_up(
    open_store: Open, log: Log
) -> None:
    store = open_store(policy=Policy(write_timeout=0.02, breaker_failures=1))
    with store.faults.unavailable():
        for number in range(200):
            await ok(store.thread(f"s-{number}").append(HELLO))
    assert len(log.events("memory_write_suppressed")) == 20
    await ok(store.close())
    (rest,) = log.events("memory_write_suppressed_again")
    assert rest["unlogged"] == 180
    failures = [line for line in log.lines if "failed" in line["event"]]
    assert failures == []


async def test_a_call_that_failed_is_one_line_however_much_it_asked_for(
    store: Any, log: Log
) -> None:
    with store.faults.unavailable(), pytest.raises(StoreUnavailable):
        await ok(store.context(user="u-1", thread="s-1", last=5))
    (line,) = log.events("read_failed")
    assert sorted(line["operations"]) == ["get", "list", "load", "load"]


async def test_a_suppressed_append_is_one_line_with_its_thread(store: Any, log: Log) -> None:
    with store.faults.unavailable(), stateward.correlate("request-9"):
        await ok(store.thread("s-1").append(HELLO))
    assert log.events("write_failed") == []
    (line,) = log.events("memory_write_suppressed")
    assert (line["level"], line["thread_id"], line["status"]) == ("WARNING", "s-1", "spilled")
    assert line["correlation_id"] == "request-9"


async def test_a_store_that_goes_back_is_an_error_in_the_log(log: Log) -> None:
    engine = ServesStale(create_engine(parse("memory://"), World()), seed=1)
    async with stateward.Store(engine) as store:
        for _ in range(40):
            await store.thread("s-1").append(HELLO)
            await store.thread("s-1").load(last=1)
    line = log.events("version_backwards")[0]
    assert (line["level"], line["id"]) == ("ERROR", "s-1")
    assert line["commits"] < line["commits_before"]


async def test_no_line_holds_what_was_said(open_store: Open, log: Log) -> None:
    store = open_store()
    with store.faults.unavailable():
        await ok(store.thread("s-1", user="u-1").append(HELLO, key="turn-1"))
    await ok(store.thread("s-1", user="u-1").append(HELLO))
    await ok(store.user("u-1").update(lambda value: {"wish": "a secret wish"}))
    await ok(store.once("task-1", str, "a secret argument"))
    await ok(store.shared("plan").put({"a": "secret"}))
    with pytest.raises(StateConflictError):
        await ok(store.thread("s-1", user="u-1").append(HELLO, expect=77))
    await ok(store.close())
    assert len(log.lines) > 5
    assert "secret" not in log.stream.getvalue()


async def test_an_id_cannot_forge_a_line(store: Any, log: Log) -> None:
    forged = 's-1\n{"event": "write_stored", "id": "forged"}'
    await ok(store.thread(forged).append(HELLO))
    (line,) = log.events("write_stored")
    assert line["id"] == forged


async def test_nothing_is_built_for_a_log_that_nobody_reads(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a record was built though its level is off")

    monkeypatch.setattr("stateward.observe.recorder.log_write", never)
    logging.getLogger("stateward.writes").setLevel(logging.INFO)
    try:
        await ok(store.thread("s-1").append(HELLO))
    finally:
        logging.getLogger("stateward.writes").setLevel(logging.NOTSET)


# --- the correlation id -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "traceparent", "expected"),
    [
        ("r-1", None, "r-1"),
        (None, TRACEPARENT, TRACE),
        ("r-1", TRACEPARENT, TRACE),
        ("r-1", "garbage", "r-1"),
        ("r-1", f"ff-{TRACE}-00f067aa0ba902b7-01", "r-1"),
        ("r-1", f"00-{'0' * 32}-00f067aa0ba902b7-01", "r-1"),
        (None, f"cc-{TRACE}-00f067aa0ba902b7-01-what-comes-later", TRACE),
        (None, None, "outer"),
        (None, "garbage", "outer"),
    ],
)
def test_the_correlation_id_comes_from_the_trace_where_there_is_one(
    id: str | None, traceparent: str | None, expected: str
) -> None:
    with stateward.correlate("outer"):
        with stateward.correlate(id, traceparent=traceparent):
            assert stateward.correlation_id() == expected
        assert stateward.correlation_id() == "outer"
    assert stateward.correlation_id() is None


def test_a_traceparent_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="traceparent is the text of a header"):
        stateward.correlate(traceparent=b"00").__enter__()  # type: ignore[arg-type]


def test_an_exception_in_a_line_keeps_to_its_line() -> None:
    log = Log()
    handler = logging.StreamHandler(log.stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("someone.else")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("it failed")
    (line,) = log.lines
    assert "ValueError: two\nlines" in line["exception"]


# --- two replicas -----------------------------------------------------------------------


def test_a_correlation_id_explains_a_conflict_between_two_replicas_from_the_logs_alone(
    start: Callable[..., Child], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    racer = start("racer", url, "a", tmp_path / "a.log")
    putter = start("putter", url, "b", tmp_path / "b.log")
    for child in (racer, putter):
        child.until_said("ready")
    racer.tell(f"change {TRACEPARENT}")
    racer.until_said("read")
    putter.tell("put job-17")
    putter.until_said("done")
    racer.tell("write now")
    racer.until_said("done")
    for child in (racer, putter):
        child.tell("")
        child.finish()

    lines = [
        json.loads(line)
        for name in ("a", "b")
        for line in (tmp_path / f"{name}.log").read_text().splitlines()
    ]
    assert explain(lines, TRACE) == [
        f"{TRACE} on a wrote user u-42 default over version 0: refused, because job-17 on b had "
        "written version 1",
        f"{TRACE} on a wrote user u-42 default over version 1: stored as version 2",
    ]
    assert "secret" not in json.dumps(lines)


def explain(lines: list[dict[str, Any]], correlation: str) -> list[str]:
    """What became of a request's writes, and who was in its way."""
    by_op = {line["op"]: line for line in lines if line["event"] == "write_stored"}
    said = []
    for line in sorted(lines, key=lambda line: line["time"]):
        if line["correlation_id"] != correlation or "document" not in line:
            continue
        what = f"{correlation} on {line['replica']} wrote {line['kind']} {line['id']}"
        what += f" {line['document']} over version {line['expected_version']}: "
        if line["event"] == "write_refused":
            winner = by_op[line["current_stamp"]]
            what += f"refused, because {winner['correlation_id']} on {winner['replica']}"
            said.append(f"{what} had written version {line['current_version']}")
        else:
            said.append(f"{what}stored as version {line['documents'][line['document']]}")
    return said


# --- where the application has not configured logging -----------------------------------

UNCONFIGURED = """
import logging, sys, stateward
if "null" in sys.argv:
    logging.getLogger("stateward").addHandler(logging.NullHandler())
if "configured" in sys.argv:
    logging.basicConfig(format="mine: %(message)s")
from stateward.sync.testing.faults import open_faulty
with open_faulty("memory://", spill=False) as store, store.faults.unavailable():
    store.thread("s-1").append({"role": "user", "content": "a secret wish"})
    try:
        store.thread("s-1").load()
    except stateward.StoreUnavailable:
        pass
"""


def what_a_process_says(*words: str) -> list[str]:
    command = [sys.executable, "-c", UNCONFIGURED, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()


def test_without_a_handler_a_warning_says_what_it_is_about() -> None:
    lines = [line.partition(": ")[2] for line in what_a_process_says()]
    assert [line.split()[0] for line in lines] == [
        *("breaker_opened", "memory_write_suppressed"),  # the write
        "breaker_opened",  # the read: what failed is raised
    ]
    assert "thread_id=s-1" in lines[1]
    assert "status=dropped error=StoreUnavailable applied=no messages=1" in lines[1]
    assert "None" not in lines[1]


def test_the_handlers_of_an_application_are_the_only_ones() -> None:
    lines = what_a_process_says("configured")
    assert [line.split()[0] for line in lines] == ["mine:"] * 4
    assert what_a_process_says("null") == []
