"""`stateward restore`: a backup into an empty namespace of any engine."""

from __future__ import annotations

import argparse

from stateward.cli.backup_words import say
from stateward.cli.common import OK, Bar, add_by, add_url, who
from stateward.cli.verbs import opened
from stateward.engines.registry import parse
from stateward.transfer.backup import restore

EXAMPLES = """\
Verifies the whole file before anything is written. The namespace must be empty. If it is
interrupted, run it again. No agent may use the namespace before it is done. Users who were erased
after the backup stay erased: if another store has the record of that, name it with --erasures. If
the target has an operations log, it is kept; otherwise the backup's is restored. The restore is
recorded in it. A backup of stateward.service brings access keys along: it is restored only if
--namespace names it.

examples:
  stateward restore agents.backup sqlite:///agents.db
  stateward restore agents.backup sqlite:///agents.db --namespace from-tuesday
  stateward restore agents.backup sqlite:///new.db --erasures sqlite:///old.db --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="a backup")
    add_url(parser)
    add("--namespace", metavar="NAME", help="the target namespace (default: the backup's)")
    erased = "a store or backup that records who was erased; can be repeated"
    add("--erasures", action="append", default=[], metavar="URL_OR_FILE", help=erased)
    add_by(add)


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    with Bar() as bar:
        report = restore(
            options.file,
            url.text,
            namespace=options.namespace,
            erasures=options.erasures,
            progress=bar.fill if bar.watched else None,
        )
    # Before it is done nothing may be there, and afterwards all the log that there was.
    with opened(url, report.namespace) as store:
        detail = {"taken_at": str(report.taken_at)}
        store.operations.record(
            who(options), options.command, "namespace", report.namespace, detail=detail
        )
    headline = f"{url.safe}: restored from {options.file}, taken at {report.taken_at}"
    say(options, report, headline, url=url.safe, file=options.file)
    return OK
