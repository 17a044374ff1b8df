"""What Stateward must reach on Redis and Valkey, row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.contestants.ours import StatewardRedis, StatewardSyncRedis
from bench.contestants.raw_redis import RawRedis, SafeRedis
from bench.rounds import Cell, Ratio, Work
from bench.storage import Stored
from bench.targets import Cells, Row, context, growth, slowest

AWAITED, BLOCKING = StatewardRedis.name, StatewardSyncRedis.name
BARE, SAFE = RawRedis.name, SafeRedis.name  # in either colour


def rows_on_redis(cells: Sequence[Cell]) -> list[Row]:
    """The rows that come from timed cells."""
    found = SameColour(cells)
    return [
        *_one_caller(found),
        *_many_callers(found),
        *growth(found, BLOCKING, AWAITED),
        *context(found, ((BLOCKING, BARE), (AWAITED, BARE))),
    ]


class SameColour(Cells):
    """A blocking contestant is compared with blocking ones, and one of a loop with that loop's."""

    def against(
        self, work: Work, name: str, others: Sequence[str], figure: str
    ) -> Iterator[tuple[str, Ratio]]:
        for who, ratio in super().against(work, name, others, figure):
            mine, _, theirs = who.partition(" / ")
            if (mine == BLOCKING) == theirs.endswith(", blocking"):
                yield who, ratio


def _one_caller(cells: Cells) -> Iterator[Row]:
    for method, limit in (("append", 1.25), ("last", 1.25), ("get", None), ("update", None)):
        for name in (BLOCKING, AWAITED):
            others = (BARE, SAFE) if method == "append" else (BARE,)
            for who, ratio in cells.against(Work(method), name, others, "p50"):
                yield Row(str(Work(method)), who, ratio, at_most=limit)


def _many_callers(cells: Cells) -> Iterator[Row]:
    append, last = Work("append", 100), Work("last", 100)
    for other, limit in ((SAFE, 2.7), (BARE, 2.0)):
        for who, ratio in cells.against(append, AWAITED, (other,), "per_second"):
            yield Row(f"{append}: calls/s", who, ratio, at_least=limit)
        for who, ratio in cells.against(append, BLOCKING, (other,), "per_second"):
            yield Row(f"{append}: calls/s", who, ratio)
    yield from slowest(cells, append, AWAITED, 15.0)
    for name, wanted in ((AWAITED, 2.0), (BLOCKING, None)):
        for who, ratio in cells.against(last, name, (BARE,), "per_second"):
            yield Row(f"{last}: calls/s", who, ratio, at_least=wanted)


def rows_of_memory(found: Sequence[Stored]) -> Iterator[Row]:
    for stored in found:
        ratio = Ratio(stored.ratio, stored.ratio, stored.ratio)
        ours = stored.layout == "stateward"
        who = AWAITED if ours else BARE
        yield Row("memory / bytes of JSON", who, ratio, at_most=1.3 if ours else None)
