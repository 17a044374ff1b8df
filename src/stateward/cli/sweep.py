"""`stateward sweep`: gives back the space of what no one can reach any more."""

from __future__ import annotations

import argparse
import json
import signal
from typing import Self

from stateward import sync
from stateward.cli.common import INTERRUPTED, OK, ProgressLine, add_url
from stateward.engines.registry import looking, parse, refuse_missing

EXAMPLES = """\
Expired conversations are never returned, swept or not; this removes them physically, a day after
they expired, in steps short enough not to delay agents. Ctrl-C or SIGTERM ends it between two steps
(exit code 4); the next run continues. Run it once a day.

examples:
  stateward sweep sqlite:///agents.db
  stateward sweep sqlite:///agents.db --limit 200
  stateward sweep sqlite:///agents.db --once --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add("--limit", type=int, default=1000, metavar="N", help="rows per step (default: 1000)")
    add("--once", action="store_true", help="one step, then stop")


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    entities = rows = 0
    has_more = True
    store = sync.open(looking(url).text, spill=False, heartbeat=None)
    refuse_missing(url)
    with store, ProgressLine() as progress, _Stop() as stop:
        while has_more and not stop.asked:
            swept = store.sweep(options.limit)
            entities, rows, has_more = entities + swept.entities, rows + swept.rows, swept.more
            progress.update(f"removed {rows:,} rows …")
            if options.once:
                break
    interrupted = stop.asked and has_more
    if options.json:
        report = {"url": url.safe, "entities": entities, "rows": rows, "more": has_more}
        print(json.dumps({**report, "interrupted": interrupted}))
    else:
        rest = "; there is more to remove" if has_more else ""
        print(f"{url.safe}: removed {entities:,} entities in {rows:,} rows{rest}")
    return INTERRUPTED if interrupted else OK


class _Stop:
    """A handler that notes the first SIGINT or SIGTERM; a second one has its usual effect."""

    asked = False

    def __enter__(self) -> Self:
        signals = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.signal(number, self._note) for number in signals}
        return self

    def _note(self, *_: object) -> None:
        self.asked = True
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
