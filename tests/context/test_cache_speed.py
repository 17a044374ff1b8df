"""What a cache is for: a tail of long messages that has not changed."""

from __future__ import annotations

import time
from statistics import median

import pytest
from servers.postgres import PostgresServer

import stateward.sync as stateward

ROUNDS = 400


@pytest.mark.timing
def test_a_cached_load_of_an_unchanged_tail_is_cheaper() -> None:
    server = PostgresServer().start()
    try:
        with (
            stateward.open(server.url) as plain,
            stateward.open(server.url, cache=stateward.Cache()) as cached,
        ):
            for number in range(20):
                words = " ".join(f"word{(number * at) % 977}" for at in range(700))[:4000]
                plain.thread("t").append({"role": "user", "content": words})
            took: dict[str, list[float]] = {"plain": [], "cached": []}
            for _ in range(ROUNDS):  # in turns, so that a busy machine slows both alike
                for name, store in (("plain", plain), ("cached", cached)):
                    begun = time.perf_counter()
                    store.thread("t").load(last=20)
                    took[name].append(time.perf_counter() - begun)
        assert cached.counters.cache_misses == 1
        assert median(took["cached"]) <= 0.85 * median(took["plain"])  # measured: 0.5 to 0.7
    finally:
        server.remove()
