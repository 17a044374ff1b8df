"""`stateward health`: for people, and for the probes of a deployment."""

from __future__ import annotations

import argparse
import json

import msgspec

from stateward import sync
from stateward.cli.common import FAILED, OK, add_namespace, add_url, complain
from stateward.engines.registry import looking, parse, refuse_missing
from stateward.engines.url import EngineURL
from stateward.errors import StoreUnavailable
from stateward.records import Health

EXAMPLES = """\
Opens the store and sends it a request; changes nothing. Exit code 0: it answers; 1: it does not.

examples:
  stateward health sqlite:///agents.db
  stateward health sqlite:///agents.db --json
  stateward health sqlite:////data/agents.db --replica agents-0 --replicas agents-0,agents-1
  stateward health https://KEY@state.example.com --namespace shop
  STATEWARD_URL=sqlite:///agents.db stateward health"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add_namespace(add)
    add("--replica", metavar="NAME", help="this replica, for a store on replicas' volumes")
    add("--replicas", metavar="NAMES", help="all replicas: agents-0,agents-1,agents-2")


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    health = _ask(url, options.namespace, options.replica, options.replicas)
    if options.json:
        print(json.dumps({"url": url.safe, **msgspec.to_builtins(health)}))
    elif health.answers:
        print(f"{url.safe} answers")
        for name, value in _facts(health):
            print(f"  {name:<13}{value}")
    if not health.ok and not options.json:
        complain(f"{url.safe} is unhealthy: {health.error}")
    return OK if health.answers else FAILED


def _ask(url: EngineURL, namespace: str, replica: str | None, replicas: str | None) -> Health:
    names = None if replicas is None else replicas.split(",")
    # Not `with`: entering would raise what health() reports.
    store = sync.open(
        looking(url).text,
        namespace=namespace,
        replica=replica,
        replicas=names,
        spill=False,  # turns spilled by a dead process are stored by a working one
        heartbeat=None,
    )
    try:
        refuse_missing(url)
        return store.health()
    except StoreUnavailable as error:
        return Health(ok=False, error=str(error), answers=False)
    finally:
        store.close()


def _facts(health: Health) -> list[tuple[str, str]]:
    facts = [
        ("engine", f"{health.engine} {health.version}"),
        ("schema", str(health.schema)),
        ("durability", str(health.durability)),
    ]
    if health.bytes is not None:
        facts.append(("size", f"{health.bytes:,} bytes"))
    if health.latency is not None:
        facts.append(("answered in", f"{health.latency * 1000:.1f} ms"))
    return facts
