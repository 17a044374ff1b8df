"""Sessions of ADK's own services go on in a store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from backup.conftest import NewStore
from backup.states import everything
from frameworks.adk_model import APP, GRILL, ask, texts, waiter
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from servers.postgres import PostgresServer

import stateward
from moves.kills import import_killed
from stateward import InvalidInput
from stateward.integrations.google_adk import StatewardSessionService
from stateward.transfer.moves.mover import import_from


async def live(service: Any, sessions: int = 4) -> None:
    for number in range(sessions):
        user, id = f"u-{number % 2}", f"s/{number}"
        await service.create_session(
            app_name=APP, user_id=user, session_id=id, state={"table": number, "user:vip": True}
        )
        answers = (GRILL, "Enjoy!", "You are welcome.")
        await ask(waiter(service, *answers), "A steak, please", id, user)
        await ask(waiter(service, *answers[2:]), "Thank you", id, user)
    await service.create_session(
        app_name="other", user_id="u-0", session_id="s", state={"app:open": True, "user:vip": 1}
    )


def service_of(kind: str, path: Path, request: pytest.FixtureRequest) -> tuple[Any, str]:
    """One of ADK's own, and how an import finds it."""
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        where = server.url
        for table in ("events", "sessions", "app_states", "user_states"):
            server.run_sql(f"DROP TABLE IF EXISTS {table}")
        url = where.replace("postgresql://", "postgresql+asyncpg://")
        return DatabaseSessionService(url), f"adk:{where}"
    where = f"sqlite:///{path / 'old.db'}"
    if kind == "sqlite":
        return SqliteSessionService(str(path / "old.db")), f"adk:{where}"
    return DatabaseSessionService(where.replace("sqlite", "sqlite+aiosqlite")), f"adk:{where}"


@pytest.mark.parametrize(
    ("kind", "engine"), [("sqlite", "sqlite"), ("database", "valkey"), ("postgres", "postgres")]
)
async def test_sessions_are_there_as_they_were_and_go_on(
    kind: str, engine: str, tmp_path: Path, new_store: NewStore, request: pytest.FixtureRequest
) -> None:
    before, source = service_of(kind, tmp_path, request)
    await live(before)
    url = new_store(engine)
    planned = await in_thread(source, url, dry_run=True)
    report = await in_thread(source, url)
    assert (report.threads, report.refused, report.is_equal) == (5 + 2 + 2, 0, True)
    assert report.digest == planned.digest
    held = everything(url)
    again = await in_thread(source, url)
    assert (again.added, again.there, again.digest) == (0, 9, report.digest)
    assert everything(url) == held

    async with stateward.open(url) as store:
        here = StatewardSessionService(store)
        for app, user, id in [
            *((APP, f"u-{number % 2}", f"s/{number}") for number in range(4)),
            ("other", "u-0", "s"),
        ]:
            named = {"app_name": app, "user_id": user}
            was, now = [await each.get_session(**named, session_id=id) for each in (before, here)]
            assert now.events == was.events
            assert now.state == was.state
            assert await here.get_user_state(**named) == await before.get_user_state(**named)
        runner = waiter(here, "See you!")
        assert await ask(runner, "Bye", "s/1", "u-1") == "See you!"
        session = await here.get_session(app_name=APP, user_id="u-1", session_id="s/1")
        assert texts(session) == [
            "A steak, please",
            "call",
            "result",
            "Enjoy!",
            "Thank you",
            "You are welcome.",
            "Bye",
            "See you!",
        ]
        assert session.state["app:steaks"] == 4
        assert (await store.user("u-1").erase()).removed["thread"] == 2
    await ask(waiter(before, "there too"), "Bye", "s/0", "u-0")
    last = await in_thread(source, url, again=True)
    assert (last.moved, last.added, last.erased) == (1, 2, 3)
    await before.close()


async def in_thread(source: str, url: str, **options: bool) -> Any:
    return await asyncio.to_thread(import_from, source, url, **options)


async def test_killed_it_is_gone_on_with(tmp_path: Path, new_store: NewStore) -> None:
    before = SqliteSessionService(str(tmp_path / "old.db"))
    await live(before, 8)
    source, url = f"adk:sqlite:///{tmp_path / 'old.db'}", new_store("sqlite")
    for words in (1, 7):
        assert import_killed(source, url, words).isdigit()
    report = await in_thread(source, url)
    assert report.is_equal
    assert 0 < report.moved < 13
    async with stateward.open(url) as store:
        now = await StatewardSessionService(store).get_session(
            app_name=APP, user_id="u-1", session_id="s/7"
        )
        was = await before.get_session(app_name=APP, user_id="u-1", session_id="s/7")
        assert now is not None
        assert was is not None
        assert now.events == was.events


@pytest.mark.parametrize("place", ["sqlite:///nowhere.db", "sqlite:///empty.db", "redis://x"])
def test_a_source_without_sessions_is_refused(
    place: str, tmp_path: Path, new_store: NewStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.db").touch()
    with pytest.raises(InvalidInput, match=r"sessions of ADK|no file"):
        import_from(f"adk:{place}", new_store("sqlite"))
