"""`stateward audit`: attack a memory architecture before production does."""

from __future__ import annotations

import argparse
import sys

from stateward.audit.config import read_config, thresholds_of
from stateward.audit.prices import read_prices
from stateward.audit.report import Report
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.targets.naive import NAIVE
from stateward.cli.audit.compare import show_reports
from stateward.cli.audit.keep import keep, place_of
from stateward.cli.audit.options import WORDS as OPTION_WORDS
from stateward.cli.audit.options import add_options
from stateward.cli.audit.output import changes_since, shown, write
from stateward.cli.audit.run import judged, recorded, saved
from stateward.cli.common import FAILED, INTERRUPTED, OK, UNKNOWN
from stateward.engines.url import did_you_mean
from stateward.errors import InvalidInput

USAGE = "stateward audit [TARGET] [options]"
EXAMPLES = """\
Asks 30 questions about a memory architecture and answers them by experiment: it writes, races,
kills, takes the store away, backs up and restores, in a separate namespace, which it removes
afterwards.

examples:
  stateward audit                                  an embedded SQLite store in a temporary folder
  stateward audit sqlite:///agents.db --profile full --output audit
  stateward audit langgraph:postgres --url postgresql://…      a framework's own store
  stateward audit openai-agents:sqlite             another one, in a temporary folder
  stateward audit https://KEY@state.example.com    a service, and the store behind it
  stateward audit naive:json-files                 see what fails
  stateward audit memory_of_mine:create            your own class; see: stateward audit init --help
  stateward audit --with-server postgres           a server started for the audit, and killed
  stateward audit --with-server redis --server-setting appendonly=no --only outage,settings
  stateward audit redis://… --prices prices.toml   and what a month costs

exit codes: 0 pass or warn, 1 fail, 2 wrong usage, 3 unknown, 4 interrupted"""

WORDS = {**OPTION_WORDS, "target": (*FRAMEWORKS, *(f"naive:{name}" for name in NAIVE))}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        nargs="*",
        help="a store's URL, statefulset:3, naive:…, module:factory, or a framework's store: "
        f"{', '.join(FRAMEWORKS)}",
    )
    add_options(parser, alone=True)
    shown_beside = "show earlier reports side by side: --compare monday.json friday.json"
    parser.add_argument("--compare", action="store_true", help=shown_beside)


def run(options: argparse.Namespace) -> int:
    if options.compare:
        if len(options.target) < 2:
            raise InvalidInput("--compare takes reports: --compare monday.json friday.json")
        return show_reports(options, options.target)
    target, url = _one(options)
    kept_in = place_of(options, target)
    config, prices = read_config(options.config), read_prices(options.prices)
    limits = thresholds_of(config.thresholds)
    if options.saved is not None:
        record = saved(options.saved)
    elif (made := recorded(options, config, target, url)) is not None:
        record = made
    else:
        return OK
    report = judged(options, record, config, limits, prices)
    write(options, record, report)
    print(shown(options, report))
    changes = changes_since(options, report)
    if kept_in is not None:
        changes += keep(options, kept_in, report)
    if changes:
        print(changes, file=sys.stderr if options.json else sys.stdout)
    return exit_code(report)


def _one(options: argparse.Namespace) -> tuple[str | None, str | None]:
    """Return the target, if any was named, and the URL of its state."""
    target, urls = next(iter(options.target), None), options.url or []
    if target is not None and ":" not in target:
        meant = did_you_mean(target, ("clean", "compare", "init", "list", "show"))
        if meant:
            raise InvalidInput(
                f"{target!r} is not a target{meant}; subcommands come right after audit"
            )
    if len(options.target) > 1:
        raise InvalidInput(f"one TARGET at a time, not {len(options.target)}")
    if len(urls) > 1:
        raise InvalidInput("one --url for one TARGET; several are for stateward audit compare")
    return target, next(iter(urls), None)


def exit_code(report: Report) -> int:
    if report.interrupted:
        return INTERRUPTED
    return {"pass": OK, "warn": OK, "unknown": UNKNOWN}.get(report.verdict, FAILED)
