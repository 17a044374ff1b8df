"""`python -m bench.patterns`: the figures of docs/how-to/choosing-an-engine.md, measured here.

    python -m bench.patterns                                 sqlite, and the servers of the tests
    python -m bench.patterns redis=redis://127.0.0.1:6379    any store, by a name and its URL

For each store: a turn of two messages stored, the last 20 messages of a conversation, and the whole
context, by one caller and by ten conversations at once.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from statistics import quantiles
from time import perf_counter

import stateward

EVERYSEC = ("--appendonly", "yes", "--appendfsync", "everysec")
ROOT = Path(__file__).resolve().parent.parent
STARTED = ("postgres", "valkey")  # the tests' own servers, on loopback
TURN = tuple({"role": role, "content": role[0] * 500} for role in ("user", "assistant"))
HISTORY, CONVERSATIONS = 50, 10

Call = Callable[[stateward.Store, int], Awaitable[object]]
CALLS: dict[str, Call] = {
    "append": lambda store, n: store.thread(f"s-{n}", user="u").append(*TURN),
    "load 20": lambda store, n: store.thread(f"s-{n}", user="u").load(last=20),
    "context": lambda store, n: store.context(user="u", thread=f"s-{n}"),
}


async def measure(url: str, seconds: float) -> tuple[str, dict[str, list[float]]]:
    """What the store says of its durability, and milliseconds by call: p50, p99, p99 of ten."""
    async with stateward.open(url, namespace="bench") as store:
        for number in range(CONVERSATIONS):
            await store.thread(f"s-{number}", user="u").append(*TURN * (HISTORY // 2))
        await store.user("u").put({"name": "Noor", "style": "brief"})
        figures: dict[str, list[float]] = {}
        for name in ("load 20", "context", "append"):  # appends last: they make histories longer
            alone = await _times(store, CALLS[name], 1, seconds)
            ten = await _times(store, CALLS[name], CONVERSATIONS, seconds)
            cuts = quantiles(alone, n=100)
            figures[name] = [cuts[49], cuts[98], quantiles(ten, n=100)[98]]
        return (await store.describe()).durability, figures


async def _times(store: stateward.Store, call: Call, callers: int, seconds: float) -> list[float]:
    taken: list[float] = []
    end = perf_counter() + seconds

    async def converse(number: int) -> None:
        while perf_counter() < end or len(taken) < 10:
            start = perf_counter()
            await call(store, number)
            taken.append((perf_counter() - start) * 1000)

    await asyncio.gather(*(converse(number) for number in range(callers)))
    return taken


@contextmanager
def stores(named: Sequence[str], folder: str | None) -> Iterator[dict[str, str]]:
    """Name → URL of those asked for; of all that are there if none was."""
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(dir=folder))
        found = dict(text.split("=", 1) for text in named if "=" in text)
        wanted = [text for text in named if "=" not in text]
        if not named or "sqlite" in wanted:
            found["sqlite"] = f"sqlite:///{place}/agents.db"
        sys.path.insert(0, str(ROOT / "tests"))
        for name in STARTED:
            if not named or name in wanted:
                found[name] = _start(name, Path(place), stack)
        yield found


def _start(name: str, place: Path, stack: ExitStack) -> str:
    """A server's URL; it ends with the stack."""
    if name == "postgres":
        database = import_module("servers.postgres").PostgresServer().start()
        stack.callback(database.remove)
        return str(database.url_of("patterns"))
    folder = place / name
    server = import_module("servers.redis").RedisServer(folder, name, *EVERYSEC).start()
    stack.callback(server.stop)
    return str(server.url)


def table(measured: dict[str, tuple[str, dict[str, list[float]]]]) -> str:
    """Markdown."""
    heads = [f"{name}: p50 / p99, of ten at once" for name in CALLS]
    lines = [
        f"| store | {' | '.join(heads)} | durability |",
        f"| --- |{' --- |' * (len(heads) + 1)}",
    ]
    for store, (durability, figures) in measured.items():
        cells = [f"{a:.2f} / {b:.2f}, {c:.2f} ms" for a, b, c in (figures[n] for n in CALLS)]
        lines.append(f"| {store} | {' | '.join(cells)} | {durability} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.patterns", description=__doc__)
    parser.add_argument(
        "stores", nargs="*", metavar="STORE", help="sqlite, postgres, valkey or NAME=URL"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="for each figure (default: 2)")
    parser.add_argument("--folder", help="on the disk to be measured; default: the temporary one")
    options = parser.parse_args(arguments)
    with stores(options.stores, options.folder) as urls:
        print(table({n: asyncio.run(measure(u, options.seconds)) for n, u in urls.items()}))


if __name__ == "__main__":
    main()
