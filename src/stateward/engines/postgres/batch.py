"""A batch of operations: its statements, and the outcomes from their rows.

No I/O: both colours send the statements and hand back the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stateward.engines.postgres.commit import commit_alone, commit_batch, restore, sweep
from stateward.engines.postgres.fetch import documents, reads, settled, tally, whole
from stateward.engines.postgres.schema import Queries
from stateward.engines.postgres.statement import Rows, Statement
from stateward.ops import Commit, Fetch, List, Op, Outcome, Restore, Sweep, check_shape


class Batch:
    """A batch as few statements: one for all commits, and mostly one for all reads."""

    def __init__(self, ops: Sequence[Op], queries: Queries) -> None:
        self.writes = False
        self.statements: list[Statement] = []
        self._size = len(ops)
        commits: list[tuple[int, Commit]] = []
        restores: list[tuple[int, Commit]] = []
        fetches: list[tuple[int, Fetch]] = []
        listings: list[tuple[int, List]] = []
        for index, op in enumerate(ops):
            if type(op) is Commit:
                check_shape(op)
                if type(op.writes[0]) is Restore:
                    restores.append((index, op))
                else:
                    commits.append((index, op))
            elif type(op) is Fetch and op.log is not None and op.log.whole:
                self.statements.append(whole(index, op, queries))
            elif type(op) is Fetch:
                fetches.append((index, op))
            elif type(op) is List and op.tally is not None:
                self.statements.append(tally(index, op, queries))
            elif type(op) is List and op.within is None:
                listings.append((index, op))
            elif type(op) is List:
                self.statements.append(documents(index, op, queries))
            elif type(op) is Sweep:
                self.writes = True
                self.statements.append(sweep(index, op, queries))
        if commits:
            self.writes = True
            send = commit_batch if len(commits) > 1 else commit_alone
            self.statements.insert(0, send(commits, queries))
        if restores:
            self.writes = True
            restores.sort(key=lambda item: item[1].entity)
            self.statements += [restore(index, commit, queries) for index, commit in restores]
        if fetches or listings:
            read = reads(fetches, listings, queries)
            upwards = [index for index, op in listings if op.recent and op.reverse]
            self.statements += settled(upwards, read, queries) if upwards else (read,)

    @property
    def queries(self) -> list[tuple[str, Sequence[Any]]]:
        """The statements with their parameters, in the order in which they are sent."""
        return [(statement.query, statement.params) for statement in self.statements]

    def outcomes(self, answers: Sequence[Rows]) -> list[Outcome]:
        """Return the outcomes in the order of the operations, from each statement's rows."""
        outcomes: list[Any] = [None] * self._size
        for statement, rows in zip(self.statements, answers, strict=True):
            statement.read(rows, outcomes)
        return outcomes
