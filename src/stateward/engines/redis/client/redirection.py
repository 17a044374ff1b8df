"""Steps that the nodes of a cluster send from one to another, and where to next. No I/O here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hiredis import ReplyError

from stateward.engines.redis.client.pipeline import Pipeline, PipelineStep
from stateward.engines.redis.client.server import Address
from stateward.engines.redis.client.slots import SlotTable
from stateward.engines.redis.failures import code_of

REDIRECTIONS = 8  # times that a step may be sent elsewhere before it is given up
FRESH = 1.0  # seconds for which it counts that a node has handed something over
ELSEWHERE = ("MOVED", "ASK", "TRYAGAIN")
ALL_DOWN = "cluster is down"  # in what healthy nodes answer while a replica takes over elsewhere
TAKING_OVER = 4.0  # seconds that a call waits for that, if its deadline permits
MARGIN = 0.2  # seconds before the deadline in which it is not asked again


class Redirections:
    """State of one trip: its answers, and the steps to send again with their new addresses."""

    def __init__(self, steps: Sequence[PipelineStep]) -> None:
        self.steps = steps
        self.answers: list[list[Any]] = [[] for _ in steps]
        self.errors: dict[int, ReplyError] = {}
        self.going = list(range(len(steps)))
        self.sent_to: dict[int, Address] = {}  # nodes that ASK named for single steps
        self.sent_at = 0.0  # when it was first said so
        self.wrote = False
        self.unreplicated: set[int] = set()
        self.is_down = False  # a healthy node takes nothing until a replica has taken over
        self._rounds = 0

    @property
    def keys(self) -> list[str]:
        return [self.steps[number].key for number in self.going]

    def is_late(self, now: float) -> bool:
        """Return whether keys handed over may since have moved back, and on again in part."""
        late = bool(self.sent_to) and now - self.sent_at > FRESH
        if late:
            self.sent_to = {}
        return late

    def take(
        self, numbers: Sequence[int], pipeline: Pipeline, asked: Address, slots: SlotTable
    ) -> list[int]:
        """Take one node's answers; return the steps it refused because it hands over their slot."""
        refused = []
        self.wrote = self.wrote or pipeline.wrote
        self.unreplicated.update(numbers[at] for at in pipeline.unreplicated)
        for at, number in enumerate(numbers):
            self.answers[number] = pipeline.answers[at]
            self.errors.pop(number, None)
            if at not in pipeline.errors:
                self.going.remove(number)
                continue
            error = self.errors[number] = pipeline.errors[at]
            code = code_of(error)
            if ALL_DOWN in str(error):
                self.is_down = True
            elif code not in ELSEWHERE:
                self.going.remove(number)
            elif code == "MOVED":
                slots.move(str(error), asked)
            elif number not in self.sent_to:
                refused.append(number)
        return refused

    def is_restless(self) -> bool:
        """Return True if the nodes still disagree about a step that no node accepts."""
        self._rounds += 1
        lost = [number for number in self.going if number not in self.sent_to]
        return bool(lost) and (
            self._rounds > 2 or any(code_of(self.errors[n]) == "TRYAGAIN" for n in lost)
        )
