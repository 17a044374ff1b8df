"""`stateward signals`: what the processes of a store measured over time."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence

from msgspec import to_builtins

from stateward.cli.common import OK, add_namespace, add_url
from stateward.cli.tables import cell, printable, table
from stateward.cli.verbs import opened
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.records import SignalPoint, Signals
from stateward.state.signal_record import RESOLUTION

EXAMPLES = """\
What the processes that have the store open measured with each heartbeat, combined: each signal over
time, and the latest conversations concerned. The store keeps a day of it. Changes nothing.

examples:
  stateward signals sqlite:///agents.db
  stateward signals sqlite:///agents.db --since 1d
  stateward signals sqlite:///agents.db --since 6h --step 5m --json"""
COLUMNS = ("signal", "over_time", "in_all", "most", "last", "concerned")
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 48  # points of a line
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MILLISECONDS = ("lookup_p50", "lookup_p95", "lookup_p99")
STANDING = ("replicas", "kept", "breakers_open", "storage_bytes")  # not counted, but so just then
COUNTED = (
    *("lookups", "writes", "failures", "conflicts", "fenced", "went_back", "suppressed"),
    *("dropped", "lost", "late", "context_breaks", "cache_hits", "cache_misses"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add_namespace(add)
    add("--since", default="1h", metavar="TIME", help="how far to look back: 30m, 6h, 1d (1h)")
    add(
        "--step", metavar="TIME", help="length of a point, at least 10s (default: what fits a line)"
    )
    add(
        "--replica",
        metavar="ID",
        help="only this process; stateward inspect URL replicas lists ids",
    )


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    since = seconds_of("--since", options.since)
    step = None if options.step is None else seconds_of("--step", options.step)
    if step is None and not options.json:
        step = max(RESOLUTION, since / WIDTH)
    with opened(url, options.namespace) as store:
        signals = store.signals(since, step, replica=options.replica)
    if options.json:
        print(json.dumps({"url": url.safe, "namespace": options.namespace} | to_builtins(signals)))
        return OK
    total = signals.total
    if not signals.points:
        print(
            "no measurements in that time; a process starts to measure 10 seconds after it has "
            "opened the store"
        )
        return OK
    print(
        f"{cell(signals.since)} to {cell(signals.until)}: {total.replicas} process"
        f"{'es' * (total.replicas != 1)}, {signals.step:g} s a sign\n"
    )
    rows = [_row(name, signals) for name in (*COUNTED, *MILLISECONDS, *STANDING)]
    print(table(COLUMNS, [row for row in rows if row is not None], 80))
    return OK


def seconds_of(option: str, text: str) -> float:
    """A time as people write it: 90, 90s, 30m, 6h, 1d."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)", text.strip())
    if match is None:
        raise InvalidInput(
            f"{option} must be a time such as 30m, 6h or 1d, not {printable(text)!r}"
        )
    return float(match[1]) * UNITS[match[2] or "s"]


def _row(name: str, signals: Signals) -> dict[str, object] | None:
    """One signal; None: there is nothing to say of it."""
    values = [_value(name, point) for point in signals.points]
    measured = [value for value in values if value is not None]
    if not any(measured):
        return None
    concerned = [f"{each.kind}/{each.id}" for each in signals.total.concerned.get(name, ())]
    return {
        "signal": name.replace("_", " ") + " (ms)" * (name in MILLISECONDS),
        "over_time": _line(values, signals),
        "in_all": None if name in STANDING else _value(name, signals.total),
        "most": max(measured),
        "last": measured[-1],
        "concerned": ", ".join(map(printable, concerned)) or None,
    }


def _value(name: str, point: SignalPoint) -> float | None:
    value: float | None = getattr(point, name)
    return value * 1000 if value is not None and name in MILLISECONDS else value


def _line(values: Sequence[float | None], signals: Signals) -> str:
    """Bars from nothing to the most, and a blank where no one measured."""
    highest = max((value for value in values if value is not None), default=0) or 1
    first, step = signals.since.timestamp() // signals.step, signals.step
    bars = [" "] * int(signals.until.timestamp() // step - first + 1)
    for value, point in zip(values, signals.points, strict=True):
        place = int(point.at.timestamp() / step + 0.5 - first)
        if value is not None and 0 <= place < len(bars):
            bars[place] = BARS[min(len(BARS) - 1, int(value / highest * (len(BARS) - 1) + 0.5))]
    return "".join(bars)
