"""Choice of the engine for a URL. No engine's code is imported before its URL is used.

Third parties add a scheme with an entry point in the group `stateward.engines` (and
`stateward.engines.sync` for blocking callers): a function of `(EngineURL, World)` that returns
an engine and does no I/O.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote

from stateward.engine import Creates
from stateward.engines.url import Credentials, EngineURL, did_you_mean, encoded_login
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.world import World

# The modules whose `create` makes an engine of a URL, as third parties' entry points do.
_HTTP, _POSTGRES, _REDIS = "engines.http.engine", "engines.postgres.engine", "engines.redis.engine"
ENGINES = {
    "http": _HTTP,
    "https": _HTTP,
    "memory": "engines.memory.engine",
    "postgres": _POSTGRES,
    "postgresql": _POSTGRES,
    "redis": _REDIS,
    "redis+cluster": _REDIS,
    "redis+sentinel": _REDIS,
    "rediss": _REDIS,
    "sqlite": "engines.sqlite.engine",
    "unix": _REDIS,
}
SYNC_ENGINES = {scheme: f"sync.{module}" for scheme, module in ENGINES.items()} | {
    "memory": "sync.engines.memory"
}
ENV = "STATEWARD_URL"
_SCHEME = re.compile(r"[A-Za-z0-9+.\-_]+")


def parse(url: str | None, credentials: Credentials | None = None) -> EngineURL:
    """Parse a URL, by default that of the environment."""
    text = os.environ.get(ENV) if url is None else url
    if not text:
        raise InvalidInput(
            f"no store was named: pass its URL, e.g. sqlite:///agents.db, or set {ENV}"
        )
    scheme, separator, rest = str(text).partition("://")
    if type(text) is not str or not separator or not _SCHEME.fullmatch(scheme):
        # What follows a colon, or stands before an @, may be a password.
        shown = "this" if "@" in scheme else f"{scheme.partition(':')[0]!r}…"
        raise InvalidInput(
            f"{shown} is not a store's URL: it needs a scheme and ://, e.g. 'sqlite:///agents.db'"
        )
    rest = encoded_login(scheme, rest)
    text = f"{scheme}://{rest}"
    rest, _, query = rest.partition("?")
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in options:
            raise InvalidInput(f"the URL option {name!r} is given twice")
        options[name] = value
    return EngineURL(text, scheme, unquote(rest), options, credentials)


def create_engine(url: EngineURL, world: World) -> Any:
    """The engine of a URL, for an event loop."""
    return _create(url, world, ENGINES, "stateward.engines")


def create_sync_engine(url: EngineURL, world: World) -> Any:
    """The engine of a URL, for blocking callers."""
    return _create(url, world, SYNC_ENGINES, "stateward.engines.sync")


def looking(url: EngineURL) -> EngineURL:
    """Return the URL for a reader: opening the store neither makes nor migrates anything."""
    if create_sync_engine(url, World()).capabilities.migrates:
        return url.with_options(migrate="off")
    return url


def refuse_missing(url: EngineURL) -> None:
    """Raise if there is no store at the URL: a typing error must not create an empty one."""
    engine = create_sync_engine(url, World())
    if isinstance(engine, Creates) and not engine.exists():
        raise StoreUnavailable(
            f"there is no store at {url.safe}; check the path, or create it with: "
            f"stateward migrate {url.safe}"
        )


def _create(url: EngineURL, world: World, builtin: dict[str, str], group: str) -> Any:
    module = builtin.get(url.scheme)
    if module is not None:
        try:
            engine = import_module(f"stateward.{module}")
        except ImportError as error:
            raise InvalidInput(
                f"this URL needs a driver that is not installed ({error.name}): "
                f"pip install 'stateward[{module.split('.')[-2]}]'"
            ) from error
        return engine.create(url, world)
    from importlib.metadata import entry_points  # a third of what importing Stateward would take

    others = {point.name: point for point in entry_points(group=group)}
    if url.scheme in others:
        return others[url.scheme].load()(url, world)
    schemes = sorted({*builtin, *others})
    raise InvalidInput(
        f"no engine for {url.scheme}://{did_you_mean(url.scheme, schemes)}; "
        f"known here: {', '.join(f'{name}://' for name in schemes)}"
    )
