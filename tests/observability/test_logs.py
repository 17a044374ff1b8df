"""A race can be read from the logs alone, and what people said cannot."""

from __future__ import annotations

import json
import logging
import re
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
from stateward.observe.log_text import SENTENCES, TextFormatter, sentence
from stateward.observe.logs import JsonFormatter
from stateward.observe.stderr_log import StderrLog
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
    await ok(store.ready())
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
        ("r-1", f"00-{TRACE}-{'0' * 16}-01", "r-1"),
        ("r-1", f"{TRACEPARENT}-more", "r-1"),
        ("r-1", TRACEPARENT.upper(), "r-1"),
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


# --- for people -------------------------------------------------------------------------


def record(event: str, level: int = logging.WARNING, **fields: Any) -> logging.LogRecord:
    named = {"name": "stateward.policy", "msg": event, "levelno": level, "levelname": "WARNING"}
    return logging.makeLogRecord(named | fields)


def suppressed(number: int) -> logging.LogRecord:
    fields = {"thread_id": f"s-{number}", "status": "spilled", "reason": "it is down"}
    return record("memory_write_suppressed", **fields)


def test_every_warning_has_a_sentence() -> None:
    source = Path(stateward.__file__).parent
    said = re.compile(r"\.(?:warning|error|log)\(\s*(?:level, )?\"([a-z_]+)\"")
    events = {event for path in source.rglob("*.py") for event in said.findall(path.read_text())}
    assert len(events) > 25
    assert events - SENTENCES.keys() == set()


@pytest.mark.parametrize("event", SENTENCES)
def test_a_sentence_is_one_line_whatever_is_missing_or_forged(event: str) -> None:
    for fields in (
        {"seconds": 1.0},
        {"thread_id": "a\nb", "error": "c\nd", "seconds": 1.0, "status": "spilled"},
        {"kind": "user", "id": "a\nb", "why": "c\r\nd", "seconds": 1.0, "outcome": "fenced"},
    ):
        (line,) = sentence(record(event, **fields)).splitlines()
        assert line.endswith(f"[{event}]")


def test_a_sentence_names_the_request_and_an_unknown_event_its_fields() -> None:
    with stateward.correlate("request-7"):
        assert sentence(record("store_reached")).endswith("[store_reached, request request-7]")
    assert sentence(record("of_a_later_release", n=1)) == "of_a_later_release n=1"


def test_the_formatter_for_people_leaves_the_records_of_others_and_json_alone() -> None:
    formatter = TextFormatter("%(levelname)s %(message)s")
    told = suppressed(1)
    assert formatter.format(told).startswith("WARNING a turn of thread 's-1' was not stored and is")
    assert told.getMessage() == "memory_write_suppressed"
    theirs = logging.makeLogRecord({"name": "uvicorn", "msg": "hello", "levelname": "INFO"})
    assert formatter.format(theirs) == "INFO hello"
    line = json.loads(JsonFormatter().format(told))
    assert (line["event"], "reason" in line) == ("memory_write_suppressed", False)


def test_repeated_lines_are_counted_and_summed_up_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stateward.observe.stderr_log.is_configured", lambda _: False)
    now = 100.0
    log = StderrLog(logging.WARNING)
    log.clock = lambda: now
    for number in range(5):
        log.handle(suppressed(number))
    log.count("memory_write_suppressed spilled", "s-5")  # the log was spared the record
    log.handle(record("memory_write_suppressed_again", unlogged=1))  # the same once more
    log.handle(record("breaker_opened", of="writes", failures=5))
    now += 10.0
    log.handle(suppressed(6))
    now += 3.0
    log.handle(suppressed(6))
    log.handle(record("breaker_closed", of="writes"))  # it is over: nothing is left untold
    now += 60.0
    log.handle(suppressed(7))
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[2] for line in lines if "more" in line] == [
        "6 more in 10 s, of 6: 's-1', 's-2', 's-3', …. [memory_write_suppressed spilled]",
        "1 more in 3 s, of 1: 's-6'. [memory_write_suppressed spilled]",
    ]
    assert [line.partition("[")[2] for line in lines if "more" not in line] == [
        "memory_write_suppressed]",
        "breaker_opened]",
        "breaker_closed]",
        "memory_write_suppressed]",
    ]


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


def test_without_a_handler_a_warning_says_what_happened_to_whom_why_and_what_to_do() -> None:
    lines = what_a_process_says()
    assert [line.partition("[")[2] for line in lines] == [
        *("breaker_opened]", "memory_write_suppressed]"),  # the write
        "breaker_opened]",  # the read: what failed is raised
    ]
    assert lines[1] == (
        "stateward: a turn of thread 's-1' was not stored and is lost: StoreUnavailable: the store "
        "cannot be reached (a fault of the test). There was no room for it: see spill=. Check "
        "the store. [memory_write_suppressed]"
    )


def test_the_handlers_of_an_application_are_the_only_ones() -> None:
    lines = what_a_process_says("configured")
    assert [line.split()[0] for line in lines] == ["mine:"] * 4
    assert what_a_process_says("null") == []
