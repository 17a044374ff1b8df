"""`python -m bench.repeats [FOLDER]`: how well, and how fast, lost context is noticed.

FOLDER holds dev.jsonl: dialogues, one JSON object a line, with `history`, `candidate` (the
assistant's next message), `known` (slots and values) and `repeat` (whether the candidate asks for
something settled). It measures, it asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from math import sqrt
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from stateward import InvalidInput
from stateward.repeats import Repeat, find_repeats, local_embed

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT.parent / "shared" / "data" / "reask"

Moment = dict[str, Any]
Find = Callable[[list[Moment], dict[str, Any]], list[Repeat]]


class Share(NamedTuple):
    """So many of so many."""

    some: int
    all: int

    def __float__(self) -> float:
        return self.some / max(1, self.all)

    def __str__(self) -> str:
        """With the interval that the true share lies in at 95 % (Wilson's, which holds near 0)."""
        z, n, p = 1.96, max(1, self.all), float(self)
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return f"{p:.3f} ({max(0.0, middle - half):.3f}-{min(1.0, middle + half):.3f})"


class Figures(NamedTuple):
    """What one way of looking found: shares of the repeats and of the others."""

    recall: Share
    false: Share
    lowest: float  # recall on the worst topic
    highest: float  # false positives on the worst topic
    elsewhere: float  # repeats an earlier message, where the data marks none
    milliseconds: float  # a message


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.repeats", description=__doc__)
    default = os.environ.get("STATEWARD_REASK", str(FOLDER))
    parser.add_argument("folder", nargs="?", type=Path, default=Path(default))
    file = parser.parse_args().folder / "dev.jsonl"
    if not file.exists():
        print(
            f"there is no {file}. Pass the folder that has dev.jsonl: make bench-repeats "
            "ARGS=path/to/folder, or set STATEWARD_REASK to it.",
            file=sys.stderr,
        )
        return 2
    moments = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    print(f"{len(moments):,} moments, {sum(m['repeat'] for m in moments):,} of them repeats")
    print(f"{'':<31} recall (95 %)        false (95 %)         | worst topic    | elsewhere  ms")
    for name, find in _ways():
        print(f"{name:<31} {_row(measure(moments, find))}")
    return 0


def _ways() -> Iterable[tuple[str, Find]]:
    yield "default, with the user's state", lambda m, known: find_repeats(m, user=known)
    yield "default, messages alone", lambda m, _: find_repeats(m)
    try:
        embed = local_embed()
    except InvalidInput as error:
        print(f"not measured: {error}", file=sys.stderr)
        return
    yield (
        "semantic, with the user's state",
        lambda m, known: find_repeats(m, user=known, embed=embed),
    )
    yield "semantic, messages alone", lambda m, _: find_repeats(m, embed=embed)


def measure(moments: list[Moment], find: Find) -> Figures:
    """The figures over all moments, and over the topic (`known`'s own prefix) that fares worst."""
    hits: dict[str, list[tuple[bool, bool]]] = {}
    elsewhere = messages = 0
    seconds = 0.0
    for moment in moments:
        talk = [*moment["history"], {"role": "assistant", "content": moment["candidate"]}]
        begun = perf_counter()
        found = find(talk, moment["known"])
        seconds += perf_counter() - begun
        last = len(talk) - 1
        messages += len(talk)
        elsewhere += sum(repeat.at != last for repeat in found)
        flagged = any(repeat.at == last for repeat in found)
        hits.setdefault(_topic(moment), []).append((moment["repeat"], flagged))
    every = [pair for pairs in hits.values() for pair in pairs]
    large = [pairs for pairs in hits.values() if len(pairs) >= 30]
    return Figures(
        _share(every, True),
        _share(every, False),
        min(float(_share(pairs, True)) for pairs in large),
        max(float(_share(pairs, False)) for pairs in large),
        elsewhere / messages,
        1000 * seconds / messages,
    )


def _topic(moment: Moment) -> str:
    return next((name.partition(".")[0] for name in moment["known"]), "")


def _share(pairs: list[tuple[bool, bool]], repeat: bool) -> Share:
    flags = [flagged for is_repeat, flagged in pairs if is_repeat is repeat]
    return Share(sum(flags), len(flags))


def _row(figures: Figures) -> str:
    return (
        f"{figures.recall}  {figures.false}  | {figures.lowest:6.3f} "
        f"{figures.highest:6.3f}  | {figures.elsewhere:9.4f}  {figures.milliseconds:12.3f}"
    )


if __name__ == "__main__":
    sys.exit(main())
