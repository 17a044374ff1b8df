"""A reader of Prometheus' text format, from our metrics endpoint or any other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from stateward.observe.metrics import quantile

_LINE = re.compile(r'([\w:]+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)')
_LABEL = re.compile(r'\b(\w+)="((?:[^"\\]|\\.)*)"')


class TextSample(NamedTuple):
    """One line of the text."""

    name: str
    labels: dict[str, str]
    value: float


def parse_text(text: str) -> list[TextSample]:
    """Return every sample; lines that are none are skipped."""
    samples = []
    for match in map(_LINE.match, text.splitlines()):
        if match is not None:
            try:
                value = float(match[3])
            except ValueError:
                continue  # a page of something else
            samples.append(TextSample(match[1], dict(_LABEL.findall(match[2] or "")), value))
    return samples


def percentiles(
    samples: Sequence[TextSample], histogram: str
) -> tuple[int, dict[int, float | None]]:
    """Return the number of values in all series of a histogram, and its p50, p95 and p99."""
    below: dict[float, float] = {}
    for name, labels, value in samples:
        if name == f"{histogram}_bucket" and "le" in labels:
            bound = float(labels["le"])
            below[bound] = below.get(bound, 0.0) + value
    up_to = [below[bound] for bound in sorted(below)]
    counts = [int(until - before) for before, until in zip([0.0, *up_to], up_to, strict=False)]
    bounds = [bound for bound in sorted(below) if bound != float("inf")]
    if len(bounds) == len(counts):
        counts.append(0)  # nothing is said of what lies above them all
    return sum(counts), {
        n: quantile(bounds, counts, n / 100) if bounds else None for n in (50, 95, 99)
    }
