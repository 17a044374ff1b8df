"""Chainlit: each message is a step of a thread, created by the data layer."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import psycopg
from chainlit.context import init_http_context
from chainlit.data.sql_alchemy import SQLAlchemyDataLayer
from shapes import Json, joined, newest, sqlalchemy_url, text_and_rest, uuid_of

# The tables of the data layer's documentation that steps need.
TABLES = """
CREATE TABLE IF NOT EXISTS users (
    "id" UUID PRIMARY KEY, "identifier" TEXT NOT NULL UNIQUE, "metadata" JSONB NOT NULL,
    "createdAt" TEXT
);
CREATE TABLE IF NOT EXISTS threads (
    "id" UUID PRIMARY KEY, "createdAt" TEXT, "name" TEXT, "userId" UUID, "userIdentifier" TEXT,
    "tags" TEXT[], "metadata" JSONB,
    FOREIGN KEY ("userId") REFERENCES users("id") ON DELETE CASCADE
);
CREATE TABLE IF NOT EXISTS steps (
    "id" UUID PRIMARY KEY, "name" TEXT NOT NULL, "type" TEXT NOT NULL, "threadId" UUID NOT NULL,
    "parentId" UUID, "streaming" BOOLEAN NOT NULL, "waitForAnswer" BOOLEAN, "isError" BOOLEAN,
    "metadata" JSONB, "tags" TEXT[], "input" TEXT, "output" TEXT, "createdAt" TEXT,
    "command" TEXT, "start" TEXT, "end" TEXT, "generation" JSONB, "showInput" TEXT,
    "language" TEXT, "indent" INT, "defaultOpen" BOOLEAN, "modes" JSONB,
    FOREIGN KEY ("threadId") REFERENCES threads("id") ON DELETE CASCADE
);
CREATE TABLE IF NOT EXISTS elements (
    "id" UUID PRIMARY KEY, "threadId" UUID, "type" TEXT, "url" TEXT, "chainlitKey" TEXT,
    "name" TEXT NOT NULL, "display" TEXT, "objectKey" TEXT, "size" TEXT, "page" INT,
    "language" TEXT, "forId" UUID, "mime" TEXT, "props" JSONB
);
CREATE TABLE IF NOT EXISTS feedbacks (
    "id" UUID PRIMARY KEY, "forId" UUID NOT NULL, "threadId" UUID NOT NULL, "value" INT NOT NULL,
    "comment" TEXT
);
"""


class Steps:
    keys = False

    def __init__(self, namespace: str, url: str) -> None:
        self._url = url
        self._layer = SQLAlchemyDataLayer(conninfo=sqlalchemy_url(url, "asyncpg"))

    async def open(self) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(1)")  # one replica makes the tables
            connection.execute(TABLES)

    async def append(self, thread: str, messages: list[Json], key: str) -> None:
        init_http_context()
        for each in messages:
            text, rest = text_and_rest(each)
            await self._layer.create_step(
                {
                    "id": str(uuid.uuid4()),
                    "threadId": uuid_of(thread),
                    "name": str(each.get("role")),
                    "type": "assistant_message"
                    if each.get("role") == "assistant"
                    else "user_message",
                    "output": text,
                    "streaming": False,
                    "metadata": {"rest": rest},
                    "createdAt": datetime.now(UTC).isoformat() + "Z",
                }
            )

    async def load(self, thread: str, last: int | None) -> list[Json]:
        init_http_context()
        found = await self._layer.get_thread(uuid_of(thread))
        steps = found["steps"] if found else []
        return newest([joined(each["output"], each["metadata"]["rest"]) for each in steps], last)
