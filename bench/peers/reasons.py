"""Why another is ahead in a cell, where that is known."""

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

REASONS = (
    Reason("p50_us", "sqlite", STRANDS, "append", "It does not wait for the disk; Stateward does."),
    Reason("per_second", "sqlite", STRANDS, "append", "It does not wait for the disk."),
    Reason("p99_us", "sqlite", STRANDS, "append", "It does not wait for the disk."),
    Reason(
        "cpu_us", "sqlite", STRANDS, "append", "It writes two files, without log, index or owner."
    ),
    Reason(
        "written",
        "sqlite",
        STRANDS,
        "",
        "It writes two blocks of 4 KB; a log has one page per index.",
    ),
    Reason("written_long", "sqlite", STRANDS, "", "As with short conversations."),
    Reason(
        "stored_long",
        "sqlite",
        SQLITE,
        "",
        "A page of 4 KB more or less; 1.00 × over 2,000 turns.",
    ),
    Reason("stored", "sqlite", SQLITE, "", "A page of 4 KB more or less; 1.00 × over 2,000 turns."),
    Reason(
        "",
        "sqlite",
        SQLITE,
        "bytes",
        "As many pages a turn, 3.8 to 4.0 of 4 KB; a new conversation enters more indexes.",
    ),
    Reason(
        "stored_long",
        "postgres",
        SQL,
        "",
        "Heads and remembered operations have pages of their own; 1.01 × over 2,000.",
    ),
    Reason(
        "stored",
        "postgres",
        SQL,
        "",
        "As at 1,000 messages; 1.02 × over 2,000.",
    ),
    Reason(
        "",
        "postgres",
        SQL,
        "bytes",
        "Equal within half a percent: a larger head, but one index fewer.",
    ),
    # Part by part: `python -m bench.server_work_redis --bytes`.
    Reason(
        "written",
        "redis",
        REDIS,
        "",
        "107 bytes are time and id of the append, so that a repetition is not stored twice; 18 the "
        "owner and the index.",
    ),
    Reason(
        "written_long",
        "redis",
        REDIS,
        "",
        "111 bytes are time and id of the append; 27 ids that a new process's first append files.",
    ),
    Reason(
        "stored",
        "redis",
        REDIS,
        "",
        "42 bytes are time and id of the append, 14 head, owner, expiry and index; the rest is "
        "not accounted for.",
    ),
    Reason(
        "stored_long",
        "redis",
        REDIS,
        "",
        "40 bytes are time and id of the append, 38 ids that are kept ten minutes; the rest is "
        "not accounted for.",
    ),
    Reason("", "postgres", "asyncpg", "bytes", "It writes the messages and nothing else."),
    Reason("", "sqlite", "aiosqlite", "bytes", "It writes the messages and nothing else."),
    Reason("", "redis", "redis-py", "bytes", "It writes the messages and nothing else."),
    Reason("", "redis", "valkey-glide", "bytes", "It writes the messages and nothing else."),
    Reason(
        "kib", "", "", "", "What is remembered of recent conversations, in tables that are bounded."
    ),
    Reason("", "redis", "valkey-glide", "", "Its I/O runs in Rust, on threads."),
    Reason("", "redis", REDIS, "last", "One LRANGE; Stateward also reads owner and expiry."),
    Reason("", "redis", "redis-py", "", "One command, with less work for the server."),
    Reason("", "postgres", "asyncpg", "", "One statement on one table."),
)


def reason(each: Comparison) -> str:
    if not each.sure:
        return "Undecided: the rounds disagree."
    for known in REASONS:
        if (
            known.figure in ("", each.figure)
            and known.engine in ("", each.engine)
            and known.who in ("", each.who)
            and each.what.startswith(known.work)
        ):
            return known.why
    return ""
