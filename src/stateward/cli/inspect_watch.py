"""`stateward inspect --watch`: the store and the agents that use it, looked at again and again."""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.request
from typing import Any

import msgspec

from stateward import sync
from stateward.cli.common import OK
from stateward.cli.tables import table
from stateward.codec import MOST
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, StatewardError
from stateward.observe import catalogue as names
from stateward.observe.exporters.source import look
from stateward.observe.metrics import Metrics
from stateward.observe.prometheus_text import parse_text, percentiles

SCRAPE_SECONDS = 5.0
CLEAR = "\033[H\033[2J"


def watch(url: EngineURL, options: argparse.Namespace) -> int:
    """Until Ctrl-C, or `--times`. Each look asks the store something, as an agent would."""
    if not 0.1 <= options.every <= 3600:
        raise InvalidInput(f"--every must be from 0.1 to 3600 seconds, not {options.every:g}")
    if options.times is not None and not 1 <= options.times <= MOST:
        raise InvalidInput(f"--times must be at least 1, not {options.times}")
    looks = 0
    namespace = options.namespace
    with sync.open(url.text, namespace=namespace, spill=False, heartbeat=None) as store:
        while options.times is None or looks < options.times:
            if looks:
                time.sleep(options.every)
            looks += 1
            problem = _probe(store)
            metrics = look(store)
            agents = {address: _scrape(address) for address in options.scrape}
            if options.json:
                line = {"url": url.safe, "problem": problem, "agents": agents}
                print(json.dumps(line | {"metrics": msgspec.to_builtins(metrics)}), flush=True)
            else:
                _show(url, problem, metrics, agents, options.every)
    return OK


def _probe(store: sync.Store) -> str | None:
    """Return what is wrong with the store, or None if it answers."""
    try:
        for _ in store.threads(archived=None):
            break
        health = store.health()
    except StatewardError as error:
        return f"{type(error).__name__}: {error}"
    return health.error


def _show(
    url: EngineURL, problem: str | None, metrics: Metrics, agents: dict[str, Any], every: float
) -> None:
    out = [f"{url.safe}: {problem or 'answers'}  ({time.strftime('%H:%M:%S')}, every {every:g} s)"]
    rows = [
        {"": "measured from here", **_times(metrics)},
        *({"": address, **said} for address, said in agents.items()),
    ]
    columns = ["", *dict.fromkeys(name for row in rows for name in row if name)]
    out += ["", table(columns, rows)]
    storage = [
        {"storage": family.name.removeprefix("stateward_storage_"), "now": sample.value}
        for family in metrics.families
        if family.name.startswith("stateward_storage_")
        for sample in family.samples
    ]
    if storage:
        out += ["", table(("storage", "now"), storage)]
    print(f"{CLEAR if sys.stdout.isatty() else ''}{chr(10).join(out)}", flush=True)


def _times(metrics: Metrics) -> dict[str, Any]:
    took = metrics.distribution(names.LOOKUP_LATENCY.name)
    return {
        "lookups": took.count,
        "failed": int(metrics.value(names.LOOKUP_ERROR.name)),
        **{f"p{n} ms": _ms(value) for n, value in ((50, took.p50), (95, took.p95), (99, took.p99))},
    }


# --- what running agents say ------------------------------------------------------------


def _scrape(address: str) -> dict[str, Any]:
    """The numbers that matter most of one agent's endpoint, or why there are none."""
    if not address.startswith(("http://", "https://")):
        raise InvalidInput(f"--scrape must be the address of a metrics endpoint, not {address!r}")
    try:
        with urllib.request.urlopen(address, timeout=SCRAPE_SECONDS) as answer:
            text = answer.read(16 << 20).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        return {"problem": str(error)}
    samples = parse_text(text)

    def total(name: str, **labels: str) -> int:
        values = (v for n, have, v in samples if n == name and labels.items() <= have.items())
        return round(sum(values))

    lookups, times = percentiles(samples, names.LOOKUP_LATENCY.name)
    return {
        "lookups": lookups,
        "failed": total(names.LOOKUP_ERROR.name),
        **{f"p{n} ms": _ms(value) for n, value in times.items()},
        "conflicts": total(names.OPERATIONS.name, outcome="conflict"),
        "inconsistent": total(names.CONSISTENCY.name),
        "suppressed": total(names.SUPPRESSED.name),
        "waiting": total(names.SPILL_DEPTH.name),
        "context breaks": total(names.CONTEXT_BREAKS.name),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
