"""`stateward audit show`: a report that a store keeps, and what changed since the one before."""

from __future__ import annotations

import argparse
import sys

from stateward.audit.archive import before, changes
from stateward.audit.forms import baseline, schema
from stateward.cli.audit.output import forms_of, shown, write_all
from stateward.cli.common import OK, add_words, store_and_words
from stateward.cli.verbs import opened, refuse_unknown

USAGE = "stateward audit show [URL] [ID] [options]"
EXAMPLES = """\
The newest stored audit, or the one with this id, and what changed since the one before it. Changes
nothing.

examples:
  stateward audit show sqlite:///agents.db
  stateward audit show sqlite:///agents.db 20261116T020000Z-4711 --output audit"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "its id (default: the newest)")
    parser.add_argument("--output", metavar="FOLDER", help="write the report here in all formats")


def run(options: argparse.Namespace) -> int:
    url, words = store_and_words(options, "which audit", least=0, most=1)
    with opened(url, options.namespace) as store:
        audits = store.audits.list()
        id = words[0] if words else audits[0].id if audits else ""
        audit = store.audits.get(id) if id else None
        if audit is None:
            refuse_unknown("kept audit", id, options.namespace, "stateward audit list")
        last = before(id, audits)
        old = None if last is None else store.audits.get(last.id)
    report = schema.from_json(audit.report)
    since = changes(None if old is None else old.report, report)
    if options.output is not None:
        write_all(options.output, forms_of(report, since))
    print(shown(options, report))
    if since is not None:
        print(baseline.text(since), file=sys.stderr if options.json else sys.stdout)
    return OK
