"""One book of numbers: what is counted in a store is what it exports, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import stateward
from observability.colours import Open, ok
from stateward import Counters, StoreUnavailable
from stateward.layers.outage.answers import Dropped, Spilled
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.counters import entries
from stateward.observe.recorder import Recorder
from stateward.ops import Append, Commit, Entity, Outcome

HELLO = {"role": "user", "content": "hello"}
PACKAGE = Path(stateward.__file__).parent


async def test_whatever_is_counted_is_exported(open_store: Open) -> None:
    """Every field of the class, set to a number of its own, is that number in a snapshot."""
    store = open_store()
    for number, name in enumerate(Counters.__struct_fields__, start=100):
        kept = getattr(store.counters, name)
        setattr(store.counters, name, number if isinstance(kept, int) else {"some": number})
    metrics = store.metrics()
    for number, name in enumerate(Counters.__struct_fields__, start=100):
        metric, fixed = entries()[name]
        samples = {
            tuple(sorted(sample.labels.items())): sample.value
            for sample in metrics.family(metric.name).samples
        }
        free = [label for label in metric.labels if label not in fixed]
        labels = {**fixed, **dict.fromkeys(free, "some")}
        expected = 1 if name == "dropped_by_thread" else number  # how many, and never whose
        assert samples[tuple(sorted(labels.items()))] == expected, name
    await ok(store.close())


def test_nothing_else_can_be_counted() -> None:
    assert list(entries()) == list(Counters.__struct_fields__)
    series = [(metric.name, *fixed.items()) for metric, fixed in entries().values()]
    assert len(set(series)) == len(series)
    for metric, fixed in entries().values():
        assert metric in CATALOGUE
        assert set(fixed) <= set(metric.labels)
    counters: Any = Counters()
    with pytest.raises(AttributeError):
        counters.unheard_of = 1
    assert not hasattr(counters, "__dict__")


def test_every_number_is_counted_somewhere() -> None:
    """A field that no layer adds to would be a zero that looks like good news."""
    paths = [p for p in PACKAGE.rglob("*.py") if "sync" not in p.relative_to(PACKAGE).parts]
    text = "\n".join(path.read_text("utf-8") for path in paths)
    for name in Counters.__struct_fields__:
        counted = rf"ounters\.{name}(\[\S+\])? [+-]= |_add\(counters\.{name}, "
        assert re.search(counted, text), name


async def test_stores_that_are_given_one_cache_count_each_for_itself(
    open_store: Open, tmp_path: Any
) -> None:
    cache = stateward.Cache()
    one, other = (open_store(f"sqlite:///{tmp_path}/{n}.db", cache=cache) for n in "ab")
    for store, loads in ((one, 3), (other, 5)):
        await ok(store.thread("s-1").append(HELLO))
        for _ in range(loads):
            await ok(store.thread("s-1").load(last=5))
    for store, hits in ((one, 2), (other, 4)):
        counted = store.counters
        metrics = store.metrics()
        assert (counted.cache_hits, counted.cache_entities) == (hits, 1)
        assert metrics.value("stateward_cache_lookups_total", result="hit") == hits
        assert metrics.value("stateward_cache_bytes") == counted.cache_bytes > 0
        await ok(store.close())


async def test_what_became_of_summaries_is_exported(open_store: Open) -> None:
    store = open_store()
    thread = store.thread("s-1")
    for _ in range(8):
        await ok(thread.append(HELLO))
    for summarize in (lambda previous, messages: None, lambda previous, messages: "short"):
        await ok(thread.load(summarize=stateward.Compaction(summarize, after=4, keep=2)))
    value = store.metrics().value
    results = ("made", "failed", "elsewhere", "discarded")
    assert [value("stateward_summaries_total", result=result) for result in results] == [1, 1, 0, 0]
    await ok(store.close())


async def test_calls_that_read_are_counted_once_however_much_they_read(open_store: Open) -> None:
    store = open_store(alarm=stateward.Alarm(slow=1e-9))
    await ok(store.thread("s-1", user="u-1").append(HELLO))
    await ok(store.context(user="u-1", thread="s-1"))
    value = store.metrics().value
    assert value("stateward_lookups_total") == value("stateward_slow_lookups_total") == 1
    assert value("agent_state_lookup_success_total") >= 3
    await ok(store.close())


def test_an_append_that_was_suppressed_has_an_outcome_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = Recorder("memory")
    commit = Commit(Entity("n", "thread", "s-1"), "op", (Append(("{}",)),))
    lost_reply = StoreUnavailable("no answer", applied="unknown")
    outcomes: list[Any] = [Spilled(lost_reply), Dropped(lost_reply)]
    for outcome in outcomes:
        answered: list[Outcome] = [outcome]
        recorder.answered((commit,), answered, [0], 0.1, 1.0)
    (series,) = recorder.series
    reading = series.read({})
    assert reading.refused == {"spilled": 1, "dropped": 1}
    assert (reading.answered, reading.errors) == (2, {"StoreUnavailable": 2})
    assert recorder.consistency.problems == {"unknown": 2}
    assert caplog.records == []  # whoever suppresses it says so, in one line
