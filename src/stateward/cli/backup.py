"""`stateward backup`: one namespace of any engine as one file."""

from __future__ import annotations

import argparse

from stateward.cli import OK
from stateward.cli.backup_words import as_json, in_words
from stateward.cli.progress import Bar
from stateward.engines.registry import parse
from stateward.transfer.backup import backup

EXAMPLES = """\
Agents go on meanwhile. On SQLite and PostgreSQL the file shows one moment; on an engine that cannot
do that, each entity is consistent in itself, and the command says so. The file appears complete or
not at all, readable by its owner alone. It is not encrypted.

examples:
  stateward backup sqlite:///agents.db agents.backup
  stateward backup sqlite:///agents.db agents.backup --namespace support --json
  STATEWARD_URL=sqlite:///agents.db stateward backup agents.backup"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="where to; it must not exist yet")
    parser.add_argument(
        "--namespace", default="default", metavar="NAME", help="which one (default: default)"
    )


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    with Bar() as bar:
        progress = bar.show if bar.watched else None
        report = backup(url.text, options.file, namespace=options.namespace, progress=progress)
    if options.json:
        print(as_json(report, url=url.safe, file=options.file))
    else:
        print(f"{url.safe}: backed up into {options.file}, {report.bytes:,} bytes")
        print("\n".join(in_words(report)))
    return OK
