"""How each built-in URL becomes an engine. Drivers are imported here, when first needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stateward.engines.memory.model import Model
from stateward.engines.registry import EngineURL
from stateward.errors import InvalidInput
from stateward.world import World

if TYPE_CHECKING:
    from stateward.engine import Engine, SyncEngine
    from stateward.engines.sqlite.file import File

_named_models: dict[str, Model] = {}


def memory(url: EngineURL, world: World) -> Engine:
    """memory:// is private to its store; memory://name is shared within the process."""
    from stateward.engines.memory.engine import MemoryEngine

    return MemoryEngine(_model(url), world)


def memory_sync(url: EngineURL, world: World) -> SyncEngine:
    """As `memory`, for blocking callers; a named one is shared with async stores too."""
    from stateward.sync.engines.memory import MemoryEngine

    return MemoryEngine(_model(url), world)


def sqlite(url: EngineURL, world: World) -> Engine:
    """sqlite:///relative.db, sqlite:////absolute.db; durability=full|relaxed, migrate=on|off."""
    from stateward.engines.sqlite.engine import SqliteEngine

    return SqliteEngine(sqlite_file(url, world))


def sqlite_sync(url: EngineURL, world: World) -> SyncEngine:
    """As `sqlite`, for blocking callers."""
    from stateward.engines.sqlite.engine_sync import SqliteEngine

    return SqliteEngine(sqlite_file(url, world))


def sqlite_file(url: EngineURL, world: World) -> File:
    """The file a URL names."""
    from stateward.engines.sqlite.file import File

    url.only("durability", "migrate")
    _no_credentials(url)
    path = url.rest.removeprefix("/")
    if not url.rest.startswith("/") or not path or path == ":memory:" or "\x00" in path:
        raise InvalidInput(
            f"{url.safe!r} names no file: use sqlite:///agents.db (relative), "
            "sqlite:////var/lib/agents.db (absolute), or memory:// for a store without a file"
        )
    return File(
        path,
        relaxed=url.option("durability", ("full", "relaxed"), "full") == "relaxed",
        migrate=url.option("migrate", ("on", "off"), "on") == "on",
        world=world,
    )


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Imports of a driver: where it is missing, say how to get it."""
    try:
        yield
    except ImportError as error:
        raise InvalidInput(
            f"this URL needs a driver that is not installed ({error.name}): "
            f"pip install 'stateward[{extra}]'"
        ) from error


def postgres(url: EngineURL, world: World) -> Engine:
    """postgresql://user:password@host:5432/database; its options are in `postgres/settings.py`."""
    with needed("postgres"):
        from stateward.engines.postgres.engine import PostgresEngine
        from stateward.engines.postgres.settings import read_settings

    return PostgresEngine(read_settings(url, world))


def postgres_sync(url: EngineURL, world: World) -> SyncEngine:
    """As `postgres`, for blocking callers."""
    with needed("postgres"):
        from stateward.engines.postgres.settings import read_settings
        from stateward.sync.engines.postgres.engine import PostgresEngine

    return PostgresEngine(read_settings(url, world))


def redis(url: EngineURL, world: World) -> Engine:
    """redis://host:6379, rediss:// (TLS), unix:///path, redis+cluster:// or redis+sentinel://

    Their options are in `redis/settings.py`.
    """
    with needed("redis"):
        from stateward.engines.redis.engine import RedisEngine
        from stateward.engines.redis.settings import parse_server

    return RedisEngine(parse_server(url, world))


def redis_sync(url: EngineURL, world: World) -> SyncEngine:
    """As `redis`, for blocking callers."""
    with needed("redis"):
        from stateward.engines.redis.settings import parse_server
        from stateward.sync.engines.redis.engine import RedisEngine

    return RedisEngine(parse_server(url, world))


def _model(url: EngineURL) -> Model:
    url.only()
    _no_credentials(url)
    return _named_models.setdefault(url.rest, Model()) if url.rest else Model()


def _no_credentials(url: EngineURL) -> None:
    if url.credentials is not None:
        raise InvalidInput(f"{url.scheme}:// asks nobody for a password: leave credentials= out")
