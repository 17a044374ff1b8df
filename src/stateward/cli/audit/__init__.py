"""`stateward audit`: attack a memory architecture before production does."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

from stateward.audit.config import read_config, thresholds_of
from stateward.audit.faults.choice import NAMES as FAULTS
from stateward.audit.forms.redaction import redact
from stateward.audit.prices import read_prices
from stateward.audit.profiles import PROFILES
from stateward.audit.report import Report
from stateward.audit.servers.choice import KINDS
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.verdict import report as judged
from stateward.cli import FAILED, INTERRUPTED, OK
from stateward.cli.audit.chores import clean, init
from stateward.cli.audit.compare import compare
from stateward.cli.audit.output import changes_since, shown, write
from stateward.cli.audit.run import recorded
from stateward.errors import InvalidInput

UNKNOWN = 3
TAKES_URL = False
EXAMPLES = """\
Asks thirteen questions of a memory architecture and answers them by doing: it writes, races, kills,
takes the store away, backs up and restores, in a namespace of its own, which it removes again.

examples:
  stateward audit                                  an embedded SQLite store in a temporary folder
  stateward audit sqlite:///agents.db --profile full --output audit
  stateward audit langgraph:postgres --url postgresql://…      a framework's own store
  stateward audit openai-agents:sqlite             another one, in a temporary folder
  stateward audit naive:json-files                 see what fails
  stateward audit memory_of_mine:create            your own class; see: stateward audit init
  stateward audit --with-server postgres           one that is started for this, and killed
  stateward audit --with-server redis --server-setting appendonly=no --only outage,settings
  stateward audit compare statefulset:3 redis://… postgresql://… --yes --require p95_ms=20
  stateward audit compare langgraph:postgres postgresql://… --url postgresql://… --yes
  stateward audit clean redis://…                  remove what a killed audit has left
  stateward audit clean langgraph:postgres --url postgresql://…
  stateward audit init prices                      a file of prices, for --prices
  stateward audit redis://… --prices prices.toml   and what a month costs

exit codes: 0 pass or warn, 1 fail, 2 wrong usage, 3 unknown, 4 interrupted"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "target",
        metavar="TARGET",
        nargs="*",
        help="a store's URL, statefulset:3, naive:…, module:factory, or a framework's store: "
        f"{', '.join(FRAMEWORKS)}; "
        "or clean URL, init FILE, init prices FILE, compare TARGET …",
    )
    add("--profile", default="quick", metavar="NAME", help=f"{', '.join(PROFILES)} (quick)")
    add("--replicas", type=int, metavar="N", help="processes that use the store at once")
    add("--conversations", metavar="N,N", help="how many at once, e.g. 1,10,100")
    add("--rate", type=float, metavar="N", help="calls a second, all replicas together")
    add("--duration", type=float, metavar="S", help="seconds of load at each number")
    add("--config", metavar="FILE", help="TOML: [thresholds], [sizes], [declare], [waive.ID]")
    add("--only", metavar="ID,ID", help="these questions alone, by id or number")
    add("--seed", type=int, metavar="N", help="repeat an audit's choices")
    add(
        "--url",
        metavar="URL",
        action="append",
        help="where a naive:, framework's or module:factory target keeps its state; with compare, "
        "once for each that needs one",
    )
    add("--namespace", metavar="NAME", help="an empty one to work in (default: a new one)")
    add("--with-server", metavar="KIND", help=f"start one and audit it: {', '.join(KINDS)}")
    add(
        "--server-setting",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of that server, e.g. fsync=off; can be repeated",
    )
    add("--restart-command", metavar="CMD", help="kills and restarts your server, for question 8")
    add("--faults", metavar="NAME,NAME", help=f"these alone: {', '.join(FAULTS)}")
    add("--yes", action="store_true", help="do not ask before it begins")
    add("--dry-run", action="store_true", help="say what would be done, and do nothing")
    add("--observe", action="store_true", help="read settings and sizes, and write no state")
    add("--output", metavar="FOLDER", help="write report.json and the other forms here")
    add("--save", metavar="FILE", help="keep what was recorded, to be judged again")
    add("--from", dest="saved", metavar="FILE", help="judge what was saved; attack nothing")
    add("--prices", metavar="FILE", help="TOML: what things cost; see: stateward audit init prices")
    add(
        "--require",
        metavar="NAME=VALUE,…",
        help="of compare: what is wanted, e.g. p95_ms=20,durability=pass",
    )
    add("--baseline", metavar="FILE", help="a report.json to compare with")
    add("--redact", action="store_true", help="leave host names out of the report")
    add("--backup-command", metavar="CMD", help="your own backup, for question 5")
    add("--restore-command", metavar="CMD", help="and its restore")
    add("--restored", metavar="URL", help="where that puts the copy")
    add(
        "--abort-after-ms",
        type=float,
        default=2000.0,
        metavar="MS",
        help="end the audit when its own probe of the store is slower, three times in a row (2000)",
    )
    add(
        "--abort-lag-mb",
        type=float,
        default=64.0,
        metavar="MB",
        help="end the audit when a replica of the store is further behind (64)",
    )
    add("--metrics-url", metavar="URL", help="your own metrics page, for question 9")
    add("--alerts-url", metavar="URL", help="your own alerts, as JSON")


def run(options: argparse.Namespace) -> int:
    command, rest, urls = options.target[:1], options.target[1:], options.url or []
    if command == ["clean"]:
        return clean(rest, urls)
    if command == ["init"]:
        return init(rest)
    if command == ["compare"]:
        return compare(options, rest)
    if rest:
        raise InvalidInput(f"one TARGET at a time, not {len(options.target)}")
    if len(urls) > 1:
        raise InvalidInput("one --url for one TARGET; several are for stateward audit compare")
    options.url = urls[0] if urls else None
    config = read_config(options.config)
    limits = thresholds_of(config.thresholds)
    read_prices(options.prices)  # what is wrong with them is said before anything is done
    record = recorded(options, config)
    if record is None:
        return OK
    today, prices = datetime.now(UTC).date(), read_prices(options.prices)
    report = judged(record, limits, config.waive, today, prices)
    if options.redact:
        report = redact(report)
    write(options, record, report)
    print(shown(options, report))
    changes = changes_since(options, report)
    if changes:
        print(changes, file=sys.stderr if options.json else sys.stdout)
    return exit_code(report)


def exit_code(report: Report) -> int:
    if report.interrupted:
        return INTERRUPTED
    return {"pass": OK, "warn": OK, "unknown": UNKNOWN}.get(report.verdict, FAILED)
