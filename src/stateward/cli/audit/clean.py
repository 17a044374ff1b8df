"""`stateward audit clean`: remove what a killed audit has left."""

from __future__ import annotations

import argparse
import asyncio
import json

from stateward.audit.safety import isolation
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.targets.frameworks.sandbox import sandbox
from stateward.cli.common import OK
from stateward.errors import InvalidInput

EXAMPLES = """\
Only removes what audits and benchmarks created, and leaves running ones alone; it may take 15
seconds to recognise them. In a namespace, leftovers expire within a day.

examples:
  stateward audit clean sqlite:///agents.db
  stateward audit clean redis://…
  stateward audit clean langgraph:postgres --url postgresql://…"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="URL", help="the store; or a framework's store, with --url"
    )
    parser.add_argument("--url", metavar="URL", help="where a framework's store keeps its state")


def run(options: argparse.Namespace) -> int:
    if options.target in FRAMEWORKS:
        if options.url is None:
            raise InvalidInput(
                f"name its location: stateward audit clean {options.target} --url postgresql://…"
            )
        cleaned = [f"{name}: removed" for name in asyncio.run(sandbox(options.url, "").clear_all())]
    elif "://" in options.target:
        cleaned = list(asyncio.run(isolation.clean(options.target)))
    else:
        raise InvalidInput("clean takes a store's URL: stateward audit clean redis://…")
    if options.json:
        print(json.dumps({"cleaned": cleaned}))
    else:
        print("\n".join(cleaned) or "no audit has left anything here")
    return OK
