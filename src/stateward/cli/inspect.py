"""`stateward inspect`: what a store holds, and how it does."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from typing import Any

from stateward.cli.common import OK, add_namespace, add_url
from stateward.cli.inspect_repeats import show_repeats
from stateward.cli.inspect_sections import LISTS, SINGLES, one
from stateward.cli.inspect_watch import watch
from stateward.cli.listings import PageRequest, RowPage, plain
from stateward.cli.tables import cell, printable, table
from stateward.engines.registry import create_sync_engine, looking, parse, refuse_missing
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.world import World

EXAMPLES = """\
Without a section: sizes by kind of state, and the latest metrics. Sections: storage, replicas,
repeats, langgraph-items, blobs; or one entity in full, as it is stored: thread ID, user ID,
workflow ID, task ID, effect ID, schedule ID, shared ID, journal ID, langgraph-item ID, blob ID.
State of agent frameworks is shown as what it is: a checkpoint, an event, a session. replicas are
the processes that have the store open, or had it open within the last hour. repeats shows where
agents have lost their context: repeated questions, questions that the user had already answered,
complaints about that, work that was started over, tool calls that ran twice. Changes nothing. What
it prints may be personal data.

To list threads, users, workflows, tasks and locks, and to read them, use stateward thread and so
on.

examples:
  stateward inspect sqlite:///agents.db
  stateward inspect sqlite:///agents.db thread s-abc123
  stateward inspect sqlite:///agents.db langgraph-items --user u-42
  stateward inspect sqlite:///agents.db replicas
  stateward inspect sqlite:///agents.db repeats --user u-42
  stateward inspect sqlite:///agents.db --watch"""

WORDS = {"section": (*LISTS, *SINGLES, "repeats")}


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    what = "what to show; with an id, one entity in full"
    parser.add_argument("section", metavar="SECTION", nargs="*", help=what)
    add = parser.add_argument_group("what to show").add_argument
    add_namespace(add)
    add("--user", metavar="ID", help="only what belongs to this user")
    add("--limit", type=int, default=50, metavar="N", help="rows per page (default: 50)")
    add("--after", metavar="PLACE", help="continue after the previous page")
    add = parser.add_argument_group("repeats").add_argument
    add("--thread", metavar="ID", help="only this thread")
    add("--last", type=int, default=200, metavar="N", help="messages per thread (200)")
    add("--semantic", action="store_true", help="use local embeddings, from stateward[semantic]")
    add = parser.add_argument_group("repeat until Ctrl-C").add_argument
    add("--watch", action="store_true", help="until Ctrl-C")
    add("--every", type=float, default=2.0, metavar="SECONDS", help="between updates (default: 2)")
    add("--times", type=int, metavar="N", help="stop after this many updates")
    agents = "also the metrics of a running agent, e.g. http://10.0.0.7:9464/metrics"
    add("--scrape", action="append", default=[], metavar="ADDRESS", help=agents)


def run(options: argparse.Namespace) -> int:
    url, words = _split(options.url, options.section)
    if not 1 <= options.limit <= 1000:
        raise InvalidInput(f"--limit must be at least 1 and at most 1000, not {options.limit}")
    refuse_missing(url)
    url = looking(url)
    if options.watch:
        if words:
            raise InvalidInput("--watch shows everything; leave the section out")
        return watch(url, options)
    if words == ["repeats"]:
        return show_repeats(url, options)
    engine = create_sync_engine(url, World())
    asked = PageRequest(engine, options.namespace, options.limit, options.after, options.user)
    try:
        engine.open()
        page = _read(asked, words)
    finally:
        engine.close()
    if options.json:
        _print_json(url, words, page)
    else:
        _print(options.namespace, words, page)
    return OK


def _split(url: str | None, section: Sequence[str]) -> tuple[EngineURL, list[str]]:
    """The URL may stand before or after the section, or in the environment."""
    words = [word for word in (url, *section) if word is not None]
    last = 2 if words and words[0] in SINGLES else 1
    for at in (0, last):
        if at < len(words) and "://" in words[at]:
            return parse(words[at]), words[:at] + words[at + 1 :]
    return parse(None), words


def _read(asked: PageRequest, words: Sequence[str]) -> RowPage:
    what = words[0] if words else "storage"
    if what in LISTS and len(words) <= 1:
        return LISTS[what](asked)
    if what in SINGLES and len(words) == 2:
        return one(asked, what, words[1])
    if what in SINGLES and len(words) == 1:
        raise InvalidInput(f"name one: stateward inspect URL {what} ID")
    noun = what.removesuffix("s")
    if noun in ("thread", "user", "workflow", "task", "lock"):
        raise InvalidInput(f"inspect shows one entity; to list them: stateward {noun} list URL")
    sections = ", ".join([*LISTS, "repeats", *(f"{name} ID" for name in SINGLES)])
    raise InvalidInput(f"there is no section {' '.join(words)!r}; use one of: {sections}")


def _print(namespace: str, words: Sequence[str], page: RowPage) -> None:
    for name, value in page.about.items():
        if name == "documents":
            for document, kept in value.items():
                what = "" if kept["what"] is None else f"  {cell(kept['what'], 1000)}"
                version, updated = f"version {kept['version']}", cell(kept["updated"])
                print(f"document {cell(document)}  {version}  {updated}{what}")
                print(f"  {cell(kept['value'], 100_000)}")
        elif value is not None:
            print(f"{name:<11} {cell(value, 1000)}")
    if page.about and page.rows:
        print()
    if page.rows:
        widest = 100_000 if words and words[0] in SINGLES else 60
        print(table(page.columns, page.rows, widest))
    elif not words or words[0] in LISTS:
        what = words[0] if words and words[0] != "storage" else "state"
        print(f"no {what} in the namespace {cell(namespace)!r}; --namespace NAME selects another")
    if page.next is not None:
        print(f"next page: --after {shlex.quote(printable(page.next))}")


def _print_json(url: EngineURL, words: Sequence[str], page: RowPage) -> None:
    report: dict[str, Any] = {"url": url.safe, "section": " ".join(words) or "storage"}
    report |= {"about": plain([page.about])[0], "rows": plain(page.rows), "next": page.next}
    print(json.dumps(report))
