"""The alarm rises once and clears once, and the hook hears of both."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
import uvloop
from servers import until

from stateward import Alarm, AlarmEvent, InvalidInput, Policy, sync
from stateward.observe.alarm import Alarms, tell
from stateward.observe.counters import Counters
from stateward.sync.testing.faults import open_faulty as open_faulty_sync
from stateward.testing.faults import open_faulty

IMPATIENT = Policy(read_timeout=0.05, write_timeout=0.05)
PATIENT = Policy(read_timeout=5.0, write_timeout=0.4)  # also of calls that must succeed
QUIET = 1.5  # seconds; on a busy machine three turns that fail come within them too
HELLO = {"role": "user", "content": "hello"}


def told(alarms: Alarms, now: float) -> list[tuple[str, bool, int]]:
    return [(event.name, event.raised, event.count) for event in alarms.check(now)]


def test_ten_in_five_minutes_raise_it_once_and_quiet_clears_it_once() -> None:
    alarms = Alarms(Alarm(), Counters())
    said = []
    for second in range(0, 900, 10):
        if second < 300:
            alarms.suppressed(float(second))
        said += [(second, *event) for event in told(alarms, float(second))]
    assert said == [
        (90, "memory_write_suppressed", True, 10),
        (550, "memory_write_suppressed", False, 4),
    ]


def test_one_now_and_then_raises_nothing() -> None:
    alarms = Alarms(Alarm(), Counters())
    for second in range(0, 36_000, 60):
        alarms.suppressed(float(second))
        assert told(alarms, float(second)) == []


def test_slow_lookups_raise_their_own_alarm() -> None:
    counters = Counters()
    alarms = Alarms(Alarm(), counters)
    said = []
    for second in range(0, 1200, 10):
        counters.lookups += 100
        counters.slow_lookups += 10 if 300 <= second < 600 else 4
        said += [(name, raised) for name, raised, _ in told(alarms, float(second))]
        if second >= 600:
            counters.slow_lookups -= 4  # well below
    assert said == [("slow_lookups", True), ("slow_lookups", False)]


def test_a_single_slow_lookup_is_no_percentile() -> None:
    counters = Counters()
    alarms = Alarms(Alarm(), counters)
    assert told(alarms, 0.0) == []
    counters.lookups, counters.slow_lookups = 10, 10
    assert told(alarms, 10.0) == []


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_hook_is_told_once_of_each(is_async: bool) -> None:
    heard: list[AlarmEvent] = []

    async def listen(event: AlarmEvent) -> None:
        await asyncio.sleep(0)
        heard.append(event)

    alarm = Alarm(listen if is_async else heard.append, suppressed=3, seconds=QUIET)
    async with open_faulty(policy=IMPATIENT, alarm=alarm) as store:
        with store.faults.unavailable():
            for _ in range(8):
                assert (await store.thread("s-1").append(HELLO)).status == "spilled"
            await until(lambda: bool(heard))
            assert (await store.health()).alarms == ("memory_write_suppressed",)
        await until(lambda: len(heard) == 2)
        assert (await store.health()).alarms == ()
    assert [(event.name, event.raised) for event in heard] == [
        ("memory_write_suppressed", True),
        ("memory_write_suppressed", False),
    ]
    assert store.counters.alarms_raised == 1


def test_appends_that_fail_together_raise_it_on_uvloop_too() -> None:
    async def fail_together() -> set[str]:
        alarm = Alarm(lambda event: None, suppressed=1)
        async with open_faulty(policy=IMPATIENT, alarm=alarm) as store:
            with store.faults.unavailable():
                said = await asyncio.gather(*[store.thread("s-1").append(HELLO) for _ in range(8)])
        return {it.status for it in said}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(fail_together()) == {"spilled"}


def test_the_hook_of_blocking_code_is_told_from_another_thread() -> None:
    heard: list[tuple[bool, bool]] = []
    twice = threading.Semaphore(0)
    here = threading.current_thread()

    def listen(event: AlarmEvent) -> None:
        heard.append((event.raised, threading.current_thread() is here))
        twice.release()

    alarm = Alarm(listen, suppressed=3, seconds=QUIET)
    with open_faulty_sync(policy=IMPATIENT, alarm=alarm) as store:
        with store.faults.unavailable():
            for _ in range(4):
                assert store.thread("s-1").append(HELLO).status == "spilled"
            assert twice.acquire(timeout=30)
        assert twice.acquire(timeout=30)
    assert heard == [(True, False), (False, False)]


async def test_a_hook_that_raises_is_said_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(event: AlarmEvent) -> None:
        raise LookupError("nobody there")

    async def broken_too(event: AlarmEvent) -> None:
        raise LookupError("nobody there")

    for hook in (broken, broken_too):
        caplog.clear()
        alarm = Alarm(hook, suppressed=1, seconds=60.0)
        async with open_faulty(policy=PATIENT, alarm=alarm) as store:
            with store.faults.unavailable():
                assert (await store.thread("s-1").append(HELLO)).status == "spilled"
                await until(lambda: any(r.message == "alarm_hook_failed" for r in caplog.records))
            assert (await store.thread("s-1").load()).messages == [HELLO]


def test_a_webhook_gets_the_event_as_json() -> None:
    got: list[dict[str, object]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            got.append(json.loads(self.rfile.read(length)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        serving = threading.Thread(target=server.handle_request, daemon=True)
        serving.start()
        url = f"http://127.0.0.1:{server.server_port}/alarm"
        tell(url, AlarmEvent("slow_lookups", True, 7, 300.0))
        serving.join()
    assert got == [{"name": "slow_lookups", "raised": True, "count": 7, "seconds": 300.0}]


def test_a_webhook_that_nobody_answers_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        url = f"http://127.0.0.1:{server.server_port}/"
    tell(url, AlarmEvent("slow_lookups", True, 7, 300.0))
    assert [record.message for record in caplog.records] == ["alarm_hook_failed"]


def test_wrong_alarms_are_refused() -> None:
    for wrong in ({"hook": 7}, {"hook": "ftp://x"}, {"suppressed": 0}, {"seconds": 0}, {"slow": 0}):
        with pytest.raises(InvalidInput, match=f"Alarm.{next(iter(wrong))}"):
            Alarm(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="hook"):
        sync.open("memory://", alarm=3)  # type: ignore[arg-type]


def test_every_counter_is_in_the_reference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "store.md").read_text("utf-8")
    for name in Counters.__struct_fields__:
        assert f"`{name}`" in page, name
    assert not any(msgspec.structs.asdict(Counters()).values())
