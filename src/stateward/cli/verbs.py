"""Commands of a noun and a verb: `stateward thread show`, `stateward lock break` …

A noun's module has `EXAMPLES` and `VERBS`, a `Verb` for each word that may follow it.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from stateward import sync
from stateward.cli.common import OK, add_namespace, add_url, confirm
from stateward.cli.listings import PageRequest, RowPage, plain
from stateward.cli.tables import cell, printable, table
from stateward.engines.registry import create_sync_engine, looking, parse, refuse_missing
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.world import World


class Verb(NamedTuple):
    """A command of two words: as a module of a command of one word has it."""

    USAGE: str
    EXAMPLES: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def open_to_look(url: EngineURL, namespace: str) -> sync.Store:
    """A store that says nothing of itself, and leaves alone what is kept on this machine."""
    return sync.open(url.text, namespace=namespace, heartbeat=None, spill=False, metrics=False)


@contextmanager
def opened(url: EngineURL, namespace: str) -> Iterator[sync.Store]:
    """The store as it is: nothing is created or migrated, whatever is then done with it."""
    refuse_missing(url)
    with open_to_look(looking(url), namespace) as store:
        yield store


def refuse_unknown(what: str, id: str, namespace: str, find: str) -> NoReturn:
    """There is no such thing; `find` is what lists what exists."""
    raise InvalidInput(
        f"there is no {what} {id!r} in the namespace {namespace!r}: {find} shows those that there "
        "are"
    )


# --- lists ------------------------------------------------------------------------------


def list_verb(
    noun: str, read: Callable[[PageRequest], RowPage], *filters: str, example: str = ""
) -> Verb:
    """`stateward NOUN list`: a page of rows."""
    filtered = {
        "user": ("--user", "ID", "only what belongs to this user"),
        "status": ("--status", "STATUS", "only those with this status"),
        "label": ("--kind", "KIND", "only those of this kind"),
    }

    def configure(parser: argparse.ArgumentParser) -> None:
        add_url(parser)
        add_namespace(parser.add_argument)
        for name in filters:
            option, metavar, what = filtered[name]
            parser.add_argument(option, dest=name, metavar=metavar, help=what)
        add_pages(parser.add_argument)

    def run(options: argparse.Namespace) -> int:
        url = parse(options.url)
        asked = {name: getattr(options, name) for name in filters}
        page = read_page(url, options, read, **asked)
        if options.json:
            rows = {"rows": plain(page.rows), "next": page.next}
            print(json.dumps({"url": url.safe, "namespace": options.namespace, **rows}))
        else:
            show_page(page, f"{noun}s", options.namespace)
        return OK

    command = f"stateward {noun} list"
    examples = f"examples:\n  {command} sqlite:///agents.db{example}\n"
    more = f"  {command} sqlite:///agents.db --limit 20 --json"
    return Verb(f"{command} [URL] [options]", examples + more, configure, run)


def add_pages(add: Callable[..., Any]) -> None:
    add("--limit", type=int, default=50, metavar="N", help="rows per page (default: 50)")
    add("--after", metavar="ROW", help="continue after the previous page, which prints the value")


def read_page(
    url: EngineURL,
    options: argparse.Namespace,
    read: Callable[[PageRequest], RowPage],
    **filters: str | None,
) -> RowPage:
    """A page, read from the engine itself."""
    if not 1 <= options.limit <= 1000:
        raise InvalidInput(f"--limit must be at least 1 and at most 1000, not {options.limit}")
    refuse_missing(url)
    engine = create_sync_engine(looking(url), World())
    try:
        engine.open()
        return read(PageRequest(engine, options.namespace, options.limit, options.after, **filters))
    finally:
        engine.close()


def show_page(page: RowPage, what: str, namespace: str, widest: int = 60) -> None:
    """As a table, with what gives the next page."""
    if page.rows:
        print(table(page.columns, page.rows, widest))
    else:
        print(f"no {what} in the namespace {cell(namespace)!r}; --namespace NAME selects another")
    if page.next is not None:
        print(f"next page: --after {shlex.quote(printable(page.next))}")


# --- changes ----------------------------------------------------------------------------


def changed(
    options: argparse.Namespace,
    url: EngineURL,
    about: dict[str, Any],
    question: str,
    change: Callable[[], dict[str, Any]],
    done: Callable[[dict[str, Any]], str],
) -> int:
    """Say what would be done, ask, do it, and say what was done.

    `about` says what it is done to; `change` carries an action out, which writes its own entries
    in the operations log, and returns what is to be said besides.
    """
    report = {"url": url.safe, "namespace": options.namespace, **about, "dry_run": options.dry_run}
    if not options.dry_run:
        confirm(options, f"{url.safe}: {question}")
        report |= change()
    if options.json:
        print(json.dumps(plain([report])[0]))
    elif options.dry_run:
        print(f"{url.safe}: would {question[0].lower()}{question[1:]}")
    else:
        print(f"{url.safe}: {done(report)}")
    return OK
