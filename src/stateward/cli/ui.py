"""`stateward ui`: the dashboard of a store, in the browser."""

from __future__ import annotations

import argparse
import json
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkstemp
from threading import Thread

import stateward
from stateward.cli.common import add_url
from stateward.cli.serve import listening_on, serve
from stateward.engines.registry import looking, parse, refuse_missing
from stateward.errors import InvalidInput
from stateward.server import app

HOST = "127.0.0.1"

EXAMPLES = """\
Serves the store to this machine only, on any free port, until Ctrl-C. The address contains a key
that is generated for this run: it is not stored, permits everything, and ends with the command.
Until then, anyone who has the address can read and change the store.

examples:
  stateward ui sqlite:///agents.db
  stateward ui postgresql://agents@db/agents --no-open
  STATEWARD_URL=redis://cache:6379 stateward ui"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add("--port", type=int, default=0, metavar="N", help="the port (default: any free one)")
    add("--no-open", action="store_true", help="only print the address")


def run(options: argparse.Namespace) -> int:
    if find_spec("uvicorn") is None:
        raise InvalidInput("the dashboard needs uvicorn: pip install 'stateward[server]'")
    if not 0 <= options.port <= 65_535:
        raise InvalidInput(f"--port must be from 0 (any free one) to 65535, not {options.port}")
    url = parse(options.url)
    refuse_missing(url)
    store = stateward.open(looking(url).text, spill=False, heartbeat=None)
    application = app(store)
    pages: list[str] = []
    key = application.lend_key("admin")

    def begun(port: int) -> None:
        address = f"http://{HOST}:{port}/ui/#key={key}"
        if options.json:
            print(json.dumps({"url": address, "store": url.safe}), flush=True)
        else:
            print(f"{url.safe}: {address}\nCtrl-C ends it.", flush=True)
        if not options.no_open:
            # In a thread: a browser of the terminal must not block the dashboard's server.
            pages.append(leading_to(address))
            page = Path(pages[0]).as_uri()
            Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    try:
        with listening_on(HOST, options.port) as listening:
            return serve(application, listening, begun)
    finally:
        for page in pages:
            Path(page).unlink(missing_ok=True)


def leading_to(address: str) -> str:
    """Return the path of a page that only this user can read, and that leads to the address.

    Other users of the machine see the command line of the browser, and so no key may be in it.
    """
    number, path = mkstemp(suffix=".html", prefix="stateward-")  # readable by its owner alone
    with open(number, "w", encoding="utf-8") as page:
        page.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">')
    return path
