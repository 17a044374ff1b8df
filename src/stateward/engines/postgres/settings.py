"""The settings of a `postgresql://` URL: where the database is, and how it is used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import msgspec
import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from stateward.engines.plaintext import warn_of_plaintext
from stateward.engines.postgres.addresses import resolved
from stateward.engines.postgres.failures import logger
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.world import World

# Options that go to libpq as they are.
LIBPQ = (
    *("host", "hostaddr", "port", "user", "password", "passfile", "dbname", "service"),
    *("application_name", "target_session_attrs", "load_balance_hosts", "channel_binding"),
    *("require_auth", "gssencmode", "sslmode", "sslnegotiation", "sslrootcert", "sslcert"),
    *("sslkey", "sslpassword", "sslcrl", "ssl_min_protocol_version"),
)
TLS = ("require", "verify-ca", "verify-full")  # other modes go on without it
OURS = ("schema", "pool", "migrate", "listen", "prepare", "wire", "connect_timeout")

# What a session is told when it begins. Behind a pooler it is told nothing.
SESSION = (
    "plan_cache_mode=force_generic_plan",  # array parameters would be planned anew at each call
    "enable_seqscan=off",  # a plan made while a table was small must not read all of it later
    "enable_bitmapscan=off",  # a lookup finds a few rows, which need no map
    "jit=off",  # before 18 the line above makes costs look so large that all would be compiled
    r"default_transaction_isolation=read\ committed",  # each statement sees what it waited for
    "lock_timeout=4000",  # ms; gives up, and says so, before the caller does
)

# A name that leads from server to server can lead to one that was a primary until now. Reading from
# it would show what was true then, and its connections would outlive the failover.
WRITER = "read-write"
CHOSEN_OUTSIDE = ("PGTARGETSESSIONATTRS", "PGSERVICE")  # of libpq, where a choice may stand

POOL = 4
CONNECT_SECONDS = 4
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


class Met(Struct):
    """Facts learnt about the way to the database, shared by all copies of its settings."""

    pooler: bool = False  # something between refuses or forgets what a session is told
    retired: int = 0  # times that all connections made until then were given up

    def retire(self) -> None:
        """Let no connection that was made until now be used again."""
        self.retired += 1

    def meet_pooler(self, safe: str) -> None:
        """Keep nothing in a session from now on."""
        if not self.pooler:
            self.pooler = True
            logger.info("pooler_met", extra={"store": safe})
        self.retire()


class Settings(Struct, frozen=True):
    """A database and how to use it. Cheap; connects to nothing by itself."""

    safe: str  # the URL without secrets, for messages
    conninfo: dict[str, Any]
    schema: str
    pool: int
    migrate: bool
    listen: bool
    prepare: bool
    wire: bool  # single statements without the driver's cursors: see `wire.py`
    adapts: bool  # nothing was said about preparing: a pooler that refuses it is obeyed
    world: World
    login: Callable[[], tuple[str | None, str] | None]  # asked at each new connection
    met: Met

    def __repr__(self) -> str:
        return f"Settings({self.safe!r})"  # the settings include a password

    @property
    def prepares(self) -> bool:
        """True if prepared statements and settings may stay in a session."""
        return self.prepare and not self.met.pooler

    @property
    def queriers(self) -> int:
        """Connections for queries: of the pool, one may listen, and one is the sibling's."""
        return max(1, self.pool - 2)

    @property
    def listens(self) -> bool:
        return self.listen and self.pool > 2 and not self.met.pooler

    @property
    def adapts_now(self) -> bool:
        """True if a pooler that is noticed now is obeyed."""
        return self.prepares and self.adapts

    @property
    def wants_writer(self) -> bool:
        """True if a server that takes no writes is of no use, not even to read from."""
        return self.conninfo.get("target_session_attrs") == WRITER

    def for_sibling(self) -> Settings:
        """Return settings with a single connection, which only asks."""
        return msgspec.structs.replace(self, pool=1, listen=False, migrate=False)

    def connect_arguments(self) -> dict[str, Any]:
        """Return the arguments of the driver's `connect`. Blocks: asks for addresses and login."""
        arguments = resolved(self.conninfo)
        if self.prepares:
            arguments["options"] = " ".join(f"-c {setting}" for setting in SESSION)
        login = self.login()
        if login is not None:
            user, arguments["password"] = login
            arguments["user"] = user or arguments.get("user")
        return arguments


def read_settings(url: EngineURL, world: World) -> Settings:
    """The settings of a URL, or `InvalidInput` that says what is wrong with it."""
    url.only(*OURS, *LIBPQ)
    schema = url.options.get("schema", "stateward")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidInput(
            f"schema={schema!r} in the URL cannot be used: at most 40 lower-case letters, digits "
            "and underscores, not beginning with a digit or pg_"
        )
    timeout = _number(url, "connect_timeout", CONNECT_SECONDS, 1, 600)
    prepare = url.option("prepare", ("on", "off"), "on") == "on"
    conninfo = _conninfo(url, timeout)
    if (conninfo.get("sslmode") or os.environ.get("PGSSLMODE")) not in TLS:
        hosts = str(conninfo.get("hostaddr") or conninfo.get("host") or "").split(",")
        allowing = None if conninfo.get("sslmode") else "sslmode=prefer in the URL"
        warn_of_plaintext(url.safe, hosts, "sslmode=verify-full in the URL", allowing=allowing)
    return Settings(
        safe=url.safe,
        conninfo=conninfo,
        schema=schema,
        pool=_number(url, "pool", POOL, 2, 100),
        migrate=url.option("migrate", ("on", "off"), "on") == "on",
        listen=url.option("listen", ("on", "off"), "on") == "on",
        prepare=prepare,
        wire=url.option("wire", ("on", "off"), "on") == "on",
        adapts="prepare" not in url.options,
        world=world,
        login=url.login,
        met=Met(),
    )


def _conninfo(url: EngineURL, timeout: int) -> dict[str, Any]:
    base = url.text.partition("?")[0]
    query = urlencode({name: value for name, value in url.options.items() if name in LIBPQ})
    refusal = InvalidInput(
        f"{url.safe!r} is no address of a PostgreSQL database; use "
        "postgresql://user:password@host:5432/database"
    )
    if url.hosts is None:
        raise refusal
    try:
        parameters = conninfo_to_dict(f"{base}?{query}" if query else base)
    except psycopg.ProgrammingError:
        raise refusal from None  # the driver's own words hold the whole URL, password and all
    chosen: dict[str, Any] = {
        "application_name": "stateward",
        "connect_timeout": timeout,
        "client_encoding": "UTF8",
        # A peer that vanished without a word is noticed within seconds, not hours.
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }
    if "service" not in parameters and not any(name in os.environ for name in CHOSEN_OUTSIDE):
        chosen["target_session_attrs"] = WRITER
    return chosen | parameters


def _number(url: EngineURL, name: str, default: int, least: int, most: int) -> int:
    text = url.options.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise InvalidInput(f"{name}={text!r} in the URL is not a number from {least} to {most}")
    return int(text)
