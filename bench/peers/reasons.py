"""Why another is ahead in a cell, and what it does not promise for that, where that is known."""

from __future__ import annotations

from typing import NamedTuple

from bench.peers.comparing import Comparison


class Reason(NamedTuple):
    """The first one that fits is given; "" fits all."""

    figure: str
    engine: str
    who: str
    work: str  # how the name of the cell begins
    why: str


STRANDS = "Strands FileSessionManager"
REDIS = "OpenAI Agents RedisSession"
SQL = "OpenAI Agents SQLAlchemySession"
SQLITE = "OpenAI Agents SQLiteSession"

# What the peer of a cell does not do or keep for what it saves. Part by part, and what each is for:
# decisions 42 (PostgreSQL), 43 (Redis and Valkey) and 46 (SQLite), and the commands named there.
NO_SYNC = "It does not wait for the disk: turns may be lost if the machine crashes."
NO_ID = "It keeps no id of the append: a repeated delivery is stored twice"
SQLITE_PAGES = (
    f"{NO_ID}. It keeps no owner, expiry or number within the conversation; Stateward's first turn "
    "of a conversation enters these into more indexes."
)
ONE_PAGE = f"A page of 4 KB more or less, 1.00 × over 2,000 turns. {NO_ID}."
POSTGRES_PAGES = (
    f"{NO_ID}, and no owner, expiry or number within the conversation. What Stateward keeps of "
    "these begins with pages of its own;"
)

REASONS = (
    *[
        Reason(figure, "sqlite", STRANDS, "append", NO_SYNC)
        for figure in ("p50_us", "per_second", "p99_us")
    ],
    Reason(
        "cpu_us",
        "sqlite",
        STRANDS,
        "append",
        f"It writes two files. {NO_ID}, and no index or owner.",
    ),
    *[
        Reason(
            figure,
            "sqlite",
            STRANDS,
            "",
            f"{NO_SYNC} {NO_ID}. It writes two files of a block of 4 KB, and no log or index.",
        )
        for figure in ("written", "written_long")
    ],
    Reason("stored_long", "sqlite", SQLITE, "", ONE_PAGE),
    Reason("stored", "sqlite", SQLITE, "", ONE_PAGE),
    Reason("", "sqlite", SQLITE, "bytes", SQLITE_PAGES),
    Reason("stored_long", "postgres", SQL, "", f"{POSTGRES_PAGES} 1.01 × over 2,000 turns."),
    Reason("stored", "postgres", SQL, "", f"{POSTGRES_PAGES} 1.02 × over 2,000 turns."),
    Reason(
        "",
        "postgres",
        SQL,
        "bytes",
        f"{NO_ID}, and no version to compare; Stateward writes these, and an index less.",
    ),
    # Part by part: `python -m bench.server_work_redis --bytes`.
    Reason(
        "written",
        "redis",
        REDIS,
        "",
        f"{NO_ID}: time and id of the append are 107 bytes. It has no owner to check and no "
        "listing: 18 bytes.",
    ),
    Reason(
        "written_long",
        "redis",
        REDIS,
        "",
        f"{NO_ID}: time and id of the append are 107 bytes, and 27 are ids that a new process's "
        "first append files.",
    ),
    Reason(
        "stored",
        "redis",
        REDIS,
        "",
        f"{NO_ID}: time and id of the append are 42 bytes. It has no owner and no listing, and "
        "here no expiry: 14 bytes. The rest is not accounted for.",
    ),
    Reason(
        "stored_long",
        "redis",
        REDIS,
        "",
        f"{NO_ID}: time and id of the append are 40 bytes, and 38 are ids that are kept for ten "
        "minutes. The rest is not accounted for.",
    ),
    Reason("", "postgres", "asyncpg", "bytes", "It writes the messages and nothing else."),
    Reason("", "sqlite", "aiosqlite", "bytes", "It writes the messages and nothing else."),
    Reason("", "redis", "redis-py", "bytes", "It writes the messages and nothing else."),
    Reason("", "redis", "valkey-glide", "bytes", "It writes the messages and nothing else."),
    Reason(
        "kib",
        "sqlite",
        "",
        "",
        "Mostly pages in SQLite's cache, which ends at 16 MB; the rest is what is remembered of "
        "recent conversations, in tables that are bounded.",
    ),
    Reason(
        "kib", "", "", "", "What is remembered of recent conversations, in tables that are bounded."
    ),
    Reason("", "sqlite", SQLITE, "append", f"{NO_ID}. It checks no owner."),
    Reason("", "redis", "valkey-glide", "", "Its I/O runs in Rust, on threads."),
    Reason("", "redis", REDIS, "last", "One LRANGE; Stateward also reads owner and expiry."),
    Reason("", "redis", "redis-py", "", "One command, with less work for the server."),
    Reason("", "postgres", "asyncpg", "", "One statement on one table."),
)


def reason(each: Comparison) -> str:
    why = _known(each)
    return why if each.sure else f"Undecided: the rounds disagree. {why}".rstrip()


def _known(each: Comparison) -> str:
    for known in REASONS:
        if (
            known.figure in ("", each.figure)
            and known.engine in ("", each.engine)
            and known.who in ("", each.who)
            and each.what.startswith(known.work)
        ):
            return known.why
    return ""
