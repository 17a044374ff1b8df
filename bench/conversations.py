"""What is stored and asked: turns of about 1 KB, user documents, conversations of many lengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
Turn = tuple[Message, Message]
Change = Callable[[dict[str, Any]], None]

WORDS = (
    "the order was placed on Monday and the courier says it left the depot the same evening, but "
    "the customer writes that nothing arrived; the address on file is the old one, so check the "
    "new address first, then offer a second delivery or a refund, whichever is sooner, and note "
    "in the profile that parcels go to the office on weekdays. "
)
MESSAGE_BYTES = 500  # of JSON text
LAST = 20  # messages that a prompt needs


def message(role: str, number: int) -> Message:
    """About 500 bytes of JSON that differ from message to message."""
    text = f"{number}: " + WORDS * 2
    shell = len(f'{{"role":"{role}","content":""}}')
    return {"role": role, "content": text[: MESSAGE_BYTES - shell]}


def turn(number: int) -> Turn:
    """A question and its answer: about 1 KB."""
    return message("user", 2 * number), message("assistant", 2 * number + 1)


def profile(number: int) -> dict[str, Any]:
    """What an agent keeps of a user: about 500 bytes of JSON."""
    return {
        "name": f"user {number}",
        "language": "en",
        "visits": 0,
        "preferences": {"tone": "brief", "units": "metric", "newsletter": False},
        "orders": [{"id": 1000 + n, "total": 19.5 * n, "state": "paid"} for n in range(6)],
        "notes": WORDS[:180],
    }


WORK = {"step": "review", "order": 991}  # that a user waits for


def visit(value: dict[str, Any]) -> None:
    """A small change to a profile."""
    value["visits"] += 1


@dataclass(frozen=True)
class Population:
    """Which conversations a store is filled with before anything is measured.

    An append makes its conversation longer. So that a short history stays short, there are
    many of them and the appends go round; of long ones a few will do.
    """

    histories: dict[int, int] = field(default_factory=dict)  # messages -> how many of that length
    users: int = 100
    profiles: bool = True  # each user also has documents and unfinished work

    def threads(self, history: int) -> list[str]:
        return [f"h{history}-{n}" for n in range(self.histories[history])]

    def user(self, number: int) -> str:
        return f"u-{number % self.users}"

    def owners(self) -> list[tuple[str, str, int]]:
        """Every conversation: id, user, length."""
        return [
            (thread, self.user(number), history)
            for history in self.histories
            for number, thread in enumerate(self.threads(history))
        ]
