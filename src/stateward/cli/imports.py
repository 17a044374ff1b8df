"""`stateward import`: the conversations of another framework, moved into a store."""

from __future__ import annotations

import argparse
import json

import msgspec

from stateward.cli.common import FAILED, OK, Bar, add_by, who
from stateward.cli.verbs import opened
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.transfer.moves.mover import ImportReport, import_from

DAY = 86_400.0
SHOWN = 20  # refused conversations that are shown; --json has more

EXAMPLES = """\
SOURCE is the kind of store and its location:
  openai-agents:sqlite:///FILE      SQLiteSession and its variants; SQLAlchemySession
  openai-agents:postgresql://…      SQLAlchemySession
  openai-agents:redis://…           RedisSession
  langgraph:sqlite:///FILE          checkpoints of SqliteSaver, items of SqliteStore
  langgraph:postgresql://…          checkpoints of PostgresSaver, items of PostgresStore
  adk:sqlite:///FILE                SqliteSessionService, DatabaseSessionService
  adk:postgresql://…                DatabaseSessionService
  strands:FOLDER                    FileSessionManager
  claude:FOLDER                     transcripts of Claude Code, e.g. ~/.claude/projects
  jsonl:FILE                        lines of {"thread": …, "user": …, "at": …, "message": {…}}

Each conversation becomes what its framework's adapter would have stored, so the same agent
continues with its next turn. If it is interrupted, run it again. A second run adds what is new in
the source. A conversation that has continued in the target is refused and reported, the others are
imported, and the exit code is 1. Nothing is ever overwritten, and the source is only read.

examples:
  stateward import openai-agents:sqlite:///old.db sqlite:///agents.db --dry-run
  stateward import openai-agents:redis://127.0.0.1 sqlite:///agents.db --user-pattern '^(u-[0-9]+):'
  stateward import jsonl:messages.jsonl sqlite:///agents.db --retain 90 --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="SOURCE", help="the source, e.g. openai-agents:sqlite:///old.db")
    add("target", metavar="TARGET_URL", help="the store to import into")
    add(
        "--namespace",
        default="default",
        metavar="NAME",
        help="the target namespace (default: default)",
    )
    add("--user", metavar="ID", help="the owner of conversations without one")
    pattern = "a regular expression whose only group matches the user in a conversation's id"
    add("--user-pattern", metavar="REGEX", help=pattern)
    kept = "keep each this long after its last message, or the import (default: for ever)"
    add("--retain", type=float, metavar="DAYS", help=kept)
    add("--again", action="store_true", help="also import what was deleted in the target")
    add("--dry-run", action="store_true", help="only say what would be done")
    add_by(add)


def run(options: argparse.Namespace) -> int:
    if options.retain is not None and not 0 < options.retain < 36_500:
        raise InvalidInput(f"--retain must be a number of days above 0, not {options.retain}")
    url = parse(options.target)
    with Bar() as bar:
        report = import_from(
            options.source,
            url.text,
            namespace=options.namespace,
            user=options.user,
            user_pattern=options.user_pattern,
            retain=None if options.retain is None else options.retain * DAY,
            again=options.again,
            dry_run=options.dry_run,
            progress=bar.fill if bar.watched else None,
        )
    if report.moved and not report.dry_run:
        with opened(url, report.namespace) as store:
            detail = {"source": report.source, "added": report.added}
            store.operations.record(
                who(options), options.command, "namespace", report.namespace, detail=detail
            )
    if options.json:
        print(json.dumps(msgspec.to_builtins(report)))
    else:
        say(report)
    return OK if report.is_equal and not report.refused else FAILED


def say(report: ImportReport) -> None:
    """Print the counts, the digests and the warnings of an import."""
    verb = "would be imported" if report.dry_run else "imported"
    print(f"{report.target}: {verb} from {report.source}")
    print(
        f"  {report.moved:,} conversations with {report.added:,} new items, "
        f"{report.there:,} that already existed, {report.refused:,} refused"
    )
    print(f"  the source has {report.threads:,}, {report.items:,} items, {report.bytes:,} bytes")
    if report.anonymous:
        print(f"  {report.anonymous:,} have no owner: --user or --user-pattern sets one")
    if report.erased:
        print(f"  {report.erased:,} left out because their users were erased")
    for lost in report.lost:
        print(f"  not imported: {lost}")
    if report.dry_run:
        print(f"  nothing was written; digest of the source: {report.digest}")
    elif report.is_equal:
        print(f"  digest of source and target: {report.digest}")
    else:
        print(f"  NOT EQUAL: digest of the source {report.digest}, of the target {report.read}")
    for refused in report.refusals[:SHOWN]:
        print(f"  refused {refused.id!r}: {refused.why}")
    if report.refused > SHOWN:
        print(f"  … and {report.refused - SHOWN:,} more; --json names them")
