"""Use stores at a moment at which the process gets no more of something, and afterwards.

python exhausted.py FOLDER COLOUR SHORTAGE: prints what was answered then, and what holds later.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import stateward
from stateward import sync

folder, colour, shortage = sys.argv[1:]
opened: Any = stateward if colour == "async" else sync
LIMIT = 5.0  # seconds beyond its deadline after which a call hangs
QUICK = stateward.Policy(read_timeout=1.0, write_timeout=1.0, breaker_seconds=0.01)
KINDS = {
    "no thread": resource.RLIMIT_NPROC,
    "one thread": resource.RLIMIT_NPROC,
    **{f"{n} files": resource.RLIMIT_NOFILE for n in range(6)},
    **{f"{n} MB": resource.RLIMIT_AS for n in (0, 1, 4, 16)},
}


def limit() -> int:
    if shortage.endswith("files"):
        free = [os.dup(0) for _ in range(int(shortage[0]) + 1)]
        for descriptor in free:
            os.close(descriptor)
        return free[-1]
    if shortage.endswith("MB"):
        with open("/proc/self/statm") as sizes:
            pages = int(sizes.read().split()[0])
        return pages * resource.getpagesize() + (int(shortage.split()[0]) << 20)
    threads = len(os.listdir("/proc/self/task"))
    return threads + (shortage == "one thread")


def limited(yes: bool) -> None:
    kind = KINDS[shortage]
    hard = resource.getrlimit(kind)[1]
    soft = limit() if yes else BEFORE[shortage]
    resource.setrlimit(kind, (soft, hard))


async def result(work: Callable[[], Any]) -> str:
    """Return the status of a call, or the class of its error."""
    began = time.monotonic()
    try:
        answer = work()
        if inspect.isawaitable(answer):
            answer = await asyncio.wait_for(answer, LIMIT)
    except TimeoutError:
        return "HANGS"
    except stateward.StatewardError as error:
        answer = f"{type(error).__name__} {getattr(error, 'applied', '')}"
    except MemoryError:
        answer = "MemoryError"
    except BaseException as error:
        return f"RAISES {error!r}"
    slow = time.monotonic() - began > LIMIT
    return "HANGS" if slow else str(getattr(answer, "status", answer))


def make_of(place: str, **options: Any) -> Any:
    return opened.open(place, policy=QUICK, heartbeat=None, metrics=False, **options)


async def hold(lock: Any, seconds: float, then: Callable[[], None]) -> str:
    """Hold a lock for longer than its ttl; `then` is called when it was granted."""
    if colour == "async":
        async with lock:
            then()
            await asyncio.sleep(seconds)
    else:
        with lock as lease:
            then()
            time.sleep(seconds)  # noqa: ASYNC251 - blocking code blocks
            lease.check()
    return "held"


async def main() -> None:
    store = make_of(f"sqlite:///{folder}/s.db", spill=False)
    away = make_of("redis://127.0.0.1:9?timeout=0.3", spill=f"{folder}/spill")
    fresh = make_of(f"sqlite:///{folder}/fresh.db", spill=False)
    facts: dict[str, Any] = {"first": [await result(lambda: store.thread("t").append({"n": -1}))]}
    facts["first"].append(await result(lambda: away.thread("t").append({"n": -1})))
    await asyncio.sleep(0.3)  # the threads of that have ended

    limited(True)
    during, stored = [], 1
    # Without memory for a large turn, the encoder itself ends the process.
    # And each thread that cannot begin is waited for.
    size, rounds = (5_000, 4) if shortage.endswith("MB") else (500_000, 14)
    for n in range(rounds):
        big = {"n": n, "pad": "x" * size}
        one, other = store.thread("t"), away.thread(f"t-{n}")
        status = await result(lambda: one.append(big))  # noqa: B023
        stored += status == "stored"
        during.append(status)
        during.append(await result(lambda: other.append({"n": n})))  # noqa: B023
        during.append(await result(lambda: fresh.thread("t").append({"n": n})))  # noqa: B023
    lift = threading.Lock()

    def lifted() -> None:
        if lift.acquire(blocking=False):
            limited(False)

    limited(False)
    limited(True)  # by what runs now: the last thread is the one that would start another
    lock = store.lock("l", ttl=0.5)
    facts["lock"] = await result(lambda: hold(lock, 1.5, lifted))
    lifted()
    facts["during"] = sorted(set(during))

    await asyncio.sleep(0.1)  # beyond the pause of the breaker
    after = []
    for n in range(6):
        turn = {"n": n}
        for each in (store, away, fresh):
            status = await result(lambda: each.thread("u").append(turn))  # noqa: B023
            after.append(status)
    facts["after"] = after
    facts["lock after"] = await result(lambda: hold(store.lock("l", ttl=0.5), 1.2, lambda: None))
    version = store.thread("t").load()
    window = await version if inspect.isawaitable(version) else version
    facts["there"] = [window.version, stored]
    print(json.dumps(facts), flush=True)
    os._exit(0)


def run() -> None:
    for package in ("stateward", "stateward.sync"):  # another account may not read them
        for engine in ("sqlite", "redis"):
            importlib.import_module(f"{package}.engines.{engine}.engine")
    importlib.import_module("encodings.idna")
    if os.geteuid() == 0 and shortage.endswith("thread"):  # the limit does not count for root
        account = 70_000 + os.getpid() % 50_000  # its own: others' threads count for the limit
        os.setgroups([])
        os.setresgid(account, account, account)
        os.setresuid(account, account, account)
    logging.disable()
    if shortage.endswith("MB"):  # Python says of each thread that it had no memory to begin
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    asyncio.run(main())


os.environ["HOME"] = folder
BEFORE = {name: resource.getrlimit(kind)[0] for name, kind in KINDS.items()}
run()
