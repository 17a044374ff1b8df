"""The SQL files, for whatever name the schema has. No I/O but reading the package's own files."""

from __future__ import annotations

import re
from functools import cache
from types import SimpleNamespace

from stateward.engines.sql import Migration, check_release, load, load_migrations

PACKAGE = "stateward.engines.postgres"
DEFAULT_SCHEMA = "stateward"


class Queries(SimpleNamespace):
    """The named blocks of queries.sql as attributes, for one schema."""

    def __init__(self, schema: str) -> None:
        super().__init__(**{name: adapted(text, schema) for name, text in vars(blocks()).items()})
        self.schema = schema
        self.channel = f"{schema}.changes"

    def adapted(self, query: str) -> str:
        """A query written for the schema `stateward`."""
        return adapted(query, self.schema)


@cache
def blocks() -> SimpleNamespace:
    """Return the named blocks of queries.sql, written for the schema `stateward`."""
    return load(PACKAGE, "queries.sql")


def quoted(text: str) -> str:
    """A text as SQL, for statements that take no parameters."""
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"E'{escaped}'"


@cache
def adapted(query: str, schema: str) -> str:
    """A query written for the schema `stateward`, for another. The settings check names."""
    if schema == DEFAULT_SCHEMA:
        return query
    return re.sub(r"\bstateward\b", f'"{schema}"', query)


def migrations(schema: str) -> list[Migration]:
    """Return every migration, oldest first."""
    return [Migration(name, adapted(sql, schema)) for name, sql in load_migrations(PACKAGE)]


def pending(about: dict[str, str], schema: str) -> list[Migration]:
    """Return the missing steps by the table `about`; `SchemaError` if the schema is too new."""
    check_release(f"the schema {schema!r}", about.get("oldest_release", ""))
    done = int(about.get("schema", "0"))
    return [step for step in migrations(schema) if step.number > done]


def script(steps: list[Migration], schema: str) -> str:
    """Return the steps as one text for `psql`, with the same effect as `migrate`."""
    if not steps:
        return ""
    last = steps[-1]
    note = f"""
INSERT INTO stateward.about (name, value)
VALUES ('schema', '{last.number}'), ('oldest_release', '{last.oldest}')
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
COMMIT;
"""
    begin = "BEGIN;\nCREATE SCHEMA IF NOT EXISTS stateward;\n"
    parts = [adapted(begin, schema), *[step.sql for step in steps], adapted(note, schema)]
    return "\n".join(parts)
