"""putter URL NAME LOG: `put CORRELATION` replaces one document at once. Blocking code."""

from __future__ import annotations

import logging
import sys

from stateward import sync
from stateward.observe.correlation import correlate
from stateward.observe.logs import JsonFormatter

url, name, log = sys.argv[1:]
handler = logging.FileHandler(log)
handler.setFormatter(JsonFormatter(replica=name))
logging.getLogger("stateward").addHandler(handler)
logging.getLogger("stateward").setLevel(logging.DEBUG)
with sync.open(url, spill=False) as store:
    print("ready", flush=True)
    while line := sys.stdin.readline().strip():
        with correlate(line.partition(" ")[2]):
            store.user("u-42").put({"plan": "a secret plan"})
        print("done", flush=True)
handler.close()
