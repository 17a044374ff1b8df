"""`stateward verify`: reads a backup from its first byte to its last."""

from __future__ import annotations

import argparse

from stateward.cli.backup_words import say
from stateward.cli.common import OK, Bar
from stateward.transfer.backup import verify

EXAMPLES = """\
Exit code 0: every byte is as it was written. 1: it is damaged; the message says where.

examples:
  stateward verify agents.backup
  stateward verify agents.backup --json
  stateward backup sqlite:///agents.db agents.backup && stateward verify agents.backup"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a backup")


def run(options: argparse.Namespace) -> int:
    with Bar() as bar:
        report = verify(options.file, progress=bar.fill if bar.watched else None)
    taken = f"taken from {report.engine} at {report.taken_at}, {report.bytes:,} bytes"
    headline = f"{options.file} is a complete backup, {taken}"
    say(options, report, headline, file=options.file)
    return OK
