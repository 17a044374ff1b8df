"""What the hot path costs, in what does not depend on the machine: lines and calls of Stateward.

    python tests/guard/counting.py            print what is counted now, as JSON
    python tests/guard/counting.py --write    make that the budget: tests/guard/budgets.json

It runs in a process of its own, because whoever traces must be alone. One call is counted after
some that nobody counts; of several the median is taken, so that what happens from time to time (a
table that grows, a sample that is due) does not show.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any

import apsw

import stateward
import stateward.sync

BUDGETS = Path(__file__).parent / "budgets.json"
PACKAGE = str(Path(stateward.__file__).parent)
HISTORY = 100
SHORT, LONG = 20, 10_000
LISTED = 20
WARM, COUNTED = 10, 15
TURNS = 1000  # whose bytes are counted
PUTS = 1000  # to one document: what is not kept is looked for a few times
TURN = tuple({"role": role, "content": role[0] * 480} for role in ("user", "assistant"))

Counts = dict[str, int]


class Counter:
    """Lines that were executed and functions that were called within the package, by one thread.

    What the writer of a file does on a thread of its own is not counted: whether its last lines
    come before the caller's next would be chance.
    """

    def __init__(self) -> None:
        self.lines = 0
        self.calls = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.lines = self.calls = 0
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)

    @property
    def counts(self) -> Counts:
        return {"lines": self.lines, "calls": self.calls}

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        self.calls += 1
        return self._inside

    def _inside(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.lines += 1
        return self._inside


def median_of(found: list[Counts]) -> Counts:
    return {name: median_low([each[name] for each in found]) for name in found[0]}


# --- the operations ---------------------------------------------------------------------


def visit(value: dict[str, Any]) -> None:
    value["visits"] = value.get("visits", 0) + 1


def charge(number: int) -> int:
    return number


async def take_turn(store: Any, number: int) -> None:
    async with store.thread("t", user="u").turn(key=f"request-{number}", last=20) as turn:
        await turn.store(*TURN)


async def list_newest(store: Any, number: int) -> None:
    if number < WARM:  # by then there are more than a page
        for name in ("a", "b", "c"):
            await store.thread(f"{name}-{number}", user="u").append(*TURN)
    page = [info async for info in store.threads(user="u", order="recent", limit=LISTED)]
    assert number < WARM or len(page) == LISTED


def take_turn_blocking(store: Any, number: int) -> None:
    with store.thread("t", user="u").turn(key=f"request-{number}", last=20) as turn:
        turn.store(*TURN)


def list_newest_blocking(store: Any, number: int) -> None:
    if number < WARM:
        for name in ("a", "b", "c"):
            store.thread(f"{name}-{number}", user="u").append(*TURN)
    page = list(store.threads(user="u", order="recent", limit=LISTED))
    assert number < WARM or len(page) == LISTED


def operations(store: Any, seen: Any) -> dict[str, Callable[[int], Any]]:
    """By name: what is called with the number of the call. Awaitable in one of the colours.

    `seen` is a window of the thread.
    """
    thread = store.thread("t", user="u")
    awaits = isinstance(store, stateward.Store)
    turn = take_turn if awaits else take_turn_blocking
    newest = list_newest if awaits else list_newest_blocking
    return {
        "append": lambda _: thread.append(*TURN),
        "append, saw": lambda _: thread.append(*TURN, saw=seen),
        "last 20": lambda _: thread.load(last=20),
        "context": lambda _: store.context(user="u", thread="t", last=20),
        "user get": lambda _: store.user("u").get(),
        "user update": lambda _: store.user("u").update(visit),
        "user put": lambda number: store.user("u").put({"visits": number}, "put"),
        "run once": lambda number: store.once(f"charge-{number}", charge, number),
        "run once, finished": lambda _: store.once("charge-0", charge, 0),
        "turn": lambda number: turn(store, number),
        "newest 20": lambda number: newest(store, number),
    }


async def counted_awaiting(url: str) -> dict[str, Counts]:
    counter = Counter()
    found: dict[str, Counts] = {}
    async with stateward.open(url) as store:
        await prepare(store)
        seen = await store.thread("t", user="u").load(last=20)
        for name, call in operations(store, seen).items():
            for number in range(WARM):
                await call(number)
            each = []
            for number in range(WARM, WARM + COUNTED):
                with counter.counting():
                    await call(number)
                each.append(counter.counts)
            found[name] = median_of(each)
    return found


async def prepare(store: stateward.Store) -> None:
    thread = store.thread("t", user="u")
    for _ in range(HISTORY // 2):
        await thread.append(*TURN)
    await store.user("u").put({"name": "Noor"})


def counted_blocking(url: str) -> dict[str, Counts]:
    counter = Counter()
    found: dict[str, Counts] = {}
    with stateward.sync.open(url) as store:
        for _ in range(HISTORY // 2):
            store.thread("t", user="u").append(*TURN)
        store.user("u").put({"name": "Noor"})
        seen = store.thread("t", user="u").load(last=20)
        for name, call in operations(store, seen).items():
            for number in range(WARM):
                call(number)
            each = []
            for number in range(WARM, WARM + COUNTED):
                with counter.counting():
                    call(number)
                each.append(counter.counts)
            found[name] = median_of(each)
    return found


# --- growth with the history ------------------------------------------------------------


class Statements:
    """Statements that SQLite ran, and the steps of its virtual machine, on every connection."""

    def __init__(self) -> None:
        self.statements = 0
        self.steps = 0
        self._lock = threading.Lock()

    def attach(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._ran)

    def _ran(self, event: dict[str, Any]) -> None:
        with self._lock:
            self.statements += 1
            self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


def sqlite_steps(folder: Path) -> dict[str, dict[str, Counts]]:
    """What SQLite does for an append and for the last 20, on a short and on a long history."""
    seen = Statements()
    apsw.connection_hooks.append(seen.attach)
    found: dict[str, dict[str, Counts]] = {}
    try:
        with stateward.sync.open(f"sqlite:///{folder}/grown.db") as store:
            for length in (SHORT, LONG):
                thread = store.thread(f"t-{length}", user="u")
                thread.append(*TURN * (length // 2))
                calls: dict[str, Callable[[], Any]] = {
                    "last 20": lambda thread=thread: thread.load(last=20),
                    "append": lambda thread=thread: thread.append(*TURN),
                }
                for name, call in calls.items():
                    each = []
                    for _ in range(WARM):
                        before = seen.statements, seen.steps
                        call()
                        ran, steps = seen.statements - before[0], seen.steps - before[1]
                        each.append({"statements": ran, "steps": steps})
                    found.setdefault(name, {})[str(length)] = median_of(each)
    finally:
        apsw.connection_hooks.remove(seen.attach)
    return found


def sqlite_puts(folder: Path) -> dict[str, Counts]:
    """What SQLite does for a put without a history, with one, and with all that keeps it short."""
    seen = Statements()
    apsw.connection_hooks.append(seen.attach)
    found: dict[str, Counts] = {}
    try:
        for name, keep in (("no history", 0), ("history", 100)):
            with stateward.sync.open(f"sqlite:///{folder}/{keep}.db", keep=keep) as store:
                each = []
                for number in range(PUTS):
                    before = seen.statements, seen.steps
                    store.user("u").put({"visits": number, "text": TURN[0]["content"]})
                    ran, steps = seen.statements - before[0], seen.steps - before[1]
                    each.append({"statements": ran, "steps": steps})
                found[name] = median_of(each)
                whole = sum(counts["steps"] for counts in each) // PUTS
                found[f"{name}, kept short"] = {"steps": whole}
    finally:
        apsw.connection_hooks.remove(seen.attach)
    return found


def sqlite_receipts(folder: Path) -> dict[str, Counts]:
    """What an append and its turn cost without a receipt, with one, and with one of a context."""
    seen = Statements()
    found: dict[str, Counts] = {}
    apsw.connection_hooks.append(seen.attach)
    try:
        for name in ("none", "window", "context"):
            path = folder / f"receipts-{name}.db"
            with stateward.sync.open(f"sqlite:///{path}", heartbeat=None, spill=False) as store:
                store.user("u").put({"name": "Noor"})
                store.user("u").put({"tea": True}, "taste")
                thread, each = store.thread("t", user="u"), []
                for _ in range(TURNS):
                    saw: Any = None
                    if name == "window":
                        saw = thread.load(last=20)
                    elif name == "context":
                        saw = store.context(user="u", thread="t", last=20)
                    before = seen.statements, seen.steps
                    thread.append(*TURN, saw=saw)
                    ran, steps = seen.statements - before[0], seen.steps - before[1]
                    each.append({"statements": ran, "steps": steps})
            found[name] = {**median_of(each), "bytes": payload(path) // TURNS}
    finally:
        apsw.connection_hooks.remove(seen.attach)
    return found


def payload(path: Path) -> int:
    """Bytes of all rows and index entries; how well they fill their pages is left out."""
    connection = apsw.Connection(str(path))
    ((found,),) = connection.execute("SELECT sum(payload) FROM dbstat")
    connection.close()
    return int(found)


def everything() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stateward-guard-") as name:
        folder = Path(name)
        costs = {
            "memory": asyncio.run(counted_awaiting("memory://")),
            "memory, blocking": counted_blocking("memory://"),
            "sqlite": asyncio.run(counted_awaiting(f"sqlite:///{folder}/awaited.db")),
            "sqlite, blocking": counted_blocking(f"sqlite:///{folder}/blocking.db"),
        }
        return {
            "costs": costs,
            "sqlite": sqlite_steps(folder),
            "puts": sqlite_puts(folder),
            "receipts": sqlite_receipts(folder),
        }


if __name__ == "__main__":
    text = json.dumps(everything(), indent=1)
    if "--write" in sys.argv[1:]:
        BUDGETS.write_text(text + "\n", "utf-8")
        print(f"wrote {BUDGETS}")
    else:
        print(text)
