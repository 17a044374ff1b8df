"""Commands for one server that travel together, and what came back for each. No I/O here."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, NamedTuple

from hiredis import ReplyError

from stateward.engines.redis.client.replica_wait import ReplicaWait
from stateward.engines.redis.client.server import Server
from stateward.engines.redis.client.wire import Command, pack
from stateward.engines.redis.failures import NOT_RUN, code_of, failure, refused
from stateward.errors import InvalidInput, StoreUnavailable

BLOCK = 32  # reads that share a transaction: the server does nothing else meanwhile
ASKING: Command = ("ASKING",)


class PipelineStep(NamedTuple):
    """Commands for the server that holds this key, to be sent one after the other."""

    key: str
    commands: Sequence[Command]
    writes: bool = False
    together: bool = False  # the commands see one moment
    timed: bool = False  # the first reply is the server's time
    asking: bool = False  # for a node that is about to take over the slot of the key
    optional: bool = False  # a server that is full need not take it: then its replies are None


class Answers(NamedTuple):
    """The replies to each step, and the steps whose writes too few replicas have confirmed."""

    replies: Sequence[list[Any]]
    unreplicated: Collection[int] = ()


class Pipeline:
    """Steps for one server as one request, and what came back for each of them.

    Steps that need to see one moment share a transaction; on a cluster none do, because their keys
    may be of different slots. A server that is `full` queues nothing for a transaction, and one
    that is taking a slot over takes none with several keys: there the key of a step is watched
    instead, and a step with another client's write in between counts as refused.
    """

    def __init__(
        self,
        steps: Sequence[PipelineStep],
        server: Server,
        wait: ReplicaWait,
        deadline: float | None = None,
        *,
        full: bool = False,
    ) -> None:
        self.steps = steps
        self.answers: list[list[Any]] = []
        self.errors: dict[int, ReplyError] = {}  # by the number of the step
        self._commands: list[Command] = []
        self._spans: list[_ReplySpan] = []
        block = 1 if server.cluster else BLOCK
        at = 0
        while at < len(steps):
            step = steps[at]
            if step.together or step.timed:
                end = at + 1
                while end < len(steps) and end - at < block and steps[end].together:
                    end += 1
                watched = full or step.asking  # a step with ASKING is alone
                (self._add_watched if watched else self._add_block)(steps[at:end])
                at = end
            else:
                self._add_plain(step)
                at += 1
        writes = any(step.writes for step in steps)
        self._wait = wait if writes and server.wait_replicas else None
        if self._wait is not None:
            # On the same connection, so that it covers what was written on it.
            self._commands.append(self._wait.command(deadline))
        self._waited: Any = None
        self._is_short = False  # too few replicas have confirmed what was written
        self.packed = pack(self._commands)
        self.replies = len(self._commands)  # number of replies to come

    def _add_plain(
        self, step: PipelineStep, *, start: int = 0, time: int = -1, end: int = -1
    ) -> None:
        """Add commands one after the other, each preceded by ASKING if the step needs that."""
        commands = self._commands
        gap = 1 if step.asking else 0
        span = _ReplySpan(len(commands) + gap, len(step.commands), start, -1, time, end, 1 + gap)
        self._spans.append(span)
        for command in step.commands:
            if gap:
                commands.append(ASKING)
            commands.append(command)

    def _add_block(self, steps: Sequence[PipelineStep]) -> None:
        """Add reads that see one moment, with one look at the clock for all."""
        commands = self._commands
        whole = any(len(step.commands) > 1 for step in steps)
        start = len(commands)
        if whole:
            commands.append(("MULTI",))
        commands.append(("TIME",))
        at = 1 if whole else len(commands)
        exec = len(commands) + sum(len(step.commands) for step in steps) if whole else -1
        for step in steps:
            count = len(step.commands)
            self._spans.append(_ReplySpan(at, count, start, exec, 0 if whole else start))
            commands += step.commands
            at += count
        if whole:
            commands.append(("EXEC",))

    def _add_watched(self, steps: Sequence[PipelineStep]) -> None:
        """Add reads for a server that takes no transaction, for want of memory or of keys."""
        commands = self._commands
        if steps[0].asking:
            commands.append(ASKING)
        commands += [("WATCH", *[step.key for step in steps]), ("TIME",)]
        time = len(commands) - 1
        end = time + 2 + sum(len(step.commands) * (1 + step.asking) for step in steps)
        for step in steps:
            self._add_plain(step, start=time - 1, time=time, end=end)
        commands += [("MULTI",), ("EXEC",)]

    def take(self, replies: Sequence[Any]) -> bool:
        """Sort the replies by step. False if any of them is an error."""
        self.answers = []
        self.errors = {}
        for number, span in enumerate(self._spans):
            mine, error = span.of(replies)
            if error is not None and self.steps[number].optional and code_of(error) == "OOM":
                mine = [None] * span.size
            elif error is not None:
                self.errors[number] = error
            self.answers.append(mine)
        if self._wait is not None:
            self._waited = replies[-1]
            if type(self._waited) is int:
                self._is_short = self._wait.is_short(self._waited)
        return not self.errors

    def failed_with(self, codes: Container[str]) -> list[int]:
        """The numbers of the steps that were answered with one of these errors."""
        return [n for n, error in self.errors.items() if code_of(error) in codes]

    def unread(self) -> list[int]:
        """The numbers of the reads that a server without memory did not take."""
        steps = self.steps
        return [n for n in self.failed_with(("OOM",)) if steps[n].together or steps[n].timed]

    def replace(self, numbers: Sequence[int], again: Pipeline) -> None:
        """Take over how steps fared that were sent again."""
        for other, own in enumerate(numbers):
            self.answers[own] = again.answers[other]
            del self.errors[own]
            if other in again.errors:
                self.errors[own] = again.errors[other]
        if again._wait is not None:
            self._waited, self._is_short = again._waited, again._is_short

    @property
    def unreplicated(self) -> Collection[int]:
        """The numbers of the steps whose writes too few replicas have confirmed in time."""
        if not self._is_short:
            return ()
        return [n for n, step in enumerate(self.steps) if step.writes and n not in self.errors]

    @property
    def wrote(self) -> bool:
        """True if a step that writes has run, or may have."""
        not_run = self.failed_with(NOT_RUN)
        return any(step.writes for n, step in enumerate(self.steps) if n not in not_run)

    def check(self, server: str) -> None:
        """Raise if any step failed, or if the server could not wait for its replicas.

        The error is a "no" only if no write of this pipeline was run.
        """
        if self.errors:
            raise failure_of(self.steps, self.errors, server)
        self.check_wait(server)

    def check_wait(self, server: str) -> None:
        """Raise if the server could not wait for its replicas."""
        if isinstance(self._waited, ReplyError):
            error = refused(self._waited, server)
            error.applied = "unknown"
            raise error


class _ReplySpan(NamedTuple):
    """Position of a step's replies: in a row, or inside the reply to the end of a block."""

    at: int
    size: int
    start: int = 0
    exec: int = -1
    time: int = -1
    unchanged: int = -1  # place of the reply that shows if watched keys changed
    stride: int = 1  # 2: before each stands the reply to ASKING

    def of(self, replies: Sequence[Any]) -> tuple[list[Any], ReplyError | None]:
        if self.exec >= 0:
            inside = replies[self.exec]
            if type(inside) is not list:  # the block was not run: an earlier reply says why
                return [], _error_in(replies[self.start : self.exec + 1])
            replies = inside
        if self.unchanged >= 0:
            error = _error_in((replies[self.start], replies[self.unchanged]))
            if error is None and replies[self.unchanged] is None:
                code = "OOM" if self.stride == 1 else "TRYAGAIN"
                error = ReplyError(f"{code} and what was read has changed meanwhile")
            if error is not None:
                return [], error
        mine = list(replies[self.at : self.at + self.size * self.stride : self.stride])
        if self.time >= 0:
            mine.insert(0, replies[self.time])
        return mine, _error_in(mine)


def failure_of(
    steps: Sequence[PipelineStep],
    errors: Mapping[int, ReplyError],
    server: str,
    *,
    cluster: bool = False,
) -> StoreUnavailable | InvalidInput:
    """The first error in words, with what is known of all writes.

    A mistake of the caller comes first: it would fail all others each time.
    """
    first: StoreUnavailable | None = None
    applied = False
    for number, step in enumerate(steps):
        if number not in errors:
            applied = applied or step.writes
            continue
        error = failure(errors[number], server, cluster=cluster)
        error.__cause__ = errors[number]
        if isinstance(error, InvalidInput):
            return error
        first = first or error
        applied = applied or (step.writes and error.applied == "unknown")
    assert first is not None
    first.applied = "unknown" if applied else "no"
    return first


def _error_in(replies: Sequence[Any]) -> ReplyError | None:
    """The first error reply."""
    for reply in replies:
        if type(reply) is ReplyError:
            return reply
    return None
