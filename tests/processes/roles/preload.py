"""A store made before the fork, as a server that loads the application before its workers does.

python preload.py URL COLOUR unused|used|busy|busy-close|holding

unused: the store is made before the fork and used after it, by three children and the parent.
used:   the parent has used it before the fork.
busy:   the parent is using it, on other threads, at the very moments of the forks.
        The children try to use it too, or (busy-close) to close it.
holding: a thread of the parent holds a lock. The children try all that, and the lock stays held.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from threading import Condition, Event, Lock, RLock, Thread
from typing import Any

from talk import described, open_store, report, say, settled

from stateward import LeaseHeld, StoreMisused, sync

TURNS = 20
HANGS = 25.0  # seconds after which a child counts as hanging, however busy the machine is

# Python 3.12 and later warn of any fork of a process with threads; here that is the point.
warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)

url, colour, moment = sys.argv[1:]
store = open_store(colour, url)


async def use(who: str) -> None:
    """An ordinary morning's work: a conversation of one's own, and a count in common."""
    thread = store.thread(who, user="u-1")
    for number in range(TURNS):
        await settled(thread.append({"turn": number, "part": 1}, {"turn": number, "part": 2}))
        await settled(store.user("u-1").update(lambda value: {"n": value.get("n", 0) + 1}))
    window = await settled(thread.load())
    assert len(window.messages) == 2 * TURNS


def fork(work: Callable[[], None]) -> int:
    """A child that does the work and ends as Python programs end, with all their cleaning up."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException as error:
        say(f"child failed: {described(error)}")
        os._exit(1)
    sys.exit(0)


def join(child: int) -> None:
    """Wait for a child, but not for ever."""
    end = time.monotonic() + HANGS
    done, status = os.waitpid(child, os.WNOHANG)
    while not done:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"a child did not end within {HANGS:g} s")
        time.sleep(0.002)
        done, status = os.waitpid(child, os.WNOHANG)
    assert os.waitstatus_to_exitcode(status) == 0, f"a child ended with status {status}"


def be_refused() -> None:
    """Every way to use the store must say at once that it cannot work here."""
    calls = {
        "load": lambda: store.thread("parent", user="u-1").load(),
        "append": lambda: store.thread("parent", user="u-1").append({"from": "a child"}),
        "update": lambda: store.user("u-1").update(lambda value: {"n": -1}),
        "once": lambda: store.once("of a child", int),
        "lock": lambda: entered(store.lock("of a child")),
    }
    for name, call in calls.items():
        begun = time.monotonic()
        try:
            asyncio.run(settled_call(call))
            words = "it worked"
        except StoreMisused as error:
            words = str(error)
        assert "fork" in words, f"{name}: {words}"
        assert time.monotonic() - begun < 4.0, f"{name} took its time to refuse"
    say("refused")


def entered(lock: Any) -> Any:
    return lock.__enter__() if colour == "sync" else lock.__aenter__()


def left(lock: Any) -> Any:
    nothing = (None, None, None)
    return lock.__exit__(*nothing) if colour == "sync" else lock.__aexit__(*nothing)


def close_in_child() -> None:
    """Closing what belongs to the parent may be refused or do nothing; it never hangs."""
    try:
        asyncio.run(settled_call(store.close))
    except StoreMisused:
        pass
    say("closed")


async def settled_call(call: Callable[[], Any]) -> Any:
    return await settled(call())


def unused() -> None:
    children = [fork(lambda who=f"child-{n}": asyncio.run(use(who))) for n in range(3)]
    asyncio.run(use("parent"))
    for child in children:
        join(child)


def used() -> None:
    asyncio.run(use("before"))
    children = [fork(work) for work in (be_refused, close_in_child, be_refused)]
    asyncio.run(use("parent"))
    for child in children:
        join(child)
    asyncio.run(use("after"))


def busy() -> None:
    """Other threads are inside the store, with its locks in their hands, when the forks come."""
    stop = Event()
    written = [0, 0]

    async def load(place: int) -> None:
        while not stop.is_set():
            await settled(store.thread(f"load-{place}").append({"n": written[place]}))
            await settled(store.once(f"{place} {written[place]}", int))
            written[place] += 1

    async def both() -> None:
        await asyncio.gather(load(0), load(1))

    if colour == "sync":
        threads = [Thread(target=asyncio.run, args=(load(place),)) for place in (0, 1)]
    else:
        threads = [Thread(target=asyncio.run, args=(both(),))]
    for thread in threads:
        thread.start()
    while min(written) < 20:
        time.sleep(0.001)
    try:
        for _ in range(8):
            join(fork(be_refused if moment == "busy" else close_in_child))
        before = sum(written)
        while sum(written) < before + 20:  # the parent goes on
            time.sleep(0.001)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    report(written=written)


def holding() -> None:
    held = Event()
    stop: list[Callable[[], object]] = []

    async def hold() -> None:
        lock = store.lock("held", ttl=60)
        lease = await settled(entered(lock))
        # Not a thread of an executor: its own locks do not survive every fork.
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        stop.append(partial(loop.call_soon_threadsafe, stopped.set))
        held.set()
        await stopped.wait()
        lease.check()
        await settled(left(lock))

    thread = Thread(target=asyncio.run, args=(hold(),))
    thread.start()
    held.wait()
    try:
        for work in (be_refused, close_in_child):
            join(fork(work))
            report(held=is_held())
    finally:
        stop[0]()
        thread.join()
    report(held=is_held())


def locked() -> None:
    """Every lock of the package is held when the forks come, as if by threads that stay behind."""
    asyncio.run(use("before"))
    asyncio.run(settled_call(partial(store.once, "k", int)))  # renewals have begun
    held = [lock for lock in locks() if lock.acquire(blocking=False)]
    for work in (be_refused, close_in_child):
        join(fork(work))
    for lock in held:  # not by `finally`: a child passes here too when it ends
        lock.release()
    report(held=len(held) > 5)


def locks() -> Iterator[Any]:
    """Those that objects of the package have, and its modules."""
    kinds = (type(Lock()), type(RLock()), Condition)
    modules = [each for name, each in sys.modules.items() if name.startswith("stateward")]
    objects = [each for each in gc.get_objects() if type(each).__module__.startswith("stateward")]
    for each in [*modules, *objects]:
        slots = {name: getattr(each, name, None) for name in getattr(each, "__slots__", ())}
        for value in (getattr(each, "__dict__", {}) | slots).values():
            if isinstance(value, kinds):
                yield value


def is_held() -> bool:
    """As another replica sees it."""
    with sync.open(url) as other:
        try:
            with other.lock("held", wait=0):
                return False
        except LeaseHeld:
            return True


moments = {"busy-close": busy, "holding": holding, "locked": locked}
moments |= {"unused": unused, "used": used, "busy": busy}
moments[moment]()
asyncio.run(settled_call(store.close))
