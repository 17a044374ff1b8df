"""What the processes of a race do: python -m context.workers TASK URL NUMBER FOLDER"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

import stateward.sync as stateward

THREADS = ("a", "b")
ROUNDS = 120
SUMMARISED_TURNS = 60


def read_and_write(url: str, worker: int, folder: str) -> dict[str, Any]:
    """Write through one store or the other, and read all of it at once through the cached one."""
    chance = random.Random(worker)
    cache = stateward.Cache()
    versions = dict.fromkeys(THREADS, 0)
    seen: dict[str, int] = {}
    mine: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in THREADS}
    with stateward.open(url) as plain, stateward.open(url, cache=cache) as cached:
        for number in range(ROUNDS):
            name = chance.choice(THREADS)
            write(plain if chance.random() < 0.6 else cached, name, worker, number, mine, chance)
            window = cached.thread(name).load(last=chance.choice((50, 2000)))
            assert window.version >= versions[name], "a window went back in time"
            versions[name] = window.version
            first = window.version - len(window.messages) + 1
            for at, message in mine[name].items():
                if at >= first:
                    assert window.messages[at - first] == message, "stale, or somebody else's"
            document = cached.user("u").get().value
            assert document.get(str(worker), -1) == seen.get(str(worker), -1)
            assert all(document[key] >= value for key, value in seen.items()), "went back in time"
            seen = dict(document)
            seen[str(worker)] = number
            plain.user("u").patch({str(worker): number}, within=30.0)
    return {"hits": cached.counters.cache_hits, "misses": cached.counters.cache_misses}


def write(
    store: stateward.Store,
    name: str,
    worker: int,
    number: int,
    mine: dict[str, dict[int, dict[str, Any]]],
    chance: random.Random,
) -> None:
    """One of the ways in which a thread changes."""
    thread = store.thread(name)
    message = {"by": worker, "n": number}
    kind = chance.random()
    if kind < 0.7 or not mine[name]:
        mine[name][thread.append(message).version] = message
    elif kind < 0.85:
        at = chance.choice(list(mine[name]))
        mine[name][at] = {"edited by": worker, "n": number}
        thread.edit({at: mine[name][at]})
    else:
        thread.vars.patch({str(worker): number}, within=30.0)


def summarise(url: str, worker: int, folder: str) -> dict[str, Any]:
    """Talk, and summarise whatever is due, as all the others do."""
    calls = os.open(f"{folder}/calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def told(previous: str | None, messages: list[dict[str, Any]]) -> str:
        line = {"previous": previous, "messages": [m["content"] for m in messages]}
        os.write(calls, f"{json.dumps(line)}\n".encode())
        return "+".join([previous or "", *(m["content"] for m in messages)])

    compaction = stateward.Compaction(told, after=12, keep=4)
    with stateward.open(url) as store:
        thread = store.thread("t")
        for number in range(SUMMARISED_TURNS):
            thread.append(
                {"role": "user", "content": f"{worker}.{number}"},
                {"role": "assistant", "content": "ok"},
            )
            thread.load(summarize=compaction)
    counters = store.counters
    return {
        "made": counters.summaries_made,
        "failed": counters.summaries_failed,
        "discarded": counters.summaries_discarded,
    }


if __name__ == "__main__":
    task, url, number, folder = sys.argv[1:]
    tasks = {"read_and_write": read_and_write, "summarise": summarise}
    print(json.dumps(tasks[task](url, int(number), folder)))
