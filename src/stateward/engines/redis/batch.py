"""A batch on its way: what its plans ask in one round travels together. No I/O here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.engines.redis.client.pipeline import Answers, Pipeline, PipelineStep
from stateward.engines.redis.client.replica_wait import ReplicaWait
from stateward.engines.redis.commit import commit
from stateward.engines.redis.documents import list_documents
from stateward.engines.redis.fetch import fetch
from stateward.engines.redis.listing import list_entities
from stateward.engines.redis.parts import listing_of_parts
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.sweep import sweep
from stateward.engines.redis.tally import tally
from stateward.engines.redis.touch import touching_commit
from stateward.ops import Applied, Commit, Duplicate, Fetch, List, Op, Outcome, Sweep

# What a server answers that did not run a step, and would not the next time either.
AGAIN = ("NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")


def plan_of(op: Op, traits: Traits) -> Plan[Any]:
    """Return the plan of an operation."""
    if type(op) is Commit:
        return commit(op, traits) if traits.inline else touching_commit(op, traits)
    if type(op) is Fetch:
        return fetch(op, traits)
    if type(op) is List:
        if op.within is not None:
            return list_documents(op, op.within, traits)
        listing = list_entities if op.tally is None else tally
        return listing(op, traits) if traits.inline else listing_of_parts(op, listing, traits)
    assert isinstance(op, Sweep)
    return sweep(op, traits)


class Batch:
    """Plans side by side. `steps` is what they ask now."""

    def __init__(self, plans: Sequence[Plan[Any]], traits: Traits) -> None:
        self.outcomes: list[Any] = [None] * len(plans)
        self.wrote = False  # True if an earlier step has written, or may have
        self._traits = traits
        self._plans = [(number, plan, next(plan)) for number, plan in enumerate(plans)]
        self.steps = self._asked()
        self._first: Pipeline | None = None  # the request of `message`
        self._unreplicated: set[int] = set()  # operations that replicas have not confirmed

    @property
    def keys(self) -> list[str]:
        """One key of each step; the keys decide which server a step goes to."""
        return [step.key for step in self.steps]

    def _asked(self) -> list[PipelineStep]:
        return [step for _, _, asked in self._plans for step in asked]

    # --- the first round, if one server can be asked at once -----------------------------

    def message(self, wait: ReplicaWait, deadline: float | None) -> Pipeline:
        """Return the packed request, with the number of replies to it."""
        self._first = Pipeline(self.steps, self._traits.server, wait, deadline)
        return self._first

    def take(self, replies: Sequence[Any], server: str) -> bool:
        """Take the replies to the request; return True if they settle every operation."""
        first = self._first
        assert first is not None, "message() comes first"
        if first.take(replies):
            first.check(server)
            return self.go_on(Answers(first.answers, first.unreplicated))
        if len(first.failed_with(AGAIN)) + len(first.unread()) < len(first.errors):
            first.check(server)
        if first.wrote:
            first.check_wait(server)
            self.wrote = True
        self.steps = [first.steps[number] for number in first.errors]
        return False

    def rest(self) -> Batch:
        """Return the batch of the steps that are still to be asked."""
        return self

    def settle(self, outcomes: list[Any]) -> list[Any]:
        return outcomes

    # --- every round --------------------------------------------------------------------

    def go_on(self, got: Answers) -> bool:
        """Give every plan the answers to its steps; whether all have their outcomes now."""
        self.wrote = self.wrote or any(step.writes for step in self.steps)
        answers, unreplicated = got
        first, self._first = self._first, None
        if first is not None and first.errors:  # these answers were missing
            later = iter(answers)
            answers = [
                next(later) if number in first.errors else answer
                for number, answer in enumerate(first.answers)
            ]
            missing = list(first.errors)
            unreplicated = {*first.unreplicated, *(missing[at] for at in unreplicated)}
        going_on = []
        at = 0
        for number, plan, asked in self._plans:
            end = at + len(asked)
            if unreplicated and not _disjoint(unreplicated, at, end):
                self._unreplicated.add(number)
            try:
                going_on.append((number, plan, plan.send(answers[at:end])))
            except StopIteration as ended:
                outcome = ended.value
                if number in self._unreplicated:
                    outcome = _unreplicated(outcome)
                self.outcomes[number] = outcome
            at = end
        self._plans = going_on
        self.steps = self._asked()
        return not going_on


def _disjoint(numbers: Collection[int], at: int, end: int) -> bool:
    return not any(at <= number < end for number in numbers)


def _unreplicated(outcome: Outcome) -> Outcome:
    """Return the outcome of a commit whose writes too few replicas have confirmed."""
    if type(outcome) is Applied:
        return replace(outcome, replicated=False)
    if type(outcome) is Duplicate:
        return replace(outcome, first=replace(outcome.first, replicated=False))
    return outcome
