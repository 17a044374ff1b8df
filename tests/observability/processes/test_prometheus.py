"""Prometheus can read it, its alerts fire, and a real one says so of a real outage."""

from __future__ import annotations

import json
import logging
import shutil
import socket
import struct
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from processes.children import Child
from servers.ports import free_port

from observability import scrapes
from observability.colours import ok
from observability.tools import missing
from stateward import sync
from stateward.observe import rules
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.exporters.prometheus import CONTENT_TYPE, serve
from stateward.observe.metrics import Metrics

HELLO = {"role": "user", "content": "hello"}
PATIENCE = 30.0

CONFIG = """\
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 200ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: agents
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        if url.endswith("/metrics"):
            assert answer.headers["Content-Type"] == CONTENT_TYPE
        text: str = answer.read().decode()
        return text


def until(condition: Callable[[], Any], what: str) -> Any:
    """Ask again until it is so."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if answer := condition():
                return answer
        except (urllib.error.URLError, ConnectionError):
            pass  # not listening yet
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {PATIENCE:g} s")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """An outage: another process of this machine keeps the file for itself."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(5000)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


# --- the text ---------------------------------------------------------------------------


async def test_the_scrape_is_well_formed_and_says_what_happened(store: Any) -> None:
    for n in range(5):
        await ok(store.thread(f"s-{n}").append(HELLO))
        await ok(store.thread(f"s-{n}").load())
    with serve(store, port=0) as endpoint:
        scrape = scrapes.read(get(endpoint.url))
        with pytest.raises(urllib.error.HTTPError, match="the metrics are at /metrics"):
            get(endpoint.url.replace("metrics", "nothing"))
    assert scrape.types == {described.name: described.type for described in CATALOGUE}
    labels = {"engine": "memory", "kind": "thread", "operation": "append"}
    assert scrape.total("stateward_operation_duration_seconds_count", **labels) == 5
    assert scrape.total("agent_state_lookup_success_total", engine="memory") == 5
    assert scrape.total("stateward_storage_bytes", engine="memory") > 0
    assert scrape.total("stateward_storage_rows", engine="memory") == 10
    with pytest.raises(urllib.error.URLError):
        get(endpoint.url)  # closed with its block


async def test_every_label_in_a_scrape_is_one_of_the_catalogue(store: Any) -> None:
    await ok(store.thread("s-1").append(HELLO))
    with store.faults.unavailable():
        await ok(store.thread("s-1").append(HELLO))
    by_name = {described.name: set(described.labels) for described in CATALOGUE}
    for family in store.metrics().families:
        for sample in (*family.samples, *family.distributions):
            assert set(sample.labels) == by_name[family.name], family.name


class Late:
    """A store whose metrics come when nobody waits for them any more."""

    def __init__(self, store: sync.Store, gone: threading.Event) -> None:
        self._store, self._gone = store, gone
        self.collector = store.collector

    def metrics(self) -> Metrics:
        assert self._gone.wait(PATIENCE)
        return self._store.metrics()


def test_a_scraper_that_hangs_up_leaves_no_traceback(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    gone = threading.Event()
    caplog.set_level(logging.DEBUG, "stateward.observe.exporters")
    with sync.open("memory://") as store, serve(Late(store, gone), port=0) as endpoint:
        with socket.create_connection(("127.0.0.1", endpoint.port)) as scraper:
            scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
            scraper.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.set()
        until(lambda: "scrape_not_answered" in caplog.messages, "a word about it in the log")
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert capsys.readouterr().err == ""


# --- the rules --------------------------------------------------------------------------


def test_the_alert_rules_fire_when_they_should_and_only_then(
    prometheus_tools: dict[str, str],
) -> None:
    if missing(prometheus_tools, "promtool"):
        pytest.skip("no promtool")
    promtool = prometheus_tools["promtool"]
    for command in (
        *("check rules prometheus-rules.yml", "test rules prometheus-rules-test.yml"),
        *("check rules service-rules.yml", "test rules service-rules-test.yml"),
    ):
        ran = subprocess.run(
            [promtool, *command.split()], cwd=rules.HERE, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "SUCCESS" in ran.stdout + ran.stderr


@pytest.mark.parametrize("of", ["prometheus", "service"])
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(of: str) -> None:
    alerting = (rules.HERE / f"{of}-rules.yml").read_text()
    cases = (rules.HERE / f"{of}-rules-test.yml").read_text()
    alerts = [line.split()[-1] for line in alerting.splitlines() if "- alert:" in line]
    assert len(alerts) >= 6
    well, _, wrong = cases.partition("everything is wrong")
    for alert in alerts:
        assert f"alertname: {alert}, exp_alerts: []" in well
        assert f"alertname: {alert}\n        exp_alerts:\n          - exp_labels" in wrong


# --- a real one -------------------------------------------------------------------------


class Prometheus:
    """A real server that scrapes one address, twice a second."""

    def __init__(self, path: str, folder: Path, port: int) -> None:
        folder.mkdir()
        shutil.copy(rules.HERE / "prometheus-rules.yml", folder)
        config = CONFIG.format(rules=folder / "prometheus-rules.yml", port=port)
        (folder / "prometheus.yml").write_text(config)
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}/api/v1"
        self.process = subprocess.Popen(
            [
                path,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def query(self, expression: str) -> float:
        asked = urllib.parse.urlencode({"query": expression})
        result = json.loads(get(f"{self.url}/query?{asked}"))["data"]["result"]
        return sum(float(found["value"][1]) for found in result)

    def firing(self) -> set[str]:
        alerts = json.loads(get(f"{self.url}/alerts"))["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


# What the first seed wants watched, by what answers it.
WATCHED = {
    "lookup latency": "histogram_quantile(0.95, sum by (le)"
    " (rate(agent_state_lookup_latency_seconds_bucket[5m])))",
    "lookups answered": "agent_state_lookup_success_total",
    "operations": 'stateward_operations_total{outcome="ok"}',
    "storage": "stateward_storage_bytes",
    "rows": "stateward_storage_rows",
    "batches": "stateward_batch_size_count",
    "context breaks": "stateward_context_breaks_total",
}
PRESENT = (
    "agent_state_lookup_error_total",
    "stateward_consistency_errors_total",
    "stateward_cache_lookups_total",
    "stateward_retries_total",
    "stateward_dropped_writes_total",
)


def test_a_real_prometheus_sees_the_load_and_the_alert_of_a_real_outage(
    start: Callable[..., Child], tmp_path: Path, prometheus_tools: dict[str, str]
) -> None:
    agent = start("agent", f"sqlite:///{tmp_path}/agents.db", tmp_path / "agent.log")
    port = int(agent.until_lines(1)[0])
    address = f"http://127.0.0.1:{port}/metrics"

    def scraped(name: str, **labels: str) -> float:
        return scrapes.read(get(address)).total(name, **labels)

    until(lambda: scraped("agent_state_lookup_success_total") > 50, "load in the scrape")
    assert set(PRESENT) <= scrapes.read(get(address)).samples.keys()
    if missing(prometheus_tools, "prometheus"):
        with locked(tmp_path / "agents.db"):
            until(lambda: scraped("stateward_suppressed_writes_total") >= 10, "suppressed writes")
    else:
        server = Prometheus(prometheus_tools["prometheus"], tmp_path / "prometheus", port)
        try:
            watch_an_outage(server, tmp_path / "agents.db")
        finally:
            server.end()
    until(lambda: scraped("stateward_replayed_writes_total") >= 10, "what was kept is replayed")
    agent.tell("enough")
    agent.finish()


def watch_an_outage(server: Prometheus, path: Path) -> None:
    for what, expression in WATCHED.items():
        until(lambda expression=expression: server.query(expression) > 0, what)
    for name in PRESENT:
        assert server.query(f"count({name})") > 0, name
    assert "StatewardWritesSuppressed" not in server.firing()
    with locked(path):
        until(lambda: "StatewardWritesSuppressed" in server.firing(), "the alert")
        until(lambda: server.query("stateward_spill_depth") > 0, "the spill's depth")
        until(lambda: server.query("stateward_spill_age_seconds") > 0, "the spill's age")
