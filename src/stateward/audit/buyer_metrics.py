"""The buyer's own monitoring: a metrics page, and the alerts that fire."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from stateward.errors import InvalidInput
from stateward.observe.prometheus_text import parse_text, percentiles

SECONDS = 10.0
NAMES = ("lookup", "latency", "duration", "state")  # what the histogram of lookups may be called


def _get(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"{url!r} is not a web address")
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        text: str = answer.read().decode("utf-8", "replace")
    return text


def scrape(url: str) -> dict[str, Any]:
    """Return percentiles of the histogram most likely about lookups, from Prometheus text."""
    return percentiles_of(_get(url))


def percentiles_of(text: str) -> dict[str, Any]:
    """Return percentiles of the histogram named after "lookup", else of the first on latency."""
    samples = parse_text(text)
    names = [name for name, labels, _ in samples if name.endswith("_bucket") and "le" in labels]
    for word in NAMES:
        for name in names:
            if word in name:
                count, quantiles = percentiles(samples, name.removesuffix("_bucket"))
                named = {f"p{n}": value for n, value in quantiles.items()}
                return {"lookups": count, "percentiles": named}
    return {"lookups": None, "percentiles": {}}


def firing_alerts(url: str) -> dict[str, Any]:
    """The names of alerts that fire: as Prometheus or its alert manager list them, in JSON."""
    alerts = json.loads(_get(url))
    if isinstance(alerts, dict):
        alerts = alerts.get("data", {}).get("alerts", []) or alerts.get("alerts", [])
    names = []
    for alert in alerts:
        state = alert.get("state") or alert.get("status", {}).get("state", "")
        if state in ("firing", "active"):
            names.append(alert.get("labels", {}).get("alertname", "alert"))
    return {"fired": names}
