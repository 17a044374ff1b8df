"""The costs of a month, with persistence and without: measurements times the user's prices."""

from __future__ import annotations

from stateward.audit.prices import Prices
from stateward.audit.questions.growth import projection
from stateward.audit.questions.question import Thresholds
from stateward.audit.record import Record
from stateward.audit.report import Money, Price

DAYS = 30  # of a month
READ = 10  # turns that a lookup reads: the last 20 messages
REQUESTS = 2  # a turn: a lookup and an append
GB = 1e9


def money(record: Record, limits: Thresholds, prices: Prices | None) -> Money | None:
    """Compute the cost of a month; None without prices."""
    if prices is None:
        return None
    agents, turns = int(limits["agents"]), limits["turns_a_day"] * DAYS
    grown = projection(record, limits)
    a_turn = None if grown is None or not grown.bytes_a_turn else grown.bytes_a_turn / GB
    written = record.costs.written_a_turn if record.costs is not None else None
    pool = record.costs.pool if record.costs is not None else None
    stored = None if a_turn is None else a_turn * limits["turns_a_day"] * limits["retention_days"]
    on_disk = None if written is None and a_turn is None else max((written or 0) / GB, a_turn or 0)
    bytes_moved = None if a_turn is None else a_turn * (READ + 1) * turns
    parts = (
        _part("state on disk", stored, "GB", prices.gb_month_stored, off=False),
        _part("state in memory", stored, "GB", prices.gb_month_memory),
        _part(
            "written to disk",
            None if on_disk is None else on_disk * turns,
            "GB",
            prices.gb_written,
            off=False,
        ),
        _part("transferred", bytes_moved, "GB", prices.gb_transferred),
        _part("calls", turns * REQUESTS / 1e6, "million", prices.million_requests),
        _part("connections", None if pool is None else pool * agents, "", prices.connection_month),
        _part("servers", prices.nodes, "", prices.node_month),
    )
    priced = tuple(part for part in parts if part.on != 0 or part.off != 0)
    on, off = _sum([part.on for part in priced]), _sum([part.off for part in priced])
    return Money(prices.currency, agents, priced, on, off)


def _part(what: str, amount: float | None, unit: str, price: float, off: bool = True) -> Price:
    """Return one line of the bill. A free part costs nothing, even if it was not measured."""
    if not price:
        return Price(what, amount, unit, 0.0, 0.0)
    cost = None if amount is None else amount * price
    return Price(what, amount, unit, cost, cost if off else 0.0)


def _sum(amounts: list[float | None]) -> float | None:
    """Add up prices; None if one of them is unknown."""
    priced = [amount for amount in amounts if amount is not None]
    return sum(priced) if len(priced) == len(amounts) else None
