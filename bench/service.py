"""What the way through the service costs beside the library: `python -m bench.service`.

Both append turns to the same kind of store, in turns of a second each, so that what else the
machine does falls on both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import stateward

TURN = ({"role": "user", "content": "x" * 200}, {"role": "assistant", "content": "y" * 600})


async def appends(store: stateward.Store, conversations: int, seconds: float) -> list[float]:
    """How long each append took."""
    end = time.monotonic() + seconds
    took: list[float] = []

    async def talk(number: int) -> None:
        thread = store.thread(f"t-{number}")
        while (begun := time.monotonic()) < end:
            await thread.append(*TURN)
            took.append(time.monotonic() - begun)

    await asyncio.gather(*map(talk, range(conversations)))
    return took


async def measure(urls: dict[str, str], rounds: int, seconds: float) -> None:
    for conversations in (1, 100):
        took: dict[str, list[float]] = {name: [] for name in urls}
        stores = {name: stateward.open(url) for name, url in urls.items()}
        for store in stores.values():
            await appends(store, conversations, 0.3)
        ratios = []
        for _ in range(rounds):
            counts = {}
            for name, store in stores.items():
                found = await appends(store, conversations, seconds)
                took[name] += found
                counts[name] = len(found)
            ratios.append(counts["service"] / counts["library"])
        for name, store in stores.items():
            await store.close()
            ranked = sorted(took[name])
            print(
                f"{conversations:>4} conversations  {name:<8}"
                f"{len(ranked) / (rounds * seconds):>9,.0f} appends/s"
                f"   p50 {1000 * ranked[len(ranked) // 2]:6.2f} ms"
                f"   p99 {1000 * ranked[int(len(ranked) * 0.99)]:6.2f} ms"
            )
        print(f"{'':>20}service / library: {statistics.median(ratios):.0%} (median of rounds)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library, served = (f"sqlite:///{Path(folder)}/{name}.db" for name in ("library", "served"))
        command = [sys.executable, "-m", "stateward", "serve", served, "--port", "0"]
        server = subprocess.Popen([*command, "--insecure-local"], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            urls = {"library": library, "service": url}
            asyncio.run(measure(urls, options.rounds, options.seconds))
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main()
