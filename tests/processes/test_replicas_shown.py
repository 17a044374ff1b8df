"""Any process can see in the store which others live, and which were killed."""

from __future__ import annotations

import time
from collections import Counter

import stateward.sync
from processes.conftest import Start

EVERY = 0.5
PATIENCE = 60.0


def until(store: stateward.sync.Store, *wanted: str) -> dict[int, str]:
    """Wait until the processes of this store have these statuses; by process."""
    end = time.monotonic() + PATIENCE
    while True:
        found = {info.pid: info.status for info in store.replicas()}
        if Counter(found.values()) == Counter(wanted):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.02)


def test_one_that_is_killed_is_gone_and_one_that_closes_is_not(start: Start, url: str) -> None:
    children = [start("living", url, colour, EVERY) for colour in ("async", "sync", "async")]
    for child in children:
        child.until_said("open")
    killed, also_killed, closing = children
    with stateward.sync.open(url, heartbeat=None) as store:
        until(store, "alive", "alive", "alive")
        killed.kill()
        also_killed.kill()
        found = until(store, "alive", "gone", "gone")
        assert found[closing.process.pid] == "alive"
        closing.tell("close")
        closing.finish()
        found = until(store, "closed", "gone", "gone")
        assert found[closing.process.pid] == "closed"
