"""`python -m bench.peers`: measure Stateward beside its peers, and write docs/performance.md.

It measures and asserts nothing: where a peer is ahead, the page says so first.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.__main__ import _fsync
from bench.conversations import Population
from bench.peers import keeping, playing
from bench.peers.machine import setting
from bench.peers.page import write
from bench.peers.places import Places, places
from bench.peers.table import ENGINES, STATE, TASKS, TITLES, Entry, taking_part

SECTIONS = ("calls", "crowd", "histories", "tasks", "storage", "memory")
DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURES = Path(__file__).with_name("figures.json")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    if options.again:
        figures = json.loads(options.json.read_text("utf-8"))
    else:
        figures = _measure(options)
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    write(figures, options.docs)
    _say(f"wrote {options.docs / 'performance.md'}; the figures are in {options.json}")


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    # A session of one framework holds some connections for each conversation.
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    logging.disable(logging.WARNING)
    figures: dict[str, Any] = {"cells": [], "storage": [], "memory": []}
    entries = {engine: _entries(engine, options) for engine in options.engine}
    with tempfile.TemporaryDirectory(prefix="stateward-peers-", dir=options.folder) as name:
        folder = Path(name)
        begun, load = _fsync(folder), os.getloadavg()[0]
        for engine in options.engine:
            home = folder / engine
            home.mkdir()
            with places(engine, home) as there:
                _on(engine, there, *entries[engine], options, figures)
        disk = (begun, _fsync(folder))
    figures["setting"] = setting(
        [
            (engine, entry)
            for engine, (state, tasks) in entries.items()
            for entry in (*state, *tasks)
        ],
        rounds=options.rounds,
        slot=options.slot,
        fsync=disk,
        load=load,
        seconds=perf_counter() - _begun,
    )
    return figures


def _entries(engine: str, options: argparse.Namespace) -> tuple[list[Entry], list[Entry]]:
    alone = options.installed
    state = taking_part(STATE[engine], installed_alone=alone)
    return state, taking_part(TASKS.get(engine, ()), installed_alone=alone)


def _on(
    engine: str,
    there: Places,
    state: list[Entry],
    tasks: list[Entry],
    options: argparse.Namespace,
    figures: dict[str, Any],
) -> None:
    """Everything on one engine."""
    often = {"rounds": options.rounds, "seconds": options.slot}
    population = options.population
    groups = playing.works(options.only, population)
    if groups:
        _say(f"{TITLES[engine]}: filling the stores of {len(state)} contestants")
        with playing.opened(state, there, population) as field:
            for works in groups:
                _say(f"{TITLES[engine]}: " + "; ".join(map(str, works)))
                figures["cells"] += playing.measure(engine, field, works, population, **often)
    if "tasks" in options.only and tasks:
        _say(f"{TITLES[engine]}: tasks that run once")
        nobody = Population(users=1, profiles=False)
        with playing.opened(tasks, there, nobody) as field:
            figures["cells"] += playing.measure(engine, field, playing.TASKS, nobody, **often)
    if "storage" in options.only:
        _say(f"{TITLES[engine]}: bytes stored and written")
        figures["storage"] += keeping.stored(
            engine, state, there, turns=options.turns, long=options.long
        )
    if "memory" in options.only:
        _say(f"{TITLES[engine]}: memory of open conversations")
        figures["memory"] += keeping.remembered(engine, state, there)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about 4 minutes, rougher")
    parser.add_argument("--only", metavar="SECTION,…", default=",".join(SECTIONS))
    parser.add_argument("--engine", metavar="ENGINE,…", default=",".join(ENGINES))
    parser.add_argument("--rounds", type=int, help="how often each contestant has its turn")
    parser.add_argument("--slot", type=float, metavar="MS", help="how long each turn lasts")
    parser.add_argument("--folder", help="where the files go; it must be on a real disk")
    parser.add_argument("--small", action="store_true", help="few conversations, to try it out")
    parser.add_argument(
        "--installed", action="store_true", help="leave out the contestants that are not installed"
    )
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the page goes")
    parser.add_argument("--json", type=Path, default=FIGURES, help="where the figures go")
    parser.add_argument("--again", action="store_true", help="write the page from those figures")
    options = parser.parse_args(arguments)
    options.only = _words(parser, "--only", options.only, SECTIONS)
    options.engine = _words(parser, "--engine", options.engine, ENGINES)
    options.rounds = options.rounds or (5 if options.quick else 11)
    options.slot = (options.slot or (30 if options.quick else 40)) / 1000
    options.turns = 10 if options.small else keeping.TURNS
    options.long = 40 if options.small else keeping.LONG
    options.population = playing.SMALL if options.small else playing.POPULATION
    return options


def _words(
    parser: argparse.ArgumentParser, option: str, given: str, known: Sequence[str]
) -> list[str]:
    words = given.split(",")
    for word in words:
        if word not in known:
            parser.error(f"{option} {word}: use one of {', '.join(known)}")
    return words


def _say(what: str) -> None:
    print(f"{perf_counter() - _begun:5.0f} s  {what}", file=sys.stderr, flush=True)


_begun = perf_counter()


if __name__ == "__main__":
    main()
