"""No message and no repr shows a password, whatever characters it has and wherever it stands."""

from __future__ import annotations

import traceback
from typing import Any
from urllib.parse import quote

import pytest

from stateward.engines.registry import ENGINES, create_engine, create_sync_engine, parse
from stateward.errors import StatewardError
from stateward.world import World

WORLD = World()
WORDS = ("tq7x", "zb4k", "vw9m")
RESERVED = ":/?#[]@!$&'()*+,;="
CHARACTERS = [*RESERVED, *" \\^`|%\t\u00fc\u2100\uff1a", "%2", "://", "%40"]

# Every form that a URL has, and the mistakes that people make: {} is the password.
FORMS = [
    "redis://:{}@127.0.0.1:1/0",
    "redis://u:{}@127.0.0.1:1?timeout=1",
    "redis://u:{}@[::1]:1",
    "rediss://u:{}@127.0.0.1:1",
    "redis+cluster://u:{}@127.0.0.1:1,127.0.0.1:2",
    "redis+sentinel://u:{}@127.0.0.1:1,127.0.0.1:2/service",
    "unix://u:{}@/nowhere/redis.sock",
    "postgres://u:{}@127.0.0.1:1/db",
    "postgresql://u:{}@127.0.0.1:1,127.0.0.1:2/db?schema=s",
]
MISTAKES = [
    "https://{}@127.0.0.1:1",
    "http://:{}@127.0.0.1:1/path?timeout=1",
    "https://u:{}@127.0.0.1:port",
    "https://u:{}@127.0.0.1:1?nope=1",
    "http://{}@example.com",
    "redis://u:{}@127.0.0.1:port",
    "redis://u:{}@127.0.0.1:1/7",
    "redis://u:{}@127.0.0.1:1,127.0.0.1:2",
    "redis://u:{}@127.0.0.1:1?nope=1",
    "redis://u:{}@127.0.0.1:1?timeout=nope",
    "redis+sentinel://u:{}@127.0.0.1:1",
    "redis+sentinel://127.0.0.1:1,127.0.0.1:2/service?sentinel_user=u&sentinel_password={}",
    "redis+sentinel://127.0.0.1:1/service?sentinel_password={}&sentinel_tls=maybe",
    "rediss://u:{}@127.0.0.1:1?ca=/nowhere",
    "postgresql://u:{}@127.0.0.1:1/db?nope=1",
    "postgresql://u:{}@127.0.0.1:1/db?schema=A",
    "sqlite://u:{}@host/agents.db",
    "nope://u:{}@127.0.0.1:1/db",
    "u:{}@redis://127.0.0.1",
    "u:{}@127.0.0.1",
]
WITHOUT_HOST = ["redis://:{}", "postgresql://:{}", "redis+cluster://:{}", "redis://u:{}/0"]


def shown(url: str) -> tuple[str, list[Any]]:
    """All that anybody could see of a URL, and the engines that were made of it."""
    seen: list[str] = []
    engines = []
    for create in (create_engine, create_sync_engine):
        try:
            parsed = parse(url)
            seen += repr(parsed), parsed.safe
            engine = create(parsed, WORLD)
            engines.append(engine)
            seen += repr(engine), *map(repr, vars(engine).values())
        except StatewardError as error:
            seen += repr(error), *traceback.format_exception(error)
    return "\n".join(seen), engines


def password_of(engine: Any) -> str:
    """As the engine would say it to the server."""
    if hasattr(engine, "_server"):
        return str(engine._server.password)
    return str(engine._settings.conninfo["password"])


def test_every_scheme_has_a_form_here() -> None:
    tried = {form.partition("://")[0] for form in (*FORMS, *MISTAKES)}
    assert set(ENGINES) - {"memory"} <= tried


@pytest.mark.parametrize("form", [*FORMS, *MISTAKES, *WITHOUT_HOST])
def test_a_password_is_taken_as_it_is_or_refused_and_never_shown(form: str) -> None:
    for character in CHARACTERS:
        password = character.join(WORDS)
        ambiguous = character in ("/", "?", "://", "%40")
        for written in (password, quote(password, safe="")):
            if form in WITHOUT_HOST and "@" in written:
                continue  # then it has a host
            said, engines = shown(form.format(written))
            assert not [word for word in WORDS if word in said], (written, said)
            if form in FORMS and not (ambiguous and written == password):
                assert [password_of(engine) for engine in engines] == [password] * 2
