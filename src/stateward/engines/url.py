"""A store's URL, taken apart: what an engine is made of."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, unquote, urlencode

from msgspec import Struct
from msgspec.structs import replace

from stateward.errors import InvalidInput, StoreUnavailable

Credentials = Callable[[], str | tuple[str, str]]  # a password, or a user and a password

# Options that name a store.
IDENTITY = ("db", "host", "master", "port", "prefix", "schema", "service")

_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:[0-9]+)?")
_RESERVED = re.compile(r"%(?![0-9A-Fa-f]{2})|[^A-Za-z0-9\-._~!$&'()*+,;=:%]")


class EngineURL(Struct, frozen=True):
    """A store's URL, taken apart. `text` may hold a password: show `safe` instead."""

    text: str
    scheme: str
    rest: str  # text between :// and the query, percent-decoded
    options: dict[str, str]
    credentials: Credentials | None = None

    def __repr__(self) -> str:
        return f"EngineURL({self.safe!r})"

    @property
    def safe(self) -> str:
        """The URL without user, password and options: for logs and messages."""
        _, slash, path = self.text.partition("://")[2].partition("?")[0].partition("/")
        hosts = self.hosts
        return f"{self.scheme}://{'…' if hosts is None else hosts + unquote(slash + path)}"

    @property
    def hosts(self) -> str | None:
        """Hosts and ports; None if something else is there: it may be a password without a host."""
        hosts = re.split("[/?]", self.text.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
        return hosts if all(_HOST.fullmatch(host) for host in hosts.split(",")) else None

    @property
    def identity(self) -> str:
        """Identity of this store among the files on this machine.

        Without user and password, and without options that only say how to reach it: those
        change while the store stays the same.
        """
        rest = self.rest.rpartition("@")[2]
        if rest.startswith("/") and not rest.startswith("//"):
            rest = os.path.abspath(rest[1:])  # relative to the working folder
        named = [f"&{name}={self.options[name]}" for name in IDENTITY if name in self.options]
        return f"{self.scheme}://{rest}{''.join(named)}"

    def with_options(self, **options: str) -> EngineURL:
        """Return the URL with these options instead of its own."""
        merged = self.options | options
        text = f"{self.text.partition('?')[0]}?{urlencode(merged)}"
        return replace(self, text=text, options=merged)

    def login(self) -> tuple[str | None, str] | None:
        """User (None: the URL's) and password of a new connection; None: as the URL says.

        Calls the user's own function, which may take its time: never on an event loop.
        """
        if self.credentials is None:
            return None
        try:
            answer = self.credentials()
        except Exception as error:
            raise StoreUnavailable(
                f"credentials() gave no password for {self.safe}: {type(error).__name__}: {error}"
            ) from error
        user, password = answer if type(answer) is tuple and len(answer) == 2 else (None, answer)
        if type(password) is not str or not (user is None or type(user) is str):
            raise InvalidInput(
                "credentials() must return a password, or a pair of user and password, "
                f"not {type(answer).__name__}"
            )
        return user, password

    def option(self, name: str, allowed: Iterable[str], default: str) -> str:
        """The value of an option that knows only a few words."""
        value = self.options.get(name, default)
        words = list(allowed)
        if value not in words:
            raise InvalidInput(
                f"{name}={value!r} in the URL is not known{did_you_mean(value, words)}; "
                f"use one of: {', '.join(words)}"
            )
        return value

    def only(self, *names: str) -> None:
        """Refuse options other than these."""
        for name in self.options:
            if name not in names:
                hint = f"the options are: {', '.join(names)}" if names else "there are none"
                # It may be the rest of a password that was not percent-encoded.
                public = self.hosts is not None and not any("password" in n for n in self.options)
                which = f"{name!r} is" if public else "is"
                raise InvalidInput(
                    f"the URL option {which} not known to {self.scheme}://"
                    f"{did_you_mean(name, names)}; {hint}"
                )

    def refuse_credentials(self) -> None:
        """Refuse credentials for a store without any login."""
        if self.credentials is not None:
            raise InvalidInput(
                f"{self.scheme}:// asks nobody for a password: leave credentials= out"
            )


def encoded_login(scheme: str, rest: str) -> str:
    """Return what follows ://, with user and password percent-encoded as they must be.

    The error shows no part of the URL, as the end of a password is uncertain.
    """
    authority = re.split("[/?]", rest, maxsplit=1)[0]
    if authority and "@" in rest[len(authority) :]:
        raise InvalidInput(
            f"the {scheme}:// URL has an @ after its first / or ?: percent-encode the password "
            "(/ as %2F, ? as %3F), and an @ that is elsewhere (as %40)"
        )
    login, at, hosts = authority.rpartition("@")
    login = _RESERVED.sub(lambda found: quote(found[0], safe=""), login)
    return f"{login}{at}{hosts}{rest[len(authority) :]}"


def is_loopback(host: str) -> bool:
    """Return True if only this machine can be reached by the address."""
    from ipaddress import ip_address  # for services only

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word that is nearest to this one, as part of a sentence; "" if none is near."""
    import difflib  # for mistakes only

    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
