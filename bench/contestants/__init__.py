"""Who takes part, by engine. Another engine adds its raw clients, its layouts and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.contestants import ours, raw, raw_psycopg, raw_redis
from bench.contestants.ours import Stateward, StatewardRedis, StatewardSync, StatewardSyncRedis
from bench.contestants.raw_aiosqlite import RawAiosqlite
from bench.contestants.raw_apsw import RawApsw, RawApswWorker
from bench.contestants.raw_psycopg import RawPsycopg, RawPsycopgPool
from bench.contestants.raw_redis import RawRedis, RawRedisAsync, SafeRedis, SafeRedisAsync
from bench.contestants.raw_sqlite3 import RawSqlite3
from bench.contestants.shape import Awaited, Blocking
from bench.conversations import Population


@dataclass(frozen=True)
class Field:
    """The contestants on one engine, and how a file is filled for each layout."""

    blocking: tuple[type[Blocking], ...]
    awaited: tuple[type[Awaited], ...]
    fill: dict[str, Callable[[str, Population], None]]


SQLITE = Field(
    blocking=(RawSqlite3, RawApsw, StatewardSync),
    awaited=(RawAiosqlite, RawApswWorker, Stateward),
    fill={"raw": raw.fill, "stateward": ours.fill},
)

REDIS = Field(
    blocking=(RawRedis, SafeRedis, StatewardSyncRedis),
    awaited=(RawRedisAsync, SafeRedisAsync, StatewardRedis),
    fill={"raw": raw_redis.fill, "stateward": ours.fill_server},
)

POSTGRES = Field(
    blocking=(RawPsycopg, StatewardSync),
    awaited=(RawPsycopgPool, Stateward),
    fill={"raw": raw_psycopg.fill, "stateward": ours.fill},
)
