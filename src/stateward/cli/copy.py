"""`stateward copy`: from one store into another, without a file in between."""

from __future__ import annotations

import argparse

from stateward.cli.backup_words import say
from stateward.cli.common import OK, Bar, add_namespace
from stateward.engines.registry import parse
from stateward.transfer.backup import copy

EXAMPLES = """\
The namespace that is copied into must be empty. What is written to the source after the copy began
is not in it. If it is interrupted, run it again. Let no agent use the target before it is done.

examples:
  stateward copy sqlite:///agents.db sqlite:///other.db
  stateward copy sqlite:///agents.db sqlite:///agents.db --namespace support --to support-2"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="URL", help="the store to copy from")
    parser.add_argument("target", metavar="TARGET_URL", help="the store to copy into")
    add_namespace(parser.add_argument)
    parser.add_argument("--to", metavar="NAME", help="into which one (default: the same)")


def run(options: argparse.Namespace) -> int:
    source, target = parse(options.source), parse(options.target)
    with Bar() as bar:
        report = copy(
            source.text,
            target.text,
            namespace=options.namespace,
            to=options.to,
            progress=bar.fill if bar.watched else None,
        )
    headline = f"{target.safe}: copied from {source.safe}"
    say(options, report, headline, source=source.safe, target=target.safe)
    return OK
