"""Strands Agents: FileSessionManager, an agent restored from its files for every turn."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from strands import Agent
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager

from stateward.audit.targets.frameworks.memory import FrameworkMemory
from stateward.audit.targets.memory import Json

AGENT = "audit"


class FileSessions(FrameworkMemory):
    """A turn is what an agent does with it: restore, take in each message, save.

    The agent is made again for each turn, because another replica may have had the one before. A
    session belongs to an agent: there is no state of users, nor tasks, workflows, locks, metrics,
    or a key by which a turn that is delivered twice could be told.
    """

    provides = ("threads", "sizes")
    keys = False  # a message is known by its number

    async def append(self, thread: str, messages: list[Json], key: str) -> None:
        await asyncio.to_thread(self._append, thread, messages)

    def _append(self, thread: str, messages: list[Json]) -> None:
        agent, manager = self._restored(thread)
        for message in messages:
            framed = {"role": message["role"], "content": [{"text": json.dumps(message)}]}
            agent.messages.append(framed)
            manager.append_message(framed, agent)
        agent.conversation_manager.apply_management(agent)
        manager.sync_agent(agent)

    def _restored(self, thread: str) -> tuple[Any, Any]:
        manager = FileSessionManager(thread, storage_dir=self.sandbox.path)
        agent = Agent(
            model=Silent(),
            agent_id=AGENT,
            session_manager=manager,
            callback_handler=None,
            load_tools_from_directory=False,
        )
        return agent, manager

    async def load(self, thread: str, last: int | None) -> list[Json]:
        return await asyncio.to_thread(self._load, thread, last)

    def _load(self, thread: str, last: int | None) -> list[Json]:
        if not os.path.exists(os.path.join(self.sandbox.path, f"session_{thread}")):
            return []  # an agent that is restored would begin one
        agent, manager = self._restored(thread)
        if last is not None:
            return [plain(message) for message in agent.messages[-last:]]
        return [plain(each.to_message()) for each in manager.list_messages(thread, AGENT)]


class Silent(Model):
    """Agents have a model; this one is never asked."""

    def get_config(self) -> Any:
        return {}

    def update_config(self, **config: Any) -> None:
        raise NotImplementedError

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    def stream(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def plain(message: Any) -> Json:
    content: Json = json.loads(message["content"][0]["text"])
    return content
