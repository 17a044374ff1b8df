"""`stateward ui`: the dashboard of a store, in the browser of whoever looks."""

from __future__ import annotations

import argparse
import json
import webbrowser
from importlib.util import find_spec
from threading import Thread

import stateward
from stateward.cli.common import add_url
from stateward.cli.serve import listening_on, serve
from stateward.engines.registry import looking, parse, refuse_missing
from stateward.errors import InvalidInput
from stateward.server import app

HOST = "127.0.0.1"

EXAMPLES = """\
Serves the store to this machine alone, on any free port, until Ctrl-C. The address has a key that
is made for this time: it is in no store, may do everything, and ends with the command. Whoever has
the address can look and act until then.

examples:
  stateward ui sqlite:///agents.db
  stateward ui postgresql://agents@db/agents --no-open
  STATEWARD_URL=redis://cache:6379 stateward ui"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add(
        "--port",
        type=int,
        default=0,
        metavar="N",
        help="where to listen (default: any)",
    )
    add("--no-open", action="store_true", help="only print the address")


def run(options: argparse.Namespace) -> int:
    if find_spec("uvicorn") is None:
        raise InvalidInput("the dashboard needs uvicorn: pip install 'stateward[server]'")
    url = parse(options.url)
    refuse_missing(url)
    store = stateward.open(looking(url).text, spill=False, heartbeat=None)
    application = app(store)
    key = application.lend_key("admin")

    def begun(port: int) -> None:
        here = f"http://{HOST}:{port}/ui/#key={key}"
        if options.json:
            print(json.dumps({"url": here, "store": url.safe}), flush=True)
        else:
            print(f"{url.safe}: {here}\nCtrl-C ends it.", flush=True)
        if not options.no_open:
            # Of its own: a browser in this terminal must not hold up what it looks at.
            Thread(target=webbrowser.open, args=(here,), daemon=True).start()

    with listening_on(HOST, options.port) as listening:
        return serve(application, listening, begun)
