"""What is counted for each tenant of one store: whole, and bounded however many there are."""

from __future__ import annotations

from typing import Any

import stateward
from observability import scrapes
from stateward import sync
from stateward.observe.exporters.statsd import Lines
from stateward.observe.metrics import Family, Metrics, Sample
from stateward.observe.tenants import BUSY, BYTES, CANDIDATES, EVENTS, FIRST, NAMED, OTHER, Tenants
from stateward.observe.workers import TENANTS, with_few_tenants
from stateward.state.thread_listener import ThreadListener
from stateward.testing.faults import open_faulty

EVENTS_TOTAL = "stateward_tenant_events_total"
BYTES_TOTAL = "stateward_tenant_appended_bytes_total"


def events(metrics: Metrics, tenant: str) -> dict[str, int]:
    """What has happened to a tenant."""
    found = {
        event: int(metrics.value(EVENTS_TOTAL, tenant=tenant, event=event)) for event in EVENTS
    }
    return {event: count for event, count in found.items() if count}


def test_a_store_without_tenants_has_no_series_of_them() -> None:
    with sync.open("memory://") as store:
        store.thread("t").append({"n": 1})
        assert store.metrics().family(EVENTS_TOTAL).samples == []


def test_each_tenant_has_its_own_numbers_and_so_has_the_store_itself() -> None:
    with sync.open("memory://") as store:
        for times, tenant in enumerate(("a", "b"), 1):
            for _ in range(times):
                store.within(tenant).thread("t").append({"n": "é"})
        store.within("b").thread("t").load()
        store.thread("t").load()
        metrics = store.metrics()
    assert events(metrics, "a") == {"append": 1}
    assert events(metrics, "b") == {"append": 2, "load": 1}
    assert events(metrics, "default") == {"load": 1}
    assert metrics.value(BYTES_TOTAL, tenant="b") == 2 * len('{"n":"é"}'.encode())
    assert metrics.value(EVENTS_TOTAL, tenant="a", event="failure") == 0  # a rate starts from it


async def test_failures_of_a_tenant_are_its_own() -> None:
    async with open_faulty(policy=stateward.Policy(write_timeout=0.2, read_timeout=0.2)) as store:
        tenant = store.within("a")
        await tenant.thread("t").append({"n": 1})
        with store.faults.unavailable():
            assert (await tenant.thread("t").append({"n": 2})).status == "spilled"
        found = events(store.metrics(), "a")
        assert found == {"append": 1, "failure": 1, "suppressed": 1}
        assert events(store.metrics(), "default") == {}


class Suspicious(ThreadListener):
    """Takes everything for a sign of lost context."""

    def appended(self, *_: Any) -> list[Any]:
        return ["again"]


def test_context_breaks_of_a_tenant_are_its_own() -> None:
    with sync.open("memory://", listener=Suspicious()) as store:
        store.within("a").thread("t").append({"n": 1})
        assert events(store.metrics(), "a") == {"append": 1, "context_break": 1}
        assert store.counters.context_breaks == {"other": 1}


def test_metrics_that_are_off_stay_off() -> None:
    with sync.open("memory://", metrics=False) as store:
        store.within("a").thread("t").append({"n": 1})
        assert store.metrics().family(EVENTS_TOTAL).samples == []


def test_what_a_tenant_is_called_can_forge_nothing() -> None:
    evil = 'a"}\n# HELP x|c#b:1,c'
    with sync.open("memory://") as store:
        store.within(evil).thread("t").append({"n": 1})
        store.within("x" * 500).thread("t").append({"n": 1})
        metrics = store.metrics()
    labels = {sample.labels["tenant"] for sample in metrics.family(EVENTS_TOTAL).samples}
    assert labels == {"a_____HELP_x_c_b_1_c", "x" * 64}
    scrapes.read(metrics.prometheus())
    lines = [line for line in Lines(True).since_last(metrics) if "tenant_events" in line]
    assert all(line.count("|") == 2 for line in lines)


# --- however many there are -------------------------------------------------------------


def numbers(tenants: Tenants) -> dict[str, int]:
    """Appends by label."""
    return {label: count for label, event, count in tenants.read() if event == "append"}


def active() -> Tenants:
    tenants = Tenants()
    tenants.active = True
    return tenants


def test_the_first_and_the_busy_are_named_and_the_others_counted_together() -> None:
    tenants = active()
    for number in range(300):
        tenants.count(f"t-{number}", "append")
    found = numbers(tenants)
    assert sum(found.values()) == 300
    assert list(found) == [f"t-{number}" for number in range(FIRST)] + [OTHER]
    for number in range(200, 300):
        for _ in range(BUSY):
            tenants.count(f"t-{number}", "append", appended=1)
    after = numbers(tenants)
    assert len(after) == NAMED + 1
    assert after["t-200"] > 0
    assert sum(after.values()) == 300 + 100 * BUSY
    assert all(after[label] >= count for label, count in found.items())
    assert sum(count for _, event, count in tenants.read() if event == BYTES) == 100 * BUSY


def test_memory_is_bounded_too() -> None:
    tenants = active()
    for number in range(FIRST + 2 * CANDIDATES):
        tenants.count(f"t-{number}", "load")
    assert len(tenants._candidates) <= CANDIDATES
    assert len(list(tenants.read())) == (FIRST + 1) * (len(EVENTS) + 1)


def test_ended_workers_that_named_others_are_bounded_as_well() -> None:
    def family(*names: str) -> Family:
        samples = [Sample({"tenant": name, "event": "append"}, 1) for name in names]
        return Family(EVENTS_TOTAL, "counter", "", samples)

    few = [family("a", "b")]
    assert with_few_tenants(few) == few
    (many,) = with_few_tenants([family(*(f"t-{number}" for number in range(500)))])
    assert len(many.samples) == TENANTS + 1
    found = {sample.labels["tenant"]: sample.value for sample in many.samples}
    assert (found["t-0"], found[OTHER]) == (1, 500 - TENANTS)
