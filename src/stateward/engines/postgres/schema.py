"""The SQL files, for whatever name the schema has. No I/O but reading the package's own files."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from types import SimpleNamespace

from stateward import __version__
from stateward.engines.sql import load
from stateward.errors import SchemaError

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
    fetch: str
    fetch_whole: str
    fetch_tail: str
    fetch_tails: str
    part_tail: str
    part_documents: str
    part_named: str
    versions: str
    listen: str
    unlisten: str
    has_schema: str
    about: str
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


class Migration:
    """One step: its name, its SQL, and the oldest release that can use its result."""

    def __init__(self, name: str, text: str, schema: str) -> None:
        self.name = name
        self.number = int(name[:4])
        self.oldest = text.splitlines()[0].rsplit(":", 1)[1].strip()
        self.sql = adapted(text, schema)


def migrations(schema: str) -> list[Migration]:
    """Every migration, oldest first."""
    folder = files(PACKAGE).joinpath("migrations")
    steps = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(name[:-4], folder.joinpath(name).read_text(encoding="utf-8"), schema)
        for name in steps
    ]


def pending(about: dict[str, str], schema: str) -> list[Migration]:
    """What is missing, from what the schema says of itself; `SchemaError` if it is too new."""
    oldest = about.get("oldest_release", "0")
    if _release(oldest) > _release(__version__):
        raise SchemaError(
            f"the schema {schema!r} was migrated by a newer release and needs Stateward {oldest} "
            f"or later; this is {__version__}. Upgrade: pip install 'stateward>={oldest}'"
        )
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


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
