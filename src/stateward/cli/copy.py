"""`stateward copy`: from one store into another, without a file in between."""

from __future__ import annotations

import argparse

from stateward.cli.backup_words import say
from stateward.cli.common import OK, Bar, add_namespace
from stateward.cli.copy_follow import run_follow
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.transfer.backup import copy
from stateward.transfer.follow import COMPARE

EXAMPLES = """\
The namespace that is copied into must be empty. What is written to the source after the copy began
is not in it. If it is interrupted, run it again. Let no agent use the target before it is done.

With --follow the copy is kept up to date until Ctrl-C or SIGTERM. It then says where to go on.
To move agents over, stop them, run it with --follow --finish, and start them with the target.

examples:
  stateward copy sqlite:///agents.db sqlite:///other.db
  stateward copy sqlite:///agents.db sqlite:///agents.db --namespace support --to support-2
  stateward copy sqlite:///agents.db postgresql://127.0.0.1/agents --follow
  stateward copy sqlite:///agents.db postgresql://127.0.0.1/agents --follow --finish"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="URL", help="the store to copy from")
    parser.add_argument("target", metavar="TARGET_URL", help="the store to copy into")
    add_namespace(parser.add_argument)
    parser.add_argument("--to", metavar="NAME", help="into which one (default: the same)")
    add = parser.add_argument
    add("--follow", action="store_true", help="keep the copy up to date until Ctrl-C")
    add("--after", metavar="CURSOR", help="with --follow: go on where an earlier one stopped")
    add(
        "--compare",
        type=float,
        default=COMPARE,
        metavar="SECONDS",
        help=f"with --follow: how often deletions are looked for (default: {COMPARE:g})",
    )
    add(
        "--finish",
        action="store_true",
        help="with --follow: bring the rest, and end",
    )


def run(options: argparse.Namespace) -> int:
    source, target = parse(options.source), parse(options.target)
    if options.follow:
        return run_follow(source, target, options)
    if options.after is not None or options.finish:
        raise InvalidInput("--after and --finish go with --follow")
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
