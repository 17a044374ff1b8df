"""`stateward verify`: reads a backup from its first byte to its last."""

from __future__ import annotations

import argparse

from stateward.cli import OK
from stateward.cli.backup_words import as_json, in_words
from stateward.cli.progress import Bar
from stateward.transfer.backup import verify

TAKES_URL = False
EXAMPLES = """\
Exit code 0: every byte is as it was written. 1: it is not; the message says where it broke.

examples:
  stateward verify agents.backup
  stateward verify agents.backup --json
  stateward backup sqlite:///agents.db agents.backup && stateward verify agents.backup"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a backup")


def run(options: argparse.Namespace) -> int:
    with Bar() as bar:
        report = verify(options.file, progress=bar.show if bar.watched else None)
    if options.json:
        print(as_json(report, file=options.file))
    else:
        taken = f"taken from {report.engine} at {report.taken_at}"
        print(f"{options.file} is a complete backup, {taken}, {report.bytes:,} bytes")
        print("\n".join(in_words(report)))
    return OK
