"""`stateward inspect --watch`: the store and the agents that use it, looked at again and again."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import urllib.request
from collections.abc import Iterable
from typing import Any

import msgspec

from stateward import sync
from stateward.cli import OK
from stateward.cli.tables import table
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, StatewardError
from stateward.observe import catalogue as names
from stateward.observe.exporters.source import look
from stateward.observe.metrics import DURATIONS, Metrics, quantile

SCRAPE_SECONDS = 5.0
CLEAR = "\033[H\033[2J"

_LINE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def watch(url: EngineURL, options: argparse.Namespace) -> int:
    """Until Ctrl-C, or `--times`. Each look asks the store something, as an agent would."""
    if not 0.1 <= options.every <= 3600:
        raise InvalidInput(f"--every is in seconds, from 0.1 to 3600, not {options.every:g}")
    looks = 0
    with sync.open(url.text, namespace=options.namespace) as store:
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
    """What is wrong with the store; None: it answers."""
    try:
        for _ in store.threads():
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
        {"": "asked from here", **_times(metrics)},
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
        raise InvalidInput(f"--scrape is the address of a metrics endpoint, not {address!r}")
    try:
        with urllib.request.urlopen(address, timeout=SCRAPE_SECONDS) as answer:
            text = answer.read(16 << 20).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        return {"problem": str(error)}
    samples = list(parse_text(text.splitlines()))

    def total(name: str, **labels: str) -> float:
        return sum(v for n, have, v in samples if n == name and labels.items() <= have.items())

    below = [total(f"{names.LOOKUP_LATENCY.name}_bucket", le=_le(bound)) for bound in DURATIONS]
    below.append(total(f"{names.LOOKUP_LATENCY.name}_count"))
    counts = [round(b - a) for a, b in zip([0.0, *below], below, strict=False)]
    return {
        "lookups": round(below[-1]),
        "failed": round(total(names.LOOKUP_ERROR.name)),
        "p50 ms": _ms(quantile(DURATIONS, counts, 0.5)),
        "p95 ms": _ms(quantile(DURATIONS, counts, 0.95)),
        "p99 ms": _ms(quantile(DURATIONS, counts, 0.99)),
        "conflicts": round(total(names.OPERATIONS.name, outcome="conflict")),
        "inconsistent": round(total(names.CONSISTENCY.name)),
        "suppressed": round(total(names.SUPPRESSED.name)),
        "waiting": round(total(names.SPILL_DEPTH.name)),
        "context breaks": round(total(names.CONTEXT_BREAKS.name)),
    }


def parse_text(lines: Iterable[str]) -> Iterable[tuple[str, dict[str, str], float]]:
    """Name, labels and value of every sample in Prometheus' text format."""
    for line in lines:
        match = _LINE.match(line)
        if match is not None and not line.startswith("#"):
            yield match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])


def _le(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else repr(bound)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
