"""Strands: `strands:FOLDER`, the folder of its `FileSessionManager`.

A session becomes the thread that `StatewardSessionManager` keeps, with the messages of all its
agents in the order of their times, and their states beside them.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stateward.errors import InvalidInput
from stateward.transfer.moves.foreign import ForeignItem, ForeignThread, message_body, time_of

try:
    from strands.session.file_session_manager import (
        AGENT_PREFIX,
        MULTI_AGENT_PREFIX,
        SESSION_PREFIX,
        FileSessionManager,
    )
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionMessage

    from stateward.integrations.kept.strands import SESSION, STATUS
    from stateward.integrations.strands.messages import as_message, plain_json
except ModuleNotFoundError as error:  # pragma: no cover - the tests install it
    raise InvalidInput(
        "importing from Strands needs it; install it with: pip install 'stateward[strands]'"
    ) from error

PAGE = 1000  # messages of an agent in one read


def open_source(folder: str) -> StrandsFiles:
    return StrandsFiles(folder)


class StrandsFiles:
    """Sessions in files, read by the session manager that wrote them."""

    lost: tuple[str, ...] = ()

    def __init__(self, folder: str) -> None:
        self.name = f"strands:{os.path.basename(os.path.normpath(folder))}"
        self._folder = Path(folder)
        self._ids = [
            path.name.removeprefix(SESSION_PREFIX)
            for path in sorted(self._folder.glob(f"{SESSION_PREFIX}*"))
            if (path / "session.json").is_file()
        ]
        if not self._ids:
            raise InvalidInput(
                f"{folder} has no sessions: name the storage_dir of the FileSessionManager, in "
                f"which the folders {SESSION_PREFIX}… are"
            )

    def size(self) -> int:
        return sum(1 for _ in self._folder.glob(f"{SESSION_PREFIX}*/agents/*/messages/*.json"))

    def threads(self) -> Iterator[ForeignThread]:
        for id in self._ids:
            try:
                _, session = self._session(id)
            except InvalidInput as error:
                yield ForeignThread(id=id, refused=str(error))
                continue
            created, updated = time_of(session.created_at), time_of(session.updated_at)
            yield ForeignThread(id=id, status=STATUS, created=created, updated=updated)

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        files, _ = self._session(thread.id)
        agents = self._names(thread.id, "agents", AGENT_PREFIX)
        of_agents = (messages_of(files, thread.id, agent) for agent in agents)
        for agent, message in heapq.merge(*of_agents, key=lambda each: each[1].created_at):
            yield ForeignItem(message_body(as_message(agent, message)), time_of(message.created_at))

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        files, session = self._session(thread.id)
        parts: dict[str, Any] = {SESSION: session.to_dict()}
        with refusing():
            for id in self._names(thread.id, "agents", AGENT_PREFIX):
                agent = files.read_agent(thread.id, id)
                if agent is not None:
                    parts[f"agent {id}"] = agent.to_dict()
            for id in self._names(thread.id, "multi_agents", MULTI_AGENT_PREFIX):
                parts[f"multi_agent {id}"] = files.read_multi_agent(thread.id, id)
        return {name: plain_json(value) for name, value in parts.items() if value is not None}

    def close(self) -> None:
        """Files are open only while they are read."""

    def _session(self, id: str) -> tuple[FileSessionManager, Session]:
        with refusing():
            files = FileSessionManager(id, storage_dir=str(self._folder))
            session = files.read_session(id)
        assert session is not None  # a session manager would have created a missing session
        return files, session

    def _names(self, session: str, of: str, prefix: str) -> list[str]:
        folder = self._folder / f"{SESSION_PREFIX}{session}" / of
        return sorted(path.name.removeprefix(prefix) for path in folder.glob(f"{prefix}*"))


def messages_of(
    files: FileSessionManager, session: str, agent: str
) -> Iterator[tuple[str, SessionMessage]]:
    start = 0
    while True:
        with refusing():
            page = files.list_messages(session, agent, limit=PAGE, offset=start)
        yield from ((agent, message) for message in page)
        start += len(page)
        if len(page) < PAGE:
            return


@contextmanager
def refusing() -> Iterator[None]:
    """Refuse a session that Strands cannot read, and continue with the others."""
    try:
        yield
    except (SessionException, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidInput(f"Strands cannot read it: {error}") from error
