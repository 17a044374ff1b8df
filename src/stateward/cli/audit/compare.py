"""`stateward audit compare`: several targets side by side."""

from __future__ import annotations

import argparse
import sys

import msgspec

from stateward.audit.compare import QUESTIONS, Table, compared, table
from stateward.audit.config import read_config, requirements, thresholds_of
from stateward.audit.forms import comparison, page, schema, sentences, side_by_side
from stateward.audit.prices import read_prices
from stateward.audit.report import Report
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.targets.frameworks.sandbox import kind_of
from stateward.cli.audit.options import WORDS as OPTION_WORDS
from stateward.cli.audit.options import add_options
from stateward.cli.audit.output import read_report, width, write_all
from stateward.cli.audit.run import judged, recorded
from stateward.cli.common import FAILED, INTERRUPTED, OK
from stateward.errors import InvalidInput

USAGE = "stateward audit compare TARGET … | REPORT … [options]"
EXAMPLES = """\
Runs a shorter audit of each target, one after the other, and says which of them meet the
requirements; or compares earlier reports (files that end in .json).

examples:
  stateward audit compare statefulset:3 sqlite:///agents.db --yes
  stateward audit compare statefulset:3 redis://… postgresql://… --yes --require p95_ms=20
  stateward audit compare langgraph:postgres postgresql://… --url postgresql://… --yes
  stateward audit compare monday/report.json friday/report.json --output both

exit codes: 0 no target fails, 1 a target fails a question, 2 wrong usage, 4 interrupted"""

WORDS = {**OPTION_WORDS, "targets": FRAMEWORKS}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets", metavar="TARGET", nargs="*", help="as for stateward audit, or a report.json"
    )
    add_options(parser, alone=False)
    parser.set_defaults(only=",".join(QUESTIONS))


def run(options: argparse.Namespace) -> int:
    """Audit each of them a little, and show them side by side."""
    if options.with_server is not None:
        raise InvalidInput("compare takes URLs: --with-server works only for a single audit")
    if not options.targets:
        raise InvalidInput("compare takes targets: stateward audit compare statefulset:3 redis://…")
    if all(target.endswith(".json") and "://" not in target for target in options.targets):
        return show_reports(options, options.targets)
    config, prices = read_config(options.config), read_prices(options.prices)
    limits = thresholds_of(config.thresholds)
    wanted = requirements(config.require, options.require, limits["lookup_p95_ms"])
    rows, reports = [], []
    for target in options.targets:
        record = recorded(options, config, target, url_for(target, options.url or []))
        if record is None:
            continue
        report = judged(options, record, config, limits, prices)
        rows.append(compared(record, report, wanted))
        reports.append(report)
        if record.interrupted:
            print(sentences.interruption(report), file=sys.stderr)
            return INTERRUPTED
    if not rows:
        return OK
    currency = "" if prices is None else prices.currency
    shown = table(rows, wanted, int(limits["agents"]), currency)
    if options.output is not None:
        write_all(options.output, _files(shown, reports))
    as_json = msgspec.json.encode(shown).decode()
    print(as_json if options.json else comparison.text(shown, width()))
    return OK if all(not row.failing for row in rows) else FAILED


def show_reports(options: argparse.Namespace, paths: list[str]) -> int:
    """Earlier reports side by side; nothing is audited."""
    reports = [read_report(path) for path in paths]
    if options.output is not None:
        write_all(options.output, {"runs.html": side_by_side.html(reports).encode()})
    if options.json:
        print(f"[{','.join(schema.to_json(report).decode() for report in reports)}]")
    else:
        print(side_by_side.text(reports, width()))
    return FAILED if any(report.verdict == "fail" for report in reports) else OK


def _files(found: Table, reports: list[Report]) -> dict[str, bytes]:
    """The table in every form, and each target's own report, which the page leads to."""
    named = {f"report-{number}": report for number, report in enumerate(reports, 1)}
    return {
        **{f"{name}.html": page.html(report).encode() for name, report in named.items()},
        **{f"{name}.json": schema.to_json(report) for name, report in named.items()},
        "compare.json": msgspec.json.encode(found),
        "compare.md": comparison.markdown(found).encode(),
        "compare.html": comparison.html(found, [f"{name}.html" for name in named]).encode(),
    }


def url_for(target: str, urls: list[str]) -> str | None:
    """The first of several that this target can use."""
    fitting = [
        url
        for url in urls
        if target not in FRAMEWORKS or kind_of(url) in FRAMEWORKS[target].kept_in
    ]
    return None if not fitting or "://" in target else fitting[0]
