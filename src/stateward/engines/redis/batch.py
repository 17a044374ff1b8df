"""A batch on its way: what its courses ask in one round travels together. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hiredis import ReplyError

from stateward.engines.redis.commit import Command
from stateward.engines.redis.failures import code_of, not_replicated, refused
from stateward.engines.redis.listing import list_documents, list_entities
from stateward.engines.redis.plans import Course, Traits, commit, fetch
from stateward.engines.redis.steps import PlanStep
from stateward.engines.redis.sweep import sweep
from stateward.errors import StoreUnavailable
from stateward.ops import Commit, Fetch, List, Op, Outcome, Sweep

BLOCK = 32  # reads that share a transaction: the server does nothing else meanwhile
ELSEWHERE = ("MOVED", "ASK", "TRYAGAIN")
WAITING = 0.5  # of a round trip's time may pass until the replicas have it


def course_of(op: Op, setting: Traits) -> Course:
    """What to ask for an operation."""
    if type(op) is Commit:
        return commit(op, setting)
    if type(op) is Fetch:
        return fetch(op, setting)
    if type(op) is List:
        if op.within is not None:
            return list_documents(op, op.within, setting)
        return list_entities(op, setting)
    assert isinstance(op, Sweep)
    return sweep(op, setting)


class Batch:
    """Courses side by side. `steps` is what they ask now; nothing means that all have landed."""

    def __init__(self, ops: Sequence[Op], setting: Traits) -> None:
        self.outcomes: list[Any] = [None] * len(ops)
        self.wrote = False  # an earlier round has, or may have
        self._courses: list[tuple[int, Course, Sequence[PlanStep]]] = []
        for number, op in enumerate(ops):
            course = course_of(op, setting)
            self._courses.append((number, course, next(course)))
        self.steps = self._asked()

    @property
    def keys(self) -> list[str]:
        """One of each step: they tell which server it is for."""
        return [step.key for step in self.steps]

    def _asked(self) -> list[PlanStep]:
        return [step for _, _, asked in self._courses for step in asked]

    def land(self, answers: Sequence[list[Any]]) -> list[Outcome] | None:
        """Give every course its answers; the outcomes once all courses have theirs."""
        self.wrote = self.wrote or any(step.writes for step in self.steps)
        going_on = []
        at = 0
        for number, course, asked in self._courses:
            end = at + len(asked)
            try:
                going_on.append((number, course, course.send(answers[at:end])))
            except StopIteration as landed:
                self.outcomes[number] = landed.value
            at = end
        self._courses = going_on
        if not going_on:
            return self.outcomes
        self.steps = self._asked()
        return None


class Pipeline:
    """Steps for one server: the commands of one pipeline, and what came back for each step.

    Steps that need to see one moment share a transaction, as many as `block` says. Those of
    different slots must not: there `block` is 1.
    """

    def __init__(
        self, steps: Sequence[PlanStep], replicas: int, timeout: float, block: int
    ) -> None:
        self.steps = steps
        self.commands: list[Command] = []
        self.answers: list[list[Any]] = []
        self.errors: dict[int, ReplyError] = {}  # by the number of the step
        self._places: list[_Place] = []
        at = 0
        while at < len(steps):
            if steps[at].together or steps[at].timed:
                end = at + 1
                while end < len(steps) and end - at < block and steps[end].together:
                    end += 1
                self._add_block(steps[at:end])
                at = end
            else:
                if steps[at].asking:  # it counts for the next command, and there is only one
                    self.commands.append(("ASKING",))
                self._places.append(_Place(len(self.commands), len(steps[at].commands)))
                self.commands += steps[at].commands
                at += 1
        self._replicas = replicas if replicas and any(step.writes for step in steps) else 0
        if self._replicas:
            # On the same connection, so that it covers what was written on it.
            self.commands.append(("WAIT", self._replicas, int(timeout * WAITING * 1000)))
        self._waited: Any = None

    def _add_block(self, steps: Sequence[PlanStep]) -> None:
        """Reads that see one moment, with one look at the clock for all."""
        whole = any(len(step.commands) > 1 for step in steps)
        asking = steps[0].asking  # then it is alone: only a cluster asks that
        if whole and asking:
            self.commands.append(("ASKING",))  # before MULTI it counts until EXEC
        start = len(self.commands)
        if whole:
            self.commands.append(("MULTI",))
        self.commands.append(("TIME",))
        if asking and not whole:
            self.commands.append(("ASKING",))
        for step in steps:
            self.commands += step.commands
        if whole:
            self.commands.append(("EXEC",))
        end = len(self.commands)
        at = 1 if whole else start + 1 + asking
        for step in steps:
            count = len(step.commands)
            if whole:
                self._places.append(_Place(at, count, start, end - 1, 0))
            else:
                self._places.append(_Place(at, count, time=start))
            at += count

    def take(self, replies: Sequence[Any]) -> bool:
        """Sort the replies by step. False if any of them is an error."""
        self.answers = []
        self.errors = {}
        for number, place in enumerate(self._places):
            mine, error = place.of(replies)
            if error is not None:
                self.errors[number] = error
            self.answers.append(mine)
        self._waited = replies[-1] if self._replicas else None
        return not self.errors

    def forgotten(self) -> list[int]:
        """The numbers of the steps whose script the server does not know."""
        return [n for n, error in self.errors.items() if code_of(error) == "NOSCRIPT"]

    def elsewhere(self) -> list[int]:
        """The numbers of the steps that did not run because a cluster wants them sent elsewhere."""
        return [n for n, error in self.errors.items() if code_of(error) in ELSEWHERE]

    def settle(self, numbers: Sequence[int], answers: Sequence[list[Any]]) -> None:
        """Take over what came back for steps that were sent elsewhere."""
        for number, answer in zip(numbers, answers, strict=True):
            self.answers[number] = answer
            del self.errors[number]

    @property
    def wrote(self) -> bool:
        """Whether a step that writes has run."""
        return any(step.writes for n, step in enumerate(self.steps) if n not in self.errors)

    def replace(self, numbers: Sequence[int], again: Pipeline) -> None:
        """Take over how steps fared that were sent again."""
        for own, other in zip(numbers, range(len(again.steps)), strict=True):
            self.answers[own] = again.answers[other]
            self.errors.pop(own, None)
            if other in again.errors:
                self.errors[own] = again.errors[other]
        if again._replicas:
            self._waited = again._waited

    @property
    def may_have_failed(self) -> bool:
        """Whether `check` has anything to look at."""
        return bool(self.errors) or self._replicas > 0

    def check(self, server: str) -> None:
        """Raise if any step failed, or if too few replicas have what was written.

        The error is a "no" only if no write of this round was run.
        """
        if self.errors:
            raise failure_of(self.steps, self.errors, server)
        if self._replicas:
            if isinstance(self._waited, ReplyError):
                failure = refused(self._waited, server)
                failure.applied = "unknown"
                raise failure
            if self._waited < self._replicas:
                raise not_replicated(self._waited, self._replicas, server)


class _Place(NamedTuple):
    """Where the replies to a step stand: in a row, or inside the reply to the end of a block."""

    at: int
    size: int
    start: int = 0
    exec: int = -1
    time: int = -1

    def of(self, replies: Sequence[Any]) -> tuple[list[Any], ReplyError | None]:
        if self.exec >= 0:
            inside = replies[self.exec]
            if type(inside) is not list:  # the block was not run: an earlier reply says why
                return [], error_in(replies[self.start : self.exec + 1])
            replies = inside
        mine = list(replies[self.at : self.at + self.size])
        if self.time >= 0:
            mine.insert(0, replies[self.time])
        return mine, error_in(mine)


def failure_of(
    steps: Sequence[PlanStep], errors: Mapping[int, ReplyError], server: str
) -> StoreUnavailable:
    """The first error in words, with what is known of all writes."""
    failure: StoreUnavailable | None = None
    applied = False
    for number, step in enumerate(steps):
        if number not in errors:
            applied = applied or step.writes
            continue
        said = refused(errors[number], server)
        said.__cause__ = errors[number]
        failure = failure or said
        applied = applied or (step.writes and said.applied == "unknown")
    assert failure is not None
    failure.applied = "unknown" if applied else "no"
    return failure


def error_in(replies: Sequence[Any]) -> ReplyError | None:
    """The first error reply."""
    for reply in replies:
        if type(reply) is ReplyError:
            return reply
    return None
