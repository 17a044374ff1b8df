"""`stateward migrate`: additive steps, safe while replicas run."""

from __future__ import annotations

import argparse
import json
import sys

from stateward.cli.common import OK, add_url
from stateward.engine import SyncMigrations
from stateward.engines.registry import create_sync_engine, parse
from stateward.engines.url import EngineURL
from stateward.world import World

EXAMPLES = """\
Migrations only add, so replicas of the previous release can keep running. It is safe to run it
twice, or from two machines at the same time.

examples:
  stateward migrate sqlite:///agents.db
  stateward migrate sqlite:///agents.db --print-sql
  stateward migrate sqlite:////var/lib/agents.db --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    only = "only print what would be run; change nothing"
    parser.add_argument("--print-sql", action="store_true", help=only)


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    engine = create_sync_engine(url, World())
    if options.print_sql:
        sql = engine.pending_sql() if isinstance(engine, SyncMigrations) else None
        _print_sql(url, sql, options.json)
        return OK
    try:
        applied = list(engine.migrate())
    finally:
        engine.close()
    if options.json:
        print(json.dumps({"url": url.safe, "applied": applied}))
    elif applied:
        print(f"{url.safe}: applied {', '.join(applied)}")
    else:
        print(f"{url.safe}: up to date, nothing to apply")
    return OK


def _print_sql(url: EngineURL, sql: str | None, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"url": url.safe, "sql": sql}))
    elif sql is None:
        print(f"{url.safe} has no schema: there is no SQL to run")
    elif not sql:
        print(f"-- {url.safe}: up to date, nothing to apply")
    else:
        sys.stdout.write(sql)
