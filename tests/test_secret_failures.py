"""A store that fails shows no password: in no error, log, report, repr or measurement."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from servers.ports import free_port
from servers.postgres import PostgresServer
from servers.redis import RedisServer, running
from test_secrets import CHARACTERS, WORDS

from stateward import AccessRefused, Policy, StatewardError, cli, sync
from stateward.engines.registry import ENGINES

SHORT = ["@", "/", " \\"]  # `make soak` tries all
BRIEF = Policy(read_timeout=0.2, write_timeout=0.2, threads="raise", breaker_failures=1000)
CLOSED = {  # where nothing listens, by scheme
    "redis": "redis://u:{}@127.0.0.1:PORT",
    "rediss": "rediss://u:{}@127.0.0.1:PORT",
    "redis+cluster": "redis+cluster://u:{}@127.0.0.1:PORT",
    "redis+sentinel": "redis+sentinel://u:{}@127.0.0.1:PORT/service",
    "unix": "unix://u:{}@/nowhere/redis.sock",
    "postgres": "postgres://u:{}@127.0.0.1:PORT/db",
    "postgresql": "postgresql://u:{}@127.0.0.1:PORT/db?schema=s",
    "http": "http://{}@127.0.0.1:PORT",
    "https": "https://{}@127.0.0.1:PORT",
}
COMMANDS = [["health", "URL"], ["inspect", "URL"], ["audit", "URL", "--dry-run"]]
COMMANDS += [["backup", "URL", "FILE"], ["health", "URL", "--json"]]


def chain(error: BaseException | None) -> Iterator[str]:
    """What a traceback or an error tracker would show of it, and of all that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield from (f"{error} {error!r} {error.args!r}", *traceback.format_exception(error))
        yield from chain(error.__context__ if error.__cause__ is not error.__context__ else None)
        error = error.__cause__


def shown_of(
    url: str, folder: Path, said: pytest.CaptureFixture[str], commands: list[list[str]]
) -> str:
    """All that anybody could see of a store that does not answer."""
    seen: list[str] = []
    try:
        store = sync.open(url, policy=BRIEF, spill=False, heartbeat=None)
    except StatewardError as error:  # e.g. a key with a character that no key has
        return "\n".join(chain(error))
    try:
        for call in (
            lambda: store.thread("t").load(),
            lambda: store.thread("t").append({"n": 1}),
            lambda: store.ready(0.01),
            store.describe,
        ):
            with pytest.raises(StatewardError) as failed:
                call()
            seen += chain(failed.value)
        seen += repr(store), repr(store.health())
        seen += repr(store.metrics()), store.metrics().prometheus()
    finally:
        store.close()
    said.readouterr()
    for command in commands:
        words = [word.replace("URL", url).replace("FILE", f"{folder}/b") for word in command]
        cli.main(words)
    return "\n".join([*seen, *said.readouterr()])


def keeps_secret(
    form: str,
    characters: list[str],
    folder: Path,
    said: pytest.CaptureFixture[str],
    log: pytest.LogCaptureFixture,
) -> None:
    log.set_level(logging.DEBUG, "stateward")
    for character in characters:
        for written in {character.join(WORDS), quote(character.join(WORDS), safe="")}:
            log.clear()
            # They wait as long as a store has to answer: in the short form for one character.
            commands = COMMANDS if character == characters[0] or characters != SHORT else []
            shown = shown_of(form.format(written), folder, said, commands)
            logged = "\n".join(f"{each.getMessage()} {vars(each)}" for each in log.records)
            for where in (shown, logged):
                assert not [word for word in WORDS if word in where], (written, where)


def every(names: list[str]) -> list[object]:
    """A sample of characters now, and all of them in the soak."""
    all_of_them = [pytest.param(name, CHARACTERS, marks=pytest.mark.soak) for name in names]
    return [*(pytest.param(name, SHORT) for name in names), *all_of_them]


def test_every_scheme_has_a_form_here() -> None:
    assert set(ENGINES) - {"memory", "sqlite"} == set(CLOSED)


@pytest.mark.parametrize(("scheme", "characters"), every(list(CLOSED)))
def test_a_port_where_nothing_listens_shows_no_password(
    scheme: str,
    characters: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    form = CLOSED[scheme].replace("PORT", f"{free_port()}")
    keeps_secret(form, characters, tmp_path, capsys, caplog)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("locked"), "valkey", "--requirepass", "another") as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.admit("host all agent 127.0.0.1/32 scram-sha-256")
    server.start()
    server.run_sql("CREATE ROLE agent LOGIN PASSWORD 'another'")
    yield server
    server.remove()


@pytest.mark.parametrize(("kind", "characters"), every(["valkey", "postgres"]))
def test_a_server_that_refuses_a_password_does_not_show_it(
    kind: str,
    characters: list[str],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = request.getfixturevalue(kind).port
    scheme, user, place = ("redis", "", "") if kind == "valkey" else ("postgresql", "agent", "/x")
    form = f"{scheme}://{user}:{{}}@127.0.0.1:{port}{place.replace('x', 'postgres')}"
    keeps_secret(form, characters, tmp_path, capsys, caplog)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where one listens: it knows no key at all."""
    place = f"sqlite:///{tmp_path_factory.mktemp('served')}/agents.db"
    command = [sys.executable, "-m", "stateward", "serve", place, "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"].partition("://")[2]
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize(("scheme", "characters"), every(["http"]))
def test_a_service_that_refuses_a_key_does_not_show_it(
    scheme: str,
    characters: list[str],
    service: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = f"{scheme}://{'-'.join(WORDS)}@{service}"
    with pytest.raises(AccessRefused), sync.open(url, spill=False, heartbeat=None):
        pass
    keeps_secret(f"{scheme}://{{}}@{service}", ["-", *characters], tmp_path, capsys, caplog)
