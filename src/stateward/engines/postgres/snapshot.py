"""Reads of a whole schema as it was at one moment."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from stateward.engines.postgres.batch import Batch
from stateward.engines.postgres.connection import Link
from stateward.engines.postgres.failures import explain
from stateward.engines.postgres.schema import Queries
from stateward.engines.postgres.settings import Settings
from stateward.ops import Op, Outcome

SNAPSHOT_SECONDS = 60.0  # for a page of a backup, which nobody waits for


class Snapshot:
    """A read-only transaction on a connection of its own."""

    def __init__(self, link: Link, settings: Settings, queries: Queries) -> None:
        self._link = link
        self._settings = settings
        self._queries = queries

    async def begin(self) -> None:
        await self._link.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        await self._link.execute("SELECT 1")  # the moment is that of the first look

    async def execute(self, ops: Sequence[Op]) -> list[Outcome]:
        batch = Batch(ops, self._queries)
        queries = batch.queries
        self._link.answer_by = self._link.clock() + SNAPSHOT_SECONDS
        try:
            return batch.outcomes(await self._link.ask(queries) if queries else [])
        except psycopg.Error as error:
            raise explain(error, "no", self._settings.safe, self._settings.schema) from error
