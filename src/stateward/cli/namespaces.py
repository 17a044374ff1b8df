"""`stateward namespaces`: which there are in a store, and how much each holds."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import Any

from stateward.cli.common import OK, add_url
from stateward.cli.tables import printable, table
from stateward.cli.verbs import add_pages
from stateward.engine import SyncEngine, SyncNamespaces
from stateward.engines.registry import create_sync_engine, looking, parse, refuse_missing
from stateward.errors import InvalidInput
from stateward.kinds import KINDS
from stateward.ops import List, Listed
from stateward.world import World

EXAMPLES = """\
How many threads, users, workflows and so on each has; what has expired counts until it is swept.
Changes nothing. On Redis it scans the names of all keys, in short steps.

examples:
  stateward namespaces sqlite:///agents.db
  stateward namespaces sqlite:///agents.db --limit 100 --json"""
SHOWN = ("thread", "user", "workflow", "task")  # kinds with their own column


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add_pages(parser.add_argument)


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    if not 1 <= options.limit <= 1000:
        raise InvalidInput(f"--limit must be at least 1 and at most 1000, not {options.limit}")
    refuse_missing(url)
    engine: SyncEngine = create_sync_engine(looking(url), World())
    try:
        engine.open()
        if not isinstance(engine, SyncNamespaces):
            raise InvalidInput(f"a store at {url.scheme}:// cannot list its namespaces")
        names = [name for name in engine.namespaces() if _is_after(name, options.after)]
        held, more = _count_kinds(engine, names, options.limit)
    finally:
        engine.close()
    following = list(held)[-1] if more else None
    if options.json:
        rows = [{"namespace": name, "holds": counts} for name, counts in held.items()]
        print(json.dumps({"url": url.safe, "rows": rows, "next": following}))
        return OK
    print(_as_table(held) if held else f"{url.safe}: nothing is stored")
    if following is not None:
        print(f"next page: --after {shlex.quote(printable(following))}")
    return OK


def _is_after(name: str, after: str | None) -> bool:
    return after is None or name.encode() > after.encode()


def _count_kinds(
    engine: SyncEngine, names: list[str], limit: int
) -> tuple[dict[str, dict[str, int]], bool]:
    """Return the counts by kind of the first non-empty namespaces, and whether there are more."""
    namespaces: dict[str, dict[str, int]] = {}
    batch = engine.capabilities.batch
    for at in range(0, len(names), batch):
        chunk = names[at : at + batch]
        for name, listed in zip(
            chunk, engine.execute([List(each, tally="kind") for each in chunk]), strict=True
        ):
            assert isinstance(listed, Listed)
            counts = {kind: n for kind, n in listed.tally.items() if _is_state(kind)}
            if counts and len(namespaces) == limit:
                return namespaces, True
            if counts:
                namespaces[name] = counts
    return namespaces, False


def _is_state(kind: str) -> bool:
    return kind not in KINDS or not KINDS[kind].internal


def _as_table(held: dict[str, dict[str, int]]) -> str:
    rows: list[dict[str, Any]] = []
    for name, counts in held.items():
        row: dict[str, Any] = {f"{kind}s": counts.get(kind, 0) for kind in SHOWN}
        others = sum(n for kind, n in counts.items() if kind not in SHOWN)
        rows.append({"namespace": name, **row, "others": others})
    return table(("namespace", *(f"{kind}s" for kind in SHOWN), "others"), rows)
