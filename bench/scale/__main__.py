"""`python -m bench.scale`: how cost grows. It measures, it asserts nothing.

python -m bench.scale                                       all of it: about half an hour
python -m bench.scale --only open --engine sqlite           a part
python -m bench.scale --json scale.json                     adds to what that file holds
python -m bench.scale --from scale.json --page docs/explanation/scale.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.scale import calls, crew, crowd, long_work, million, slots
from bench.scale.places import PLACES, TITLES, Place
from bench.scale.tables import markdown

SECTIONS = ("calls", "open", "processes", "million", "workflow", "slots")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    found: dict[str, Any] = _kept(options.kept or options.json)
    if options.kept is None:
        for engine in options.engine:
            for section in options.only:
                if not _applies(engine, section):
                    continue
                rows = _measured(engine, section, options)
                found.setdefault(section, {})[engine] = rows
                found["setting"] = _setting()
                if options.json is not None:
                    options.json.write_text(json.dumps(found, indent=1), "utf-8")
    print(markdown(found))
    if options.page is not None:
        before, rest = options.page.read_text("utf-8").split(BEGIN)
        after = rest.split(END)[1]
        options.page.write_text(f"{before}{BEGIN}\n\n{markdown(found)}\n\n{END}{after}", "utf-8")


def _applies(engine: str, section: str) -> bool:
    """Slots are a cluster's; partitions are looked at where they could make a difference."""
    if section == "slots":
        return engine == "redis"
    return engine != "partitioned" or section in ("calls", "million")


def _measured(engine: str, section: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A place of its own for each section: what one left must not slow the next."""
    measure: dict[str, Callable[[Place, Path], list[Any]]] = {
        "calls": lambda place, _: calls.measure(place, 50 * options.calls),
        "open": lambda place, _: [
            crowd.measure(place, many, rate=options.rate, seconds=options.seconds)
            for many in options.conversations
        ],
        "processes": lambda place, _: [
            crew.measure(place, many, conversations=options.each, turns=options.turns)
            for many in options.processes
        ],
        "million": lambda place, folder: [
            million.measure(
                place,
                folder,
                options.messages,
                rounds=options.rounds,
                calls=options.calls,
                say=lambda text: _say(f"  {text}"),
            )
        ],
        "workflow": lambda place, _: [
            row for many in options.steps for row in long_work.measure(place, many)
        ],
    }
    _say(f"{TITLES[engine]}: {section}")
    if section == "slots":
        return [asdict(row) for row in slots.measure()]
    with tempfile.TemporaryDirectory(prefix="stateward-scale-", dir=options.folder) as name:
        place: Place = PLACES[engine](Path(name))
        try:
            return [asdict(row) for row in measure[section](place, Path(name))]
        finally:
            place.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", type=_words, default=SECTIONS, metavar="SECTION,…", help=", ".join(SECTIONS))
    add("--engine", type=_words, default=tuple(PLACES), help=", ".join(PLACES))
    add("--conversations", type=_numbers, default=(1_000, 10_000), help="open at once")
    add("--rate", type=float, default=500.0, help="turns a second, for those that take turns")
    add("--seconds", type=float, default=5.0, help="for how long they do")
    add("--processes", type=_numbers, default=(1, 8), help="on one store")
    add("--each", type=int, default=10, help="conversations of each process")
    add("--turns", type=int, default=100, help="in each of its conversations")
    add("--messages", type=int, default=1_000_000, help="in one store")
    add("--rounds", type=int, default=9, help="in a large store and a small one, in turns")
    add("--calls", type=int, default=200, help="in each of these rounds")
    add("--steps", type=_numbers, default=(100, 1_000, 10_000), help="in one workflow")
    add("--folder", help="where the files go; it must be on a real disk")
    add("--json", type=Path, metavar="FILE", help="add the figures to this file")
    add("--from", dest="kept", type=Path, metavar="FILE", help="measure nothing: show these")
    add("--page", type=Path, metavar="FILE", help="put the tables into this page")
    options = parser.parse_args(arguments)
    for given, known in ((options.only, SECTIONS), (options.engine, tuple(PLACES))):
        wrong = [word for word in given if word not in known]
        if wrong:
            parser.error(f"{wrong[0]}: use one of {', '.join(known)}")
    return options


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _kept(path: Path | None) -> dict[str, Any]:
    if path is None or not path.exists():
        return {}
    kept: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return kept


def _setting() -> str:
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} cores shared by client and server, "
        f"load average {os.getloadavg()[2]:.1f} of the last quarter of an hour"
    )


def _say(what: str) -> None:
    print(f"{perf_counter() - _begun:5.0f} s  {what}", file=sys.stderr, flush=True)


_begun = perf_counter()


if __name__ == "__main__":
    main()
