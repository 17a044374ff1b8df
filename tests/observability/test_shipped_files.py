"""Every name in the shipped rules and dashboards is one that is really emitted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broken_engines import ServesStale
from msgspec.structs import replace
from servers import until

import stateward
from observability import scrapes
from observability.colours import commit
from observability.lines import Log
from stateward import Policy, StoreUnavailable
from stateward.engines.registry import create_engine, parse
from stateward.observe import rules
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.exporters.statsd import Lines
from stateward.observe.metrics import Metrics
from stateward.observe.sizes import Sizes
from stateward.ops import Acquire, Append, Fence, Release
from stateward.repeats import RepeatDetector
from stateward.server.keys import Keys
from stateward.server.log_heads import LogHeads, LogHeadSettings
from stateward.server.watch import Watch
from stateward.testing.clock import SteppableWorld
from stateward.testing.faults import open_faulty
from stateward.world import World

HELLO = {"role": "user", "content": "hello"}
ASKED = {"role": "assistant", "content": "Which colour do you prefer?"}
METRIC = re.compile(r"\b(?:stateward|agent_state)_[a-z_]+")


class Later(SteppableWorld):
    """Of which the monotonic clock can be moved too."""

    later = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later


async def troubled(log: Log) -> Metrics:
    """A store that everything has happened to that the rules look for."""
    world = Later()
    policy = Policy(read_timeout=0.4, write_timeout=0.4, breaker_failures=1_000_000)
    async with open_faulty(world=world, policy=policy) as store:
        store._scope.listener = RepeatDetector()
        thread = store.thread("s-1")
        for _ in range(2):
            await thread.append(ASKED, {"role": "user", "content": "I already told you: green."})
        await store.describe()
        await thread.load()
        await store.within("tenant-7").thread("s-1").append(HELLO)
        with store.faults.unavailable():
            await thread.append(HELLO)
            with pytest.raises(StoreUnavailable):
                await thread.load()
        with store.faults.lose_reply(times=100), pytest.raises(StoreUnavailable):
            await store.user("u-1").put({"a": 1})
        await _fenced(store)
        await _taken_over(store, world)
        await _lost(store, world)
        world.later += 3600
        _grown(store._scope.stack._sizes)
        metrics = store.metrics()
    async with stateward.Store(
        ServesStale(create_engine(parse("memory://"), World()), seed=1)
    ) as old:
        for _ in range(40):
            await old.thread("s-2").append(HELLO)
            await old.thread("s-2").load(last=1)
    assert log.events("version_backwards")
    return metrics


async def _fenced(store: Any) -> None:
    entity = store._scope.entity("thread", "s-1")
    granted = await commit(store, entity, (Acquire("n", 30.0),))
    await commit(store, entity, (Release(granted.lease.token, "n"),))
    fence = Fence(granted.lease.token, "n")
    await commit(store, entity, (Append(('{"a":1}',)),), (fence,))


async def _taken_over(store: Any, world: Later) -> None:
    entity = store._scope.entity("lock", "inventory")
    await commit(store, entity, (Acquire("dead", 30.0),))
    await commit(store, entity, (Acquire("heir", 30.0),))
    world.advance(seconds=31)
    await commit(store, entity, (Acquire("heir", 30.0),))


async def _lost(store: Any, world: Later) -> None:
    with store.faults.unavailable():
        assert (await store.thread("s-3").append(HELLO)).status == "spilled"
        world.advance(hours=25)
    await until(lambda: bool(store.counters.alarms_raised))


def _grown(storage: Sizes) -> None:
    """An hour later, somewhat larger, on a disk that has an end."""
    said = storage._latest
    assert said is not None
    storage.note(replace(said, bytes=(said.bytes or 0) + 10_000, capacity=10**9))


# --- Prometheus and Grafana -------------------------------------------------------------


@pytest.mark.parametrize("file", ["prometheus-rules.yml", "grafana-dashboard.json"])
async def test_every_metric_that_a_query_names_is_in_a_real_scrape(file: str, log: Log) -> None:
    scrape = scrapes.read((await troubled(log)).prometheus())
    emitted = {name for name, samples in scrape.samples.items() if samples}
    text = "\n".join(queries(file))
    named = set(METRIC.findall(text))
    assert len(named) >= 10
    assert named - emitted == set()


async def test_every_metric_that_a_rule_for_the_service_names_is_in_its_metrics() -> None:
    async with stateward.open("memory://") as store:
        world = store.sections["workflows"].world
        watch = Watch(world, Keys(store.sections["workflows"].stack, world))
        heads = LogHeads(LogHeadSettings(log=True), store, world)
        text = watch.metrics(heads.counts, {})
    wanted = re.findall(r"(stateward_\w+)\{([^}]*)\}", "\n".join(queries("service-rules.yml")))
    assert len(wanted) == 7
    lines = [line.partition(" ")[0] for line in text.splitlines() if line[0] != "#"]
    for name, labels in wanted:
        matchers = re.findall(r'(\w+)(=~?)"([^"]*)"', labels)
        assert any(
            line.startswith(f"{name}{{")
            and all(re.search(f'{label}="({value})"', line) for label, _, value in matchers)
            for line in lines
        ), (name, labels)


def queries(file: str) -> Iterator[str]:
    text = (rules.HERE / file).read_text()
    if file.endswith(".yml"):
        for match in re.finditer(r"expr: (?:>-\n)?((?:.*\n)*?)(?= {8}(?:for|labels):)", text):
            yield match[1]
        return
    board = json.loads(text)
    for panel in board["panels"]:
        assert panel["targets"], panel["title"]
        yield from (target["expr"] for target in panel["targets"])


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    board = json.loads((rules.HERE / "grafana-dashboard.json").read_text())
    assert board["title"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) >= 12
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len(set(places)) == len(places)
    known = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)\}?", json.dumps(board["panels"])))
    assert used <= known | {"__rate_interval"}


def test_every_metric_has_its_place_on_the_dashboard() -> None:
    shown = set(METRIC.findall((rules.HERE / "grafana-dashboard.json").read_text()))
    shown = {re.sub("_(bucket|count|sum)$", "", name) for name in shown}
    assert {described.name for described in CATALOGUE} <= shown


# --- Datadog ----------------------------------------------------------------------------


async def test_every_metric_that_a_monitor_names_is_in_a_real_packet(log: Log) -> None:
    lines = Lines(tags=True).since_last(await troubled(log))
    sent = {line.partition(":")[0] for line in lines}
    monitors = json.loads((rules.HERE / "datadog-monitors.json").read_text())
    assert len(monitors) >= 6
    for monitor in monitors:
        named = re.findall(r"\b(?:sum|min|max|avg):([\w.]+)\{", monitor["query"])
        assert named, monitor["name"]
        for name in named:
            # Datadog makes such names itself, of a histogram.
            assert name.removesuffix(".95percentile").removesuffix(".as_count") in sent, name
        assert str(monitor["options"]["thresholds"]["critical"]) in monitor["query"].split()[-1]


# --- CloudWatch -------------------------------------------------------------------------


async def test_every_filter_finds_its_real_log_lines_and_no_others(log: Log) -> None:
    await troubled(log)
    template = json.loads((rules.HERE / "cloudwatch.json").read_text())
    filters = {
        name: resource["Properties"]["FilterPattern"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::Logs::MetricFilter"
    }
    hits = {
        name: [line["event"] for line in log.lines if matches(pattern, line)]
        for name, pattern in filters.items()
    }
    dropped = hits.pop("MemoryWriteDroppedFilter")  # nothing was: there was room
    assert dropped == []
    assert all(hits.values()), hits
    for name, events in hits.items():
        assert len(set(events)) == 1, name
        assert len(events) < len(log.lines)
    made_up = {"event": "memory_write_suppressed", "status": "dropped"}
    assert matches(filters["MemoryWriteDroppedFilter"], made_up)


def matches(pattern: str, line: dict[str, Any]) -> bool:
    """As CloudWatch evaluates `{ $.name = "value" && … }`; nothing else is used."""
    inside = re.fullmatch(r"\{ (.*) \}", pattern)
    assert inside is not None, pattern
    for term in inside[1].split(" && "):
        match = re.fullmatch(r'\$\.(\w+) = "([^"]*)"', term)
        assert match is not None, term
        if str(line.get(match[1])) != match[2]:
            return False
    return True


def test_every_alarm_watches_a_metric_that_a_filter_makes() -> None:
    resources = json.loads((rules.HERE / "cloudwatch.json").read_text())["Resources"].values()
    made = {
        (made["MetricNamespace"], made["MetricName"])
        for resource in resources
        if resource["Type"] == "AWS::Logs::MetricFilter"
        for made in resource["Properties"]["MetricTransformations"]
    }
    alarms = [r["Properties"] for r in resources if r["Type"] == "AWS::CloudWatch::Alarm"]
    assert {(alarm["Namespace"], alarm["MetricName"]) for alarm in alarms} == made
    (suppressed,) = [a for a in alarms if a["MetricName"] == "MemoryWriteSuppressed"]
    assert (suppressed["Threshold"], suppressed["Period"]) == (10, 300)


# --- getting them -----------------------------------------------------------------------


def test_the_files_can_be_copied_out_of_the_package(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stateward.observe.rules", str(tmp_path / "to")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    copied = sorted(path.name for path in (tmp_path / "to").iterdir())
    assert copied == [path.name for path in rules.files()]
    assert len(ran.stdout.splitlines()) == len(copied) == 7
    (tmp_path / "file").write_text("")
    command[-1] = str(tmp_path / "file" / "to")
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert refused.stderr.startswith("stateward: cannot write to")
