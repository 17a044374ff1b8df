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
        blocks = vars(_blocks())
        super().__init__(**{name: adapted(text, schema) for name, text in blocks.items()})
        self.schema = schema
        self.channel = f"{schema}.changes"

    commit_batch: str
    commit_alone: str
    restore: str
    sweep: str
    settled: str
    fetch: str
    fetch_whole: str
    fetch_tail: str
    fetch_tails: str
    part_tail: str
    part_beginning: str
    part_documents: str
    part_named: str
    versions: str
    listen: str
    unlisten: str
    has_schema: str
    about: str
    namespaces: str
    be_patient: str
    lock_migrations: str
    create_schema: str
    note_about: str
    describe: str
    purge: str
    put_note: str
    noted: str
    drop_schema: str

    def adapted(self, query: str) -> str:
        """A query written for the schema `stateward`."""
        return adapted(query, self.schema)


@cache
def _blocks() -> SimpleNamespace:
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
    """Every migration, oldest first."""
    return [Migration(name, adapted(sql, schema)) for name, sql in load_migrations(PACKAGE)]


def pending(about: dict[str, str], schema: str) -> list[Migration]:
    """What is missing, from what the schema says of itself; `SchemaError` if it is too new."""
    check_release(f"the schema {schema!r}", about.get("oldest_release", ""))
    done = int(about.get("schema", "0"))
    return [step for step in migrations(schema) if step.number > done]


def script(steps: list[Migration], schema: str) -> str:
    """The steps as one text for `psql`: what it leaves is what `migrate` would have left."""
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
