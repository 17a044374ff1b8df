"""The buyer's own monitoring: a metrics page, and the alerts that fire."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from stateward.errors import InvalidInput
from stateward.observe.metrics import quantile

SECONDS = 10.0
NAMES = ("lookup", "latency", "duration", "state")  # what the histogram of lookups may be called


def _get(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"{url!r} is no web address")
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        text: str = answer.read().decode("utf-8", "replace")
    return text


def scraped(url: str) -> dict[str, Any]:
    """Percentiles of the histogram whose name speaks most of lookups, in Prometheus text."""
    return percentiles(_get(url))


def percentiles(text: str) -> dict[str, Any]:
    """Of the histogram with "lookup" in its name, else of the first about latency."""
    buckets: dict[str, dict[float, float]] = {}
    for line in text.splitlines():
        name, brace, rest = line.partition("{")
        if not brace or not name.endswith("_bucket") or 'le="' not in rest:
            continue
        labels, _, value = rest.rpartition("} ")
        bound = float(labels.partition('le="')[2].partition('"')[0].replace("+Inf", "inf"))
        counts = buckets.setdefault(name, {})
        counts[bound] = counts.get(bound, 0.0) + float(value.split()[0])
    for word in NAMES:
        for name, counts in buckets.items():
            if word in name:
                return _percentiles(counts)
    return {"lookups": None, "percentiles": {}}


def _percentiles(cumulative: dict[float, float]) -> dict[str, Any]:
    bounds = sorted(cumulative)
    below, counts = 0.0, []
    for bound in bounds:
        counts.append(int(cumulative[bound] - below))
        below = cumulative[bound]
    finite = [bound for bound in bounds if bound != float("inf")]
    if len(finite) == len(bounds):
        counts.append(0)
    found = {
        f"p{round(q * 100)}": quantile(finite, counts, q) if finite else None
        for q in (0.5, 0.95, 0.99)
    }
    return {"lookups": int(below), "percentiles": found}


def firing(url: str) -> dict[str, Any]:
    """The names of alerts that fire: as Prometheus or its alert manager list them, in JSON."""
    said = json.loads(_get(url))
    if isinstance(said, dict):
        said = said.get("data", {}).get("alerts", []) or said.get("alerts", [])
    names = []
    for alert in said:
        state = alert.get("state") or alert.get("status", {}).get("state", "")
        if state in ("firing", "active"):
            names.append(alert.get("labels", {}).get("alertname", "alert"))
    return {"fired": names}
