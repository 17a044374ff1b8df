"""A strict reading of what Prometheus would scrape."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import NamedTuple

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"')

Labels = frozenset[tuple[str, str]]


class Scrape(NamedTuple):
    types: dict[str, str]
    samples: dict[str, dict[Labels, float]]

    def total(self, name: str, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(v for have, v in self.samples.get(name, {}).items() if wanted <= have)


def read(text: str) -> Scrape:
    """Raises `AssertionError` for whatever the format forbids."""
    types: dict[str, str] = {}
    helped: set[str] = set()
    samples: dict[str, dict[Labels, float]] = defaultdict(dict)
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helped, f"{name} is explained twice"
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} has two types"
            assert kind in ("counter", "gauge", "histogram")
            types[name] = kind
        else:
            name, labels, value = _sample(line)
            assert _family(name, types) in helped, f"{name} is of no family above it"
            assert labels not in samples[name], f"the same sample twice: {line}"
            samples[name][labels] = value
    for name, kind in types.items():
        if kind == "histogram":
            _check_histogram(name, samples)
        elif kind == "counter":
            assert name.endswith("_total")
            assert all(value >= 0 for value in samples[name].values())
    return Scrape(types, dict(samples))


def _sample(line: str) -> tuple[str, Labels, float]:
    match = SAMPLE.fullmatch(line)
    assert match is not None, f"no sample: {line!r}"
    labels = match["labels"] or ""
    pairs = LABEL.findall(labels)
    assert ",".join(f'{name}="{value}"' for name, value in pairs) == labels, line
    assert len({name for name, _ in pairs}) == len(pairs), line
    return match["name"], frozenset(pairs), float(match["value"])


def _family(name: str, types: dict[str, str]) -> str:
    if name in types:
        return name
    return re.sub(r"_(bucket|sum|count)$", "", name)


def _check_histogram(name: str, samples: dict[str, dict[Labels, float]]) -> None:
    buckets: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for labels, value in samples[f"{name}_bucket"].items():
        bound = dict(labels)["le"]
        rest = frozenset(pair for pair in labels if pair[0] != "le")
        buckets[rest].append((float(bound.replace("+Inf", "inf")), value))
    assert buckets.keys() == samples[f"{name}_count"].keys() == samples[f"{name}_sum"].keys()
    for labels, found in buckets.items():
        counts = [count for _, count in sorted(found)]
        assert counts == sorted(counts), f"{name} does not grow with its bounds"
        assert sorted(found)[-1] == (float("inf"), samples[f"{name}_count"][labels])
