"""Numbers, times and quotations, as every form of an explanation says them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from stateward.pages.words import line
from stateward.state.window_record import TurnReceipt

QUOTED = 60  # characters of a quotation in a sentence


def spans(numbers: Iterable[int]) -> str:
    """Return numbers as spans, such as 1–4, 7, 9–10."""
    stretches: list[list[int]] = []
    for number in sorted(numbers):
        if stretches and number == stretches[-1][1] + 1:
            stretches[-1][1] = number
        else:
            stretches.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in stretches)


def naming(numbers: Iterable[int], *, capital: bool = True) -> str:
    """Name messages by their numbers, such as "messages 1–4"."""
    named = tuple(numbers)
    noun = "message" if len(named) == 1 else "messages"
    return f"{noun.capitalize() if capital else noun} {spans(named)}"


def were(numbers: tuple[int, ...]) -> str:
    return f"{naming(numbers)} {'was' if len(numbers) == 1 else 'were'}"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Iterable[str]) -> str:
    """Join words, such as "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def quoted(text: str) -> str:
    shown = line(text)
    return f"“{shown if len(shown) <= QUOTED else shown[: QUOTED - 1] + '…'}”"


def clock(at: datetime | float) -> str:
    when = datetime.fromtimestamp(at, UTC) if isinstance(at, float) else at.astimezone(UTC)
    return f"{when:%H:%M:%S} UTC"


def day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def bounds(receipt: TurnReceipt) -> str:
    """Return the bounds that were asked for: last=20, max_tokens=4000."""
    asked = {
        "last": receipt.last,
        "turns": receipt.turns,
        "max_tokens": receipt.max_tokens,
        "after": receipt.after or None,
        "upto": receipt.upto,
    }
    bounds = [f"{name}={value}" for name, value in asked.items() if value is not None]
    return ", ".join(bounds) or "the whole thread"
