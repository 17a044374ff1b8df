"""`stateward audit compare`: several targets side by side."""

from __future__ import annotations

import argparse
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from stateward.audit.compare import QUESTIONS, Table, compared, table
from stateward.audit.config import read_config, requirements, thresholds_of
from stateward.audit.forms import comparison, schema, words
from stateward.audit.forms.html import page
from stateward.audit.forms.redaction import redact
from stateward.audit.prices import read_prices
from stateward.audit.report import Report
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.targets.frameworks.sandbox import kind_of
from stateward.audit.verdict import report as judged
from stateward.cli import FAILED, INTERRUPTED, OK
from stateward.cli.audit.output import put
from stateward.cli.audit.run import recorded
from stateward.errors import InvalidInput


def compare(options: argparse.Namespace, targets: list[str]) -> int:
    """Audit each of them a little, and show them side by side."""
    if options.with_server is not None:
        raise InvalidInput("compare takes URLs: --with-server is for one audit by itself")
    if not targets:
        raise InvalidInput("compare takes targets: stateward audit compare statefulset:3 redis://…")
    config, prices = read_config(options.config), read_prices(options.prices)
    limits = thresholds_of(config.thresholds)
    wanted = requirements(config.require, options.require, limits["lookup_p95_ms"])
    options.only = options.only or ",".join(QUESTIONS)
    rows, reports, urls = [], [], options.url or []
    for target in targets:
        options.target, options.url = [target], url_for(target, urls)
        record = recorded(options, config)
        if record is None:
            continue
        report = judged(record, limits, config.waive, datetime.now(UTC).date(), prices)
        if options.redact:
            report = redact(report)
        rows.append(compared(record, report, wanted))
        reports.append(report)
        if record.interrupted:
            print(words.interruption(report), file=sys.stderr)
            return INTERRUPTED
    if not rows:
        return OK
    currency = "" if prices is None else prices.currency
    found = table(rows, wanted, int(limits["agents"]), currency)
    _write(options, found, reports)
    width = max(40, min(shutil.get_terminal_size((100, 24)).columns, 120))
    as_json = msgspec.json.encode(found).decode()
    print(as_json if options.json else comparison.text(found, width))
    return OK if all(not row.failing for row in rows) else FAILED


def _write(options: argparse.Namespace, found: Table, reports: list[Report]) -> None:
    """The table in every form, and each target's own report, which the page leads to."""
    if options.output is None:
        return
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    links = [f"report-{number}.html" for number in range(1, len(reports) + 1)]
    for link, report in zip(links, reports, strict=True):
        put(folder / link, page.html(report).encode())
        put((folder / link).with_suffix(".json"), schema.to_json(report))
    put(folder / "compare.json", msgspec.json.encode(found))
    put(folder / "compare.md", comparison.markdown(found).encode())
    put(folder / "compare.html", comparison.html(found, links).encode())


def url_for(target: str, urls: list[str]) -> str | None:
    """The first of several that this target can use."""
    fitting = [
        url
        for url in urls
        if target not in FRAMEWORKS or kind_of(url) in FRAMEWORKS[target].kept_in
    ]
    return None if not fitting or "://" in target else fitting[0]
