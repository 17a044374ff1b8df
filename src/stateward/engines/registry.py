"""From a URL to an engine. Nothing of an engine is imported before its URL is used.

Third parties add a scheme with an entry point in the group `stateward.engines` (and
`stateward.engines.sync` for blocking callers): a function of `(EngineURL, World)` that returns
an engine and does no I/O.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote

from msgspec import Struct

from stateward.errors import InvalidInput, StoreUnavailable
from stateward.world import World

Factory = Callable[["EngineURL", World], Any]
Credentials = Callable[[], str | tuple[str, str]]  # a password, or a user and a password

ENGINES = {
    "memory": "stateward.engines.factories:memory",
    "postgres": "stateward.engines.factories:postgres",
    "postgresql": "stateward.engines.factories:postgres",
    "redis": "stateward.engines.factories:redis",
    "redis+cluster": "stateward.engines.factories:redis",
    "redis+sentinel": "stateward.engines.factories:redis",
    "rediss": "stateward.engines.factories:redis",
    "sqlite": "stateward.engines.factories:sqlite",
    "unix": "stateward.engines.factories:redis",
}
SYNC_ENGINES = {
    "memory": "stateward.engines.factories:memory_sync",
    "postgres": "stateward.engines.factories:postgres_sync",
    "postgresql": "stateward.engines.factories:postgres_sync",
    "redis": "stateward.engines.factories:redis_sync",
    "redis+cluster": "stateward.engines.factories:redis_sync",
    "redis+sentinel": "stateward.engines.factories:redis_sync",
    "rediss": "stateward.engines.factories:redis_sync",
    "sqlite": "stateward.engines.factories:sqlite_sync",
    "unix": "stateward.engines.factories:redis_sync",
}
ENV = "STATEWARD_URL"
IDENTITY = (
    "db",
    "host",
    "master",
    "port",
    "prefix",
    "schema",
    "service",
)  # options that name a store


class EngineURL(Struct, frozen=True):
    """A store's URL, taken apart. `text` may hold a password: show `safe` instead."""

    text: str
    scheme: str
    rest: str  # what stands between :// and the query, percent-decoded
    options: dict[str, str]
    credentials: Credentials | None = None

    @property
    def safe(self) -> str:
        """The URL without user, password and options: for logs and messages."""
        return f"{self.scheme}://{self.rest.rpartition('@')[2]}"

    @property
    def identity(self) -> str:
        """Which store this is, for files on this machine.

        Without user and password, and without options that only say how to reach it: those
        change while the store stays the same.
        """
        rest = self.rest.rpartition("@")[2]
        if rest.startswith("/") and not rest.startswith("//"):
            rest = os.path.abspath(rest[1:])  # it depends on where the process was started
        named = [f"&{name}={self.options[name]}" for name in IDENTITY if name in self.options]
        return f"{self.scheme}://{rest}{''.join(named)}"

    def login(self) -> tuple[str | None, str] | None:
        """User (None: the URL's) and password of a new connection; None: as the URL says.

        Calls the user's own function, which may take its time: never on an event loop.
        """
        if self.credentials is None:
            return None
        try:
            given = self.credentials()
        except Exception as error:
            raise StoreUnavailable(
                f"credentials() gave no password for {self.safe}: {type(error).__name__}: {error}"
            ) from error
        user, password = given if type(given) is tuple and len(given) == 2 else (None, given)
        if type(password) is not str or not (user is None or type(user) is str):
            raise InvalidInput(
                "credentials() must return a password, or a pair of user and password, "
                f"not {type(given).__name__}"
            )
        return user, password

    def option(self, name: str, allowed: Iterable[str], default: str) -> str:
        """The value of an option that knows only a few words."""
        value = self.options.get(name, default)
        words = list(allowed)
        if value not in words:
            raise InvalidInput(
                f"{name}={value!r} in the URL is not known{_meant(value, words)}; "
                f"use one of: {', '.join(words)}"
            )
        return value

    def only(self, *names: str) -> None:
        """Refuse options other than these."""
        for name in self.options:
            if name not in names:
                known = f"the options are: {', '.join(names)}" if names else "there are none"
                raise InvalidInput(
                    f"the URL option {name!r} is not known to {self.scheme}://"
                    f"{_meant(name, names)}; {known}"
                )


def parse(url: str | None, credentials: Credentials | None = None) -> EngineURL:
    """A URL, or that of the environment, taken apart."""
    text = os.environ.get(ENV) if url is None else url
    if not text:
        raise InvalidInput(
            f"no store was named: pass a URL, e.g. stateward.open('sqlite:///agents.db'), "
            f"or set {ENV}"
        )
    if type(text) is not str or "://" not in text:
        shown = str(text).partition(":")[0]  # what follows may be a password
        raise InvalidInput(
            f"{shown!r}… is not a store's URL: it needs a scheme and ://, e.g. 'sqlite:///agents.db'"
        )
    scheme, _, rest = text.partition("://")
    rest, _, query = rest.partition("?")
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in options:
            raise InvalidInput(f"the URL option {name!r} is given twice")
        options[name] = value
    return EngineURL(text, scheme, unquote(rest), options, credentials)


def create_engine(url: EngineURL, world: World) -> Any:
    """The engine of a URL, for an event loop."""
    return _factory(url, ENGINES, "stateward.engines")(url, world)


def create_sync_engine(url: EngineURL, world: World) -> Any:
    """The engine of a URL, for blocking callers."""
    return _factory(url, SYNC_ENGINES, "stateward.engines.sync")(url, world)


def _factory(url: EngineURL, builtin: dict[str, str], group: str) -> Factory:
    target = builtin.get(url.scheme)
    if target is not None:
        module, _, name = target.partition(":")
        factory: Factory = getattr(import_module(module), name)
        return factory
    from importlib.metadata import entry_points  # a third of what importing Stateward would take

    others = {point.name: point for point in entry_points(group=group)}
    if url.scheme in others:
        loaded: Factory = others[url.scheme].load()
        return loaded
    known = sorted({*builtin, *others})
    raise InvalidInput(
        f"no engine for {url.scheme}://{_meant(url.scheme, known)}; "
        f"known here: {', '.join(f'{name}://' for name in known)}"
    )


def _meant(word: str, known: Iterable[str]) -> str:
    import difflib  # for mistakes only

    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
