"""Choice and settings of the servers that an audit can start."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stateward.audit.servers.postgres import Postgres
from stateward.audit.servers.redis import Redis, Valkey
from stateward.audit.servers.server import OwnServer
from stateward.errors import InvalidInput

SETTING = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
KINDS: dict[str, type[OwnServer]] = {kind.kind: kind for kind in (Redis, Valkey, Postgres)}


def own_server(kind: str, settings: Mapping[str, str]) -> OwnServer:
    """A server that is not started yet; `InvalidInput` says what is missing for it."""
    if kind not in KINDS:
        raise InvalidInput(f"no server {kind!r} can be started; use one of: {', '.join(KINDS)}")
    return KINDS[kind](settings)


def read_settings(given: list[str]) -> dict[str, str]:
    """Read settings of the form "name=value"; raises `InvalidInput` for any other text."""
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not SETTING.fullmatch(name) or not value.isprintable() or '"' in value:
            raise InvalidInput(f"--server-setting is like fsync=off, not {text!r}")
        settings[name] = value
    return settings
