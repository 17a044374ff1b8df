"""`stateward audit list`: the reports that a store keeps."""

from __future__ import annotations

import argparse
import json

from msgspec import to_builtins

from stateward.cli.common import OK, add_namespace, add_url
from stateward.cli.tables import cell, table
from stateward.cli.verbs import opened
from stateward.engines.registry import parse

EXAMPLES = """\
Lists what stateward audit --keep has stored, newest first. Changes nothing.

examples:
  stateward audit list sqlite:///agents.db
  stateward audit list sqlite:///agents.db --json"""
COLUMNS = ("id", "verdict", "title", "profile", "answers", "sentence")


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add_namespace(parser.add_argument)


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    with opened(url, options.namespace) as store:
        audits = store.audits.list()
    if options.json:
        report = {"url": url.safe, "namespace": options.namespace}
        print(json.dumps(report | {"rows": to_builtins(audits)}))
    elif audits:
        rows = [{name: getattr(info, name) for name in COLUMNS} for info in audits]
        for row in rows:
            row["answers"] = ", ".join(f"{n} {verdict}" for verdict, n in row["answers"].items())
        print(table(COLUMNS, rows))
    else:
        print(
            f"no audit is kept in the namespace {cell(options.namespace)!r}: "
            "stateward audit … --keep keeps one"
        )
    return OK
