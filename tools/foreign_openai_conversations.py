"""A pytest plugin: what the OpenAI Agents SDK's tests send to OpenAI is answered by the service.

See foreign_suites.py. The tests of `OpenAIConversationsSession` bring a client, or a transport,
that pretends to be OpenAI. It is still asked, so that it sees what it is to see, and fails when it
is to fail; but what the session gets is what the service answers to the real `openai` client. Items
that a test has put there itself are put into the service too before it is asked.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from agents.memory.openai_conversations_session import OpenAIConversationsSession
from openai import AsyncOpenAI, NotFoundError

import stateward
from stateward.server import app

URL = os.environ.get("STATEWARD_FOREIGN_URL", "memory://")


class Service:
    """The service of one test, in this process, and OpenAI's client of it."""

    def __init__(self, namespace: str) -> None:
        self._store = stateward.open(URL, namespace=namespace, spill=False, heartbeat=None)
        served = app(self._store)
        way: Any = httpx.AsyncClient(transport=httpx.ASGITransport(app=served))
        self.client = AsyncOpenAI(
            base_url="http://127.0.0.1/v1", api_key=served.lend_key("admin"), http_client=way
        )

    async def begin(self, id: str) -> None:
        """The tests name conversations that nobody has begun."""
        try:
            await self.client.conversations.retrieve(id)
        except NotFoundError:
            await self._store.thread(id).vars.put({})


class Items:
    """`client.conversations.items`: asks theirs, and answers with ours."""

    def __init__(self, theirs: Any, service: Service) -> None:
        self._theirs = theirs
        self._service = service

    async def create(self, *, conversation_id: str, items: Any) -> Any:
        await self._theirs.create(conversation_id=conversation_id, items=items)
        await self._service.begin(conversation_id)
        ours = self._service.client.conversations.items
        return await ours.create(conversation_id=conversation_id, items=items)

    async def list(self, *, conversation_id: str, order: str) -> AsyncIterator[Any]:
        await self._service.begin(conversation_id)
        ours = self._service.client.conversations.items
        asked: Any = {"conversation_id": conversation_id, "order": order}
        known = [item async for item in ours.list(**asked)]
        listed = self._theirs.list(**asked)
        theirs = [item.model_dump(exclude_unset=True) async for item in listed]
        in_order = theirs if order == "asc" else theirs[::-1]
        if missing := in_order[len(known) :]:
            await ours.create(conversation_id, items=missing)
        async for item in ours.list(**asked):
            yield item

    async def delete(self, *, conversation_id: str, item_id: str) -> Any:
        await self._theirs.delete(conversation_id=conversation_id, item_id=item_id)
        await self._service.begin(conversation_id)
        ours = self._service.client.conversations.items
        return await ours.delete(conversation_id=conversation_id, item_id=item_id)


class Client:
    """What a session is given in the place of the test's own client."""

    def __init__(self, theirs: Any, service: Service) -> None:
        self._theirs = theirs
        self._service = service
        self.items = Items(theirs.conversations.items, service)

    @property
    def conversations(self) -> Client:
        return self

    def with_options(self, **options: Any) -> Client:
        return Client(self._theirs.with_options(**options), self._service)

    async def create(self, **asked: Any) -> Any:
        made = await self._theirs.conversations.create(**asked)
        await self._service.begin(made.id)
        return await self._service.client.conversations.retrieve(made.id)

    async def delete(self, *, conversation_id: str) -> Any:
        await self._theirs.conversations.delete(conversation_id=conversation_id)
        await self._service.begin(conversation_id)
        return await self._service.client.conversations.delete(conversation_id)


@pytest.fixture(autouse=True)
def answered_by_the_service(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(request.node.nodeid)
    made = OpenAIConversationsSession.__init__

    def make(self: Any, **options: Any) -> None:
        made(self, **options)
        self._openai_client = Client(self._openai_client, service)

    monkeypatch.setattr(OpenAIConversationsSession, "__init__", make)
