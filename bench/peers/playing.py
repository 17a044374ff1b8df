"""The cells: contestants take turns, and their processor time is counted."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter, process_time
from typing import Any

from bench.conversations import Population, turn
from bench.driving import Calls, Ready, Slot, Tasks, Threads, Until
from bench.peers.places import Places
from bench.peers.table import Entry
from bench.rounds import HISTORY, Work, quantile

CROWD = 100  # conversations at once
POPULATION = Population({20: 30, 100: CROWD, 1_000: 3, 10_000: 1})
SMALL = Population({20: 5, 100: 5}, users=5)
TASK_TITLES = {"once": "run once", "hit": "ran already"}
LOCKED = "database is locked"
LONGER = 15  # a hundred callers need longer, to be counted; they have fewer rounds instead


class PeerWork(Work):
    """A cell of this table."""

    def __str__(self) -> str:
        return TASK_TITLES.get(self.method) or super().__str__()

    def until(self, seconds: float) -> Until:
        longer = LONGER if self.callers == CROWD else 1
        return Until(seconds * longer, super().until(seconds).most)

    def calls(self, population: Population, round_: int) -> Calls:
        if self.method in ("once", "hit"):
            return [[()]]  # the contestant knows which task is next
        return super().calls(population, round_)


@dataclass(frozen=True)
class Open:
    """A contestant made ready."""

    entry: Entry
    peer: Any
    ready: Ready
    refused: list[str]  # why calls failed

    def takes_part(self, work: Work) -> bool:
        return work.method in self.peer.offers() and work.history <= self.peer.longest


@contextmanager
def opened(
    entries: Sequence[Entry], places: Places, population: Population
) -> Iterator[list[Open]]:
    """All of them, filled and checked; they are closed in the opposite order."""
    found: list[Open] = []
    try:
        for entry in entries:
            peer = entry.load()(places.new(entry))
            ready = Threads(peer, CROWD) if peer.colour == "sync" else Tasks(peer, "asyncio")
            found.append(Open(entry, peer, ready, _counting(peer)))
            ready.once("fill", population)
            check(found[-1], population)
        yield found
    finally:
        for each in reversed(found):
            each.ready.close()


def _counting(peer: Any) -> list[str]:
    """Appends that give up because the database is locked are counted; all else ends the run."""
    refused: list[str] = []
    append = getattr(peer, "append", None)

    def gave_up(error: Exception) -> None:
        if LOCKED not in str(error):
            raise error
        refused.append(str(error))

    async def awaited(*arguments: Any) -> None:
        try:
            await append(*arguments)
        except Exception as error:
            gave_up(error)

    def blocking(*arguments: Any) -> None:
        try:
            append(*arguments)
        except Exception as error:
            gave_up(error)

    if append is not None:
        peer.append = awaited if peer.colour == "async" else blocking
    return refused


def check(each: Open, population: Population) -> None:
    """A contestant that does not store what it is given would win every round."""
    user, told = population.user(0), turn(987_654)
    offers, once = each.peer.offers(), each.ready.once
    if "append" in offers and population.histories:
        thread = population.threads(min(population.histories))[0]
        once("append", thread, user, told)
        if each.peer.said(once("last", thread, user, 2)) != list(told):
            raise SystemExit(f"{each.peer.name} did not give back the turn it was given")
    if "update" in offers and population.profiles:
        before = once("get", user)["visits"]
        once("update", user, lambda value: value.update(visits=before + 1))
        if once("get", user)["visits"] != before + 1:
            raise SystemExit(f"{each.peer.name} lost an update")
    if "once" in offers and (once("once"), once("hit")) != (1, 1):
        raise SystemExit(f"{each.peer.name} did not run a task")


def works(sections: Sequence[str], population: Population) -> list[list[Work]]:
    """What is interleaved with what; reads first, because appends make histories longer."""
    groups: list[list[Work]] = []
    if "calls" in sections:
        groups += [[PeerWork("last"), PeerWork("context")], [PeerWork("get"), PeerWork("update")]]
        groups += [[PeerWork("append")]]
    if "crowd" in sections:
        groups += [[PeerWork("append", CROWD)]]
    if "histories" in sections:
        histories = [history for history in population.histories if history != HISTORY]
        groups += [[PeerWork(m, history=n) for n in histories] for m in ("last", "append")]
    return groups


TASKS: tuple[Work, ...] = (PeerWork("once"), PeerWork("hit"))


def measure(
    engine: str,
    field: Sequence[Open],
    works: Sequence[Work],
    population: Population,
    *,
    rounds: int,
    seconds: float,
) -> list[dict[str, Any]]:
    """Each work by all who take part in it, in every round; each cell as it is written down."""
    order = random.Random(0)
    if any(work.callers == CROWD for work in works):
        rounds = (rounds + 1) // 2
    found = [(work, [Played(each) for each in field if each.takes_part(work)]) for work in works]
    for number in range(-1, rounds):  # the first warms up: connections, statements, caches
        for work, played in found:
            until, calls = work.until(seconds), work.calls(population, number)
            for each in order.sample(played, len(played)):
                each.play(work, calls, until, kept=number >= 0)
    return [each.cell(engine, work) for work, played in found for each in played]


@dataclass
class Played:
    """What one contestant did in one cell. Its processor time is that of this process: all others
    stand still meanwhile.
    """

    who: Open
    slots: list[Slot] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # µs a call
    refused: int = 0

    def play(self, work: Work, calls: Calls, until: Until, *, kept: bool) -> None:
        before, failed, begun = process_time(), len(self.who.refused), perf_counter()
        slot = self.who.ready.slot(work.method, calls, until)
        spent, took = process_time() - before, perf_counter() - begun
        if slot.per_second * until.seconds < work.callers:
            # Not even one call of each ended in time: count them all, and the time they took.
            slot = replace(slot, per_second=len(slot.took) / took)
        if kept:
            self.slots.append(slot)
            self.cpu.append(spent * 1e6 / len(slot.took))
            self.refused += len(self.who.refused) - failed

    def cell(self, engine: str, work: Work) -> dict[str, Any]:
        took = [slot.took for slot in self.slots]
        return {
            "engine": engine,
            "work": work.method,
            "callers": work.callers,
            "history": work.history,
            "contestant": self.who.peer.name,
            "role": self.who.entry.role,
            "colour": self.who.peer.colour,
            "calls": sum(map(len, took)),
            "refused": self.refused,
            "p50_us": [_rounded(quantile(each, 0.5) / 1000) for each in took],
            "p99_us": [_rounded(quantile(each, 0.99) / 1000) for each in took],
            "per_second": [_rounded(slot.per_second) for slot in self.slots],
            "cpu_us": [_rounded(each) for each in self.cpu],
        }


def _rounded(value: float) -> float:
    return round(value, 1)
