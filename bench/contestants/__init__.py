"""Who takes part, by engine. Another engine adds its raw clients, its layouts and a line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.contestants import holdfasts, raw, raw_psycopg, raw_redis
from bench.contestants.holdfasts import Holdfast, HoldfastRedis, HoldfastSync, HoldfastSyncRedis
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
    blocking=(RawSqlite3, RawApsw, HoldfastSync),
    awaited=(RawAiosqlite, RawApswWorker, Holdfast),
    fill={"raw": raw.fill, "holdfast": holdfasts.fill},
)

REDIS = Field(
    blocking=(RawRedis, SafeRedis, HoldfastSyncRedis),
    awaited=(RawRedisAsync, SafeRedisAsync, HoldfastRedis),
    fill={"raw": raw_redis.fill, "holdfast": holdfasts.fill_server},
)

POSTGRES = Field(
    blocking=(RawPsycopg, HoldfastSync),
    awaited=(RawPsycopgPool, Holdfast),
    fill={"raw": raw_psycopg.fill, "holdfast": holdfasts.fill},
)
