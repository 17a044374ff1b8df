"""`stateward rebalance`: after replicas have come or gone, everything where it belongs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from stateward.cli.common import FAILED, OK, ProgressLine, add_by, add_namespace, complain, who
from stateward.cli.kept_turns import KeptTurns
from stateward.cli.verbs import opened
from stateward.codec import check_id, check_span
from stateward.engine import SyncEngine
from stateward.engines.registry import create_sync_engine, looking, parse, refuse_missing
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.kinds import LAYOUT
from stateward.layers.outage.spill import default_directory, stores_in
from stateward.transfer.rebalance import Moved, Rebalancing
from stateward.world import World

EXAMPLES = """\
For replicas that each have their own volume: stateward.open(..., replica=, replicas=). Name the
stores of all replicas: those that stay, join and leave. Stop the replicas first: it refuses to run
while one of them is running, and none can serve until it is done. If it is killed, run it again:
nothing is lost or duplicated. Turns that a replica spilled because its store was down are stored
where their thread lives now: name the directories with --spill.

examples:
  stateward rebalance agents-0=sqlite:////a/agents.db --joining agents-1=sqlite:////b/agents.db
  stateward rebalance agents-0=sqlite:////a/agents.db --leaving agents-1=sqlite:////b/agents.db
  stateward rebalance agents-0=sqlite:////a/agents.db agents-1=sqlite:////b/agents.db --dry-run"""


def configure(parser: argparse.ArgumentParser) -> None:
    add, name = parser.add_argument, "NAME=URL"
    add("staying", metavar=name, nargs="*", help="a replica that stays")
    add(
        "--joining",
        metavar=name,
        action="append",
        default=[],
        help="a new replica; can be repeated",
    )
    add(
        "--leaving",
        metavar=name,
        action="append",
        default=[],
        help="a replica that leaves; can be repeated",
    )
    add_namespace(add)
    add("--dry-run", action="store_true", help="only say what would move")
    spill_help = "where a replica spills turns; can be repeated"
    add("--spill", metavar="NAME=DIR", action="append", default=[], help=spill_help)
    gone = "wait this long for replicas to stop (default: 0)"
    add("--wait", type=float, default=0.0, metavar="SECONDS", help=gone)
    add_by(add)


def run(options: argparse.Namespace) -> int:
    check_span(options.wait, "--wait")
    groups = (options.staying, options.joining, options.leaving)
    staying, joining, leaving = ([_named(text) for text in group] for group in groups)
    stores = _once([*staying, *joining, *leaving])
    for name, url in stores.items():
        if name not in dict(joining):
            _refuse_missing(name, url)
    world = World()
    volumes: dict[str, SyncEngine] = {
        name: create_sync_engine(url if name in dict(joining) else looking(url), world)
        for name, url in stores.items()
        if not options.dry_run or name not in dict(joining)  # opening it would create it
    }
    namespace = check_id(options.namespace, "a namespace")
    rebalancing = Rebalancing(
        volumes,
        [name for name in stores if name not in dict(leaving)],
        namespace=namespace,
        world=world,
        progress=lambda count: progress.update(f"moved {count:,} …"),
        kept=KeptTurns(_spill_files(stores, options.spill), namespace, world),
    )
    with ProgressLine() as progress, ExitStack() as stack:
        for engine in volumes.values():
            stack.callback(engine.close)
            engine.open()
        if options.dry_run:
            moved = rebalancing.plan()
        else:
            old = {name: url for name, url in stores.items() if name not in dict(joining)}
            with _logged(options, old):
                moved = rebalancing.run(options.wait)
            for url in dict(joining).values():  # there was no log before
                with opened(url, namespace) as store:
                    store.operations.record(who(options), options.command, LAYOUT, LAYOUT)
    _say(moved, as_json=options.json)
    if not options.dry_run:
        _warn_of_spilled(sorted(moved.moves), options.spill)
    return FAILED if moved.undecided else OK


@contextmanager
def _logged(options: argparse.Namespace, stores: dict[str, EngineURL]) -> Iterator[None]:
    """Around the deed: in the log of each volume, because each has its own."""
    with ExitStack() as stack:
        for url in stores.values():
            store = stack.enter_context(opened(url, options.namespace))
            log = store.operations
            stack.enter_context(log.recording(who(options), options.command, LAYOUT, LAYOUT))
        yield


def _named(text: str) -> tuple[str, EngineURL]:
    name, equals, url = text.partition("=")
    if not equals or "://" in name:
        shown = text.partition(":")[0]
        raise InvalidInput(
            f"{shown!r}… does not name a replica: write NAME=URL, e.g. agents-0=sqlite:////data/agents.db"
        )
    return check_id(name, "the name of a replica"), parse(url)


def _once(named: list[tuple[str, EngineURL]]) -> dict[str, EngineURL]:
    if not named:
        raise InvalidInput("name the stores of all replicas: NAME=URL NAME=URL …")
    stores: dict[str, EngineURL] = {}
    for name, url in named:
        if name in stores or url.safe in [other.safe for other in stores.values()]:
            raise InvalidInput(f"{name}={url.safe} is given twice; each replica has its own store")
        stores[name] = url
    return stores


def _spill_files(stores: dict[str, EngineURL], named: list[str]) -> set[tuple[str, str]]:
    """Return the names of stores in spill files, and the folders of these files.

    A volume may have had another path where its replica ran; then all that is in the folder counts
    that is of a store of its kind.
    """
    files = {(url.identity, default_directory()) for url in stores.values()}
    for text in named:
        name, equals, folder = text.partition("=")
        if not equals or name not in stores:
            raise InvalidInput(
                f"--spill {text}: write NAME=DIR, with the name of a replica and the directory in "
                "which it keeps turns"
            )
        kind = stores[name].scheme
        files |= {(of, folder) for of in stores_in(folder) if of.startswith(f"{kind}://")}
    return files


def _refuse_missing(name: str, url: EngineURL) -> None:
    try:
        refuse_missing(url)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"there is no store of {name!r} at {url.safe}; check the path, or say "
            f"--joining {name}=… if it is new"
        ) from error


def _warn_of_spilled(sources: list[str], named: list[str]) -> None:
    """Warn of turns of moved threads that may wait where nothing looked for them."""
    for name in sources:
        if not any(text.startswith(f"{name}=") for text in named):
            complain(
                f"turns that {name} spilled were looked for in {default_directory()} only: if it "
                f"spills elsewhere, run this again with --spill {name}=DIR within a day; no "
                "replica stores them otherwise"
            )


def _say(moved: Moved, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**msgspec.to_builtins(moved), "entities": moved.entities}))
    else:
        verb = "would move" if moved.dry_run else "moved"
        for source, to in sorted(moved.moves.items()):
            for home, count in sorted(to.items()):
                print(f"{source} → {home}: {verb} {count:,}")
        if moved.replayed:
            print(f"stored {moved.replayed:,} turns that replicas had spilled")
        print(f"{verb} {moved.entities:,} in all; replicas: {', '.join(moved.replicas)}")
    for what in moved.undecided:
        complain(
            f"{what}: delete one of them, then run this again; until then no replica can serve"
        )
