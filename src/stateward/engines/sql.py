"""SQL lives in files: blocks that begin with `-- name: …`, and the steps of a schema.

How both SQL engines read entries stands here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from types import SimpleNamespace
from typing import Any, NamedTuple

from stateward import __version__
from stateward.errors import SchemaError
from stateward.ops import Entry

_INCLUDE = re.compile(r"^ *--include (\w+)\n", re.MULTILINE)


def load(package: str, filename: str) -> SimpleNamespace:
    """Return the named blocks of a `.sql` file as attributes; each has a comment that says why.

    A line `--include name` stands for an earlier block. Drivers look statements up by their text,
    at each call: it has no more of it than it needs.
    """
    text = files(package).joinpath(filename).read_text(encoding="utf-8")
    queries: dict[str, str] = {}
    for block in text.split("-- name: ")[1:]:
        name, _, body = block.partition("\n")
        body = _INCLUDE.sub(lambda line: f"{queries[line[1]]}\n", body)
        lines = [line.strip() for line in body.splitlines()]
        text = "\n".join(line for line in lines if not line.startswith("--"))
        queries[name.strip()] = text.strip().rstrip(";")
    return SimpleNamespace(**queries)


def entries_of(newest_first: Iterable[tuple[Any, ...]]) -> tuple[Entry, ...]:
    """Entries, oldest first, from rows where those of an append may leave the stamp to the next."""
    entries: list[Entry] = []
    stamp = ""
    for seq, at, body, own, *rest in newest_first:
        stamp = stamp if own is None else own
        entries.append(Entry(seq, at, body, stamp, *rest))
    return tuple(entries[::-1])


class Migration(NamedTuple):
    """One step of a schema: its name, which begins with its number, and its SQL."""

    name: str
    sql: str

    @property
    def number(self) -> int:
        return int(self.name[:4])

    @property
    def oldest(self) -> str:
        """Oldest release that can use the migration's result, from the migration's first line."""
        return self.sql.splitlines()[0].rsplit(":", 1)[1].strip()


def load_migrations(package: str) -> list[Migration]:
    """Return every migration of an engine, oldest first."""
    folder = files(package).joinpath("migrations")
    steps = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted(Migration(step.name[:-4], step.read_text(encoding="utf-8")) for step in steps)


def check_release(what: str, oldest: str) -> None:
    """Refuse a store that says it needs a newer release; `oldest` is "" for a new store."""
    if release(oldest or "0") > release(__version__):
        raise SchemaError(
            f"{what} was migrated by a newer release and needs Stateward {oldest} or later; this "
            f"is {__version__}. Upgrade: pip install 'stateward>={oldest}'"
        )


def release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
