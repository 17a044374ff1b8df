"""`holdfast backup`: one namespace of any engine as one file."""

from __future__ import annotations

import argparse

from holdfast.backup import backup
from holdfast.cli import OK
from holdfast.cli.progress import Bar
from holdfast.cli.reports import as_json, in_words
from holdfast.registry import parse

EXAMPLES = """\
Agents go on meanwhile. On SQLite and PostgreSQL the file shows one moment; on an engine that cannot
do that, each entity is consistent in itself, and the command says so. The file appears complete or
not at all, readable by its owner alone. It is not encrypted.

examples:
  holdfast backup sqlite:///agents.db agents.backup
  holdfast backup sqlite:///agents.db agents.backup --namespace support --json
  HOLDFAST_URL=sqlite:///agents.db holdfast backup agents.backup"""


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
