"""`stateward effect list`: effects, and how they stand."""

from __future__ import annotations

import argparse
import json
from itertools import islice

from stateward.cli.common import OK, add_namespace, add_url
from stateward.cli.effect import plain
from stateward.cli.tables import table
from stateward.cli.verbs import opened
from stateward.codec import check_count
from stateward.engines.registry import parse
from stateward.options import UNSAID

USAGE = "stateward effect list [URL] [options]"
EXAMPLES = """\
An effect is unknown if it was begun and its end is not recorded: its process died, or its service
did not answer. Those come the oldest first; others by id.

examples:
  stateward effect list sqlite:///agents.db --status unknown
  stateward effect list sqlite:///agents.db --user u-42 --json"""
COLUMNS = ("id", "status", "name", "user", "updated_at", "error")


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add_namespace(parser.add_argument)
    parser.add_argument("--status", metavar="STATUS", help="intended, done, failed or unknown")
    parser.add_argument("--user", metavar="ID", help="only what belongs to this user")
    parser.add_argument("--thread", metavar="ID", help="only those of this thread")
    parser.add_argument("--workflow", metavar="ID", help="only those of this workflow")
    parser.add_argument("--tool", metavar="NAME", help="only those of this function or tool")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="rows (default: 50)")


def run(options: argparse.Namespace) -> int:
    url, limit = parse(options.url), check_count(options.limit, "--limit")
    with opened(url, options.namespace) as store:
        listing = store.effects(
            options.status,
            user=UNSAID if options.user is None else options.user,
            thread=options.thread,
            workflow=options.workflow,
            name=options.tool,
            limit=limit + 1,
        )
        rows = [plain(info) for info in listing]
    more = len(rows) > limit
    rows = list(islice(rows, limit))
    if options.json:
        print(json.dumps({"url": url.safe, "namespace": options.namespace, "effects": rows}))
        return OK
    if rows:
        print(table(COLUMNS, rows))
    else:
        print(f"no such effects in the namespace {options.namespace!r}")
    if more:
        print(f"there are more than {limit:,}: --limit N shows more")
    return OK
