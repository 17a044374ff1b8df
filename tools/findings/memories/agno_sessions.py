"""Agno: a session is read, a run is added, and both are written, as `Agent.run` does it."""

from __future__ import annotations

from time import time
from typing import Any

from agno.db.base import SessionType
from agno.db.json import JsonDb
from agno.db.postgres import PostgresDb
from agno.db.redis import RedisDb
from agno.db.sqlite import SqliteDb
from agno.models.message import Message
from agno.run.agent import RunOutput
from agno.session.agent import AgentSession
from redis.exceptions import ConnectionError, TimeoutError
from shapes import Json, home, joined, newest, sqlalchemy_url, text_and_rest
from sqlalchemy.exc import DBAPIError


def native(message: Json) -> Message:
    text, rest = text_and_rest(message)
    role = "assistant" if message.get("role") == "assistant" else "user"
    return Message(role=role, content=text, provider_data={"rest": rest})


class Sessions:
    """A run has an id that the caller may choose: the key of the turn."""

    db: Any

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        session = self.db.get_session(session_id=thread, session_type=SessionType.AGENT)
        if session is None:
            session = AgentSession(
                session_id=thread, agent_id="audit", session_data={}, created_at=int(time())
            )
        run = RunOutput(
            run_id=f"{thread}/{key}",
            session_id=thread,
            agent_id="audit",
            messages=[native(each) for each in messages],
        )
        session.upsert_run(run)
        self.db.upsert_session(session)
        index = next(n for n, each in enumerate(session.runs) if each.run_id == run.run_id)
        self.db.upsert_run(run, session_id=thread, run_index=index)

    def load(self, thread: str, last: int | None) -> list[Json]:
        session = self.db.get_session(session_id=thread, session_type=SessionType.AGENT)
        runs = session.runs or [] if session is not None else []
        found = [message for run in runs for message in run.messages or []]
        plain = [joined(each.content or "", each.provider_data["rest"]) for each in found]
        return newest(plain, last)


class JsonSessions(Sessions):
    def __init__(self, namespace: str) -> None:
        self.db = JsonDb(db_path=str(home()))


class SqliteSessions(Sessions):
    unavailable = (DBAPIError, OSError)

    def __init__(self, namespace: str) -> None:
        self.db = SqliteDb(db_file=str(home() / "agno.db"))


class PostgresSessions(Sessions):
    unavailable = (DBAPIError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self.db = PostgresDb(db_url=sqlalchemy_url(url, "psycopg"))


class RedisSessions(Sessions):
    unavailable = (ConnectionError, TimeoutError, OSError)

    def __init__(self, namespace: str, url: str) -> None:
        self.db = RedisDb(db_url=url)
