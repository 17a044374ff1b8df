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
The target namespace must be empty. The copy does not contain what is written to the source after it
started. If it is interrupted, run it again. No agent may use the target before it is done.

With --follow the copy is kept up to date until Ctrl-C or SIGTERM; it then prints how to continue.
To switch over, stop the agents, run it with --follow --finish, and start them with the target.

examples:
  stateward copy sqlite:///agents.db sqlite:///other.db
  stateward copy sqlite:///agents.db sqlite:///agents.db --namespace support --to support-2
  stateward copy sqlite:///agents.db postgresql://127.0.0.1/agents --follow
  stateward copy sqlite:///agents.db postgresql://127.0.0.1/agents --follow --finish"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="URL", help="the store to copy from")
    parser.add_argument("target", metavar="TARGET_URL", help="the store to copy into")
    add_namespace(parser.add_argument)
    parser.add_argument("--to", metavar="NAME", help="the target namespace (default: the same)")
    add = parser.add_argument
    add("--follow", action="store_true", help="keep the copy up to date until Ctrl-C")
    add("--after", metavar="CURSOR", help="with --follow: continue where an earlier run stopped")
    add(
        "--compare",
        type=float,
        default=COMPARE,
        metavar="SECONDS",
        help=f"with --follow: how often to look for deletions (default: {COMPARE:g})",
    )
    add("--finish", action="store_true", help="with --follow: copy the rest, and stop")


def run(options: argparse.Namespace) -> int:
    source, target = parse(options.source), parse(options.target)
    if options.follow:
        return run_follow(source, target, options)
    if options.after is not None or options.finish:
        raise InvalidInput("--after and --finish need --follow")
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
