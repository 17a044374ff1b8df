"""Writes to a few threads, users and workflows, many times.

python toucher.py URL SEED WRITES
"""

from __future__ import annotations

import random
import sys

from talk import say

from stateward import Policy, sync

url, seed, writes = sys.argv[1:]
draw = random.Random(int(seed))
PATIENT = Policy(threads="raise", write_timeout=60.0, read_timeout=60.0)

with sync.open(url, spill=False, heartbeat=None, policy=PATIENT) as store:
    say("ready")
    for number in range(int(writes)):
        what = draw.random()
        if what < 0.6:
            store.thread(f"t-{draw.randrange(50)}").append({"by": seed, "n": number})
        elif what < 0.8:
            store.thread(f"own-{seed}-{number}").append({"n": number})
        else:
            store.user(f"u-{draw.randrange(20)}").put({"by": seed, "n": number})
say("done")
