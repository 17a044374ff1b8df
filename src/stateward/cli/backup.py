"""`stateward backup`: one namespace of any engine as one file."""

from __future__ import annotations

import argparse

from stateward.cli.backup_words import say
from stateward.cli.common import OK, Bar, add_namespace, add_url
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.transfer.backup import backup

EXAMPLES = """\
Agents can keep running. On SQLite and PostgreSQL the backup is a snapshot of one moment; on other
engines each entity is consistent in itself, and the command says so. The file appears complete or
not at all, and only its owner can read it. It is not encrypted.

examples:
  stateward backup sqlite:///agents.db agents.backup
  stateward backup sqlite:///agents.db agents.backup --namespace support --json
  STATEWARD_URL=sqlite:///agents.db stateward backup agents.backup"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    parser.add_argument("file", metavar="FILE", help="the new file; it must not exist")
    add_namespace(parser.add_argument)


def run(options: argparse.Namespace) -> int:
    if options.url is None and "://" in options.file:
        raise InvalidInput("name a file: stateward backup URL FILE")
    url = parse(options.url)
    with Bar() as bar:
        progress = bar.fill if bar.watched else None
        report = backup(url.text, options.file, namespace=options.namespace, progress=progress)
    headline = f"{url.safe}: backed up to {options.file}, {report.bytes:,} bytes"
    say(options, report, headline, url=url.safe, file=options.file)
    return OK
