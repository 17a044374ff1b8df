"""Search of all tables for a text, to prove that an erased text is gone."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier

from stateward.engines.postgres.settings import Settings

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"


async def traces(settings: Settings, text: str) -> list[str]:
    """Return the tables with the text in a row, also in rows that no call returns any more."""
    tables = []
    async with await AsyncConnection.connect(**settings.connect_arguments()) as connection:
        for (table,) in await (await connection.execute(TABLES, (settings.schema,))).fetchall():
            query = SQL("SELECT 1 FROM {} AS t WHERE strpos(t::text, %s) > 0 LIMIT 1")
            named = query.format(Identifier(settings.schema, table))
            if await (await connection.execute(named, (text,))).fetchone():
                tables.append(table)
    return tables
