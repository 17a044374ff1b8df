"""Sessions, agents and messages."""

from __future__ import annotations

from typing import Any, NamedTuple

from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage

from stateward import sync
from stateward.codec import Retention, check_commit, decode
from stateward.errors import StateConflictError, StatewardError, StoreUnavailable
from stateward.integrations.adapter import OnBlockingStore
from stateward.integrations.kept.statuses import NO_SESSION, is_session_of, joined, status_to_join
from stateward.integrations.kept.strands import SESSION, STATUS
from stateward.integrations.strands.messages import (
    agent_of,
    as_message,
    as_session_message,
    of_agent,
    plain_json,
)
from stateward.layers.outage.answers import Suppressed
from stateward.ops import (
    Check,
    Conflict,
    DocumentAt,
    Drop,
    Entity,
    KeyReused,
    Log,
    LogAt,
    Outcome,
    Put,
    SetHead,
    StatusIn,
    Value,
    Write,
)
from stateward.owner import UNSAID, Unsaid, Whose
from stateward.records import Cursor
from stateward.state.refusals import refuse, stored
from stateward.sync.state.effects import drop_effects
from stateward.sync.state.handle import Handle
from stateward.sync.state.threads import Thread

OPEN = is_session_of(STATUS)
PAGE = 200  # messages that are read together


class SeenDocument(NamedTuple):
    """The last known state of a document."""

    version: int
    stamp: str | None
    created_at: str | None


class StatewardSessionRepository(OnBlockingStore, SessionRepository):
    """Sessions of Strands in a store. Make one repository for each session manager.

    A repository remembers how far it has read. A write over, or after, a later write of another
    replica raises `SessionException`, caused by `StateConflictError`. In an outage of the store
    a message is kept locally, as the store's policy says; all else raises `StoreUnavailable`.
    """

    def __init__(
        self, store: sync.Store, *, user: Whose = UNSAID, retain: Retention | Unsaid = UNSAID
    ) -> None:
        super().__init__(store)
        self._user = user
        self._retain = retain
        self._read: dict[tuple[str, str], Cursor] = {}  # ends of the logs, by session and agent
        self._documents: dict[tuple[str, str], SeenDocument] = {}  # documents by session and name

    def _thread(self, session_id: str) -> Thread:
        return self._store.thread(session_id, user=self._user, retain=self._retain)

    def _handle(self, session_id: str) -> Handle:
        """Return the handle of a session's thread."""
        return self._thread(session_id).handle

    def _commit(
        self, session_id: str, writes: tuple[Write, ...], checks: tuple[Check, ...] = (OPEN,)
    ) -> Outcome:
        return self._checked(session_id, self._handle(session_id).commit(writes, checks))

    def _checked(self, session_id: str, outcome: Outcome) -> Outcome:
        """Return the outcome of a commit on a session; a session that does not exist raises."""
        if isinstance(outcome, Conflict) and outcome.failed == OPEN:
            raise SessionException(f"Session {session_id} does not exist")
        return outcome

    # --- sessions -------------------------------------------------------------------

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session; one that exists raises. Of another framework's thread, it is made one.

        The messages of that thread are the beginning of the conversation.
        """
        put = Put(SESSION, plain_json(session.to_dict()))
        status = NO_SESSION
        while True:
            writes = (put, SetHead(status=joined(status, STATUS)))
            outcome = self._commit(session.session_id, writes, (StatusIn((status,)),))
            if not isinstance(outcome, Conflict):
                break
            now = status_to_join(outcome, STATUS)
            if now is None:
                raise SessionException(f"Session {session.session_id} already exists")
            status = now
        stored(outcome, self._handle(session.session_id).entity)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return the session, or None."""
        value = self._document(session_id, SESSION)
        return None if value is None else Session.from_dict(decode(value.json))

    def delete_session(self, session_id: str, **kwargs: Any) -> None:
        """Remove a session with its agents and messages; one that does not exist raises."""
        handle = self._handle(session_id)
        stored(self._commit(session_id, (Drop(),)), handle.entity)
        drop_effects(handle.scope, handle.entity)
        for memory in (self._read, self._documents):
            for key in [key for key in memory if key[0] == session_id]:
                del memory[key]

    # --- agents ---------------------------------------------------------------------

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Create an agent in a session; one that exists raises."""
        agent_id = session_agent.agent_id
        self._create(session_id, f"agent {agent_id}", session_agent.to_dict())

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return the agent, or None."""
        value = self._document(session_id, f"agent {agent_id}")
        return None if value is None else SessionAgent.from_dict(decode(value.json))

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Replace an agent's state; one that is missing, or that another changed, raises."""
        name = f"agent {session_agent.agent_id}"
        before = self._seen_document(session_id, name)
        session_agent.created_at = before.created_at or session_agent.created_at
        self._replace(session_id, name, session_agent.to_dict(), before)

    def create_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Create the state of a graph or swarm; one that exists raises."""
        self._create(session_id, f"multi_agent {multi_agent.id}", multi_agent.serialize_state())

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **kwargs: Any
    ) -> dict[str, Any] | None:
        """Return the state of a graph or swarm, or None."""
        value = self._document(session_id, f"multi_agent {multi_agent_id}")
        return None if value is None else decode(value.json)

    def update_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Replace the state of a graph or swarm; a missing or changed one raises."""
        name = f"multi_agent {multi_agent.id}"
        before = self._seen_document(session_id, name)
        self._replace(session_id, name, multi_agent.serialize_state(), before)

    def _document(self, session_id: str, name: str) -> Value | None:
        value = self._handle(session_id).fetch(documents=(name,)).documents.get(name)
        if value is not None:
            created = decode(value.json).get("created_at")
            self._documents[session_id, name] = SeenDocument(value.version, value.stamp, created)
        return value

    def _seen_document(self, session_id: str, name: str) -> SeenDocument:
        if (session_id, name) not in self._documents and self._document(session_id, name) is None:
            raise SessionException(f"There is no {name} in session {session_id}")
        return self._documents[session_id, name]

    def _create(self, session_id: str, name: str, state: dict[str, Any]) -> None:
        self._replace(session_id, name, state, SeenDocument(0, None, state.get("created_at")))

    def _replace(
        self, session_id: str, name: str, state: dict[str, Any], seen: SeenDocument
    ) -> None:
        handle = self._handle(session_id)
        text = plain_json(state)
        check_commit(len(text), handle.scope.limits)
        at = DocumentAt(name, seen.version, seen.stamp)
        outcome = self._commit(session_id, (Put(name, text),), (OPEN, at))
        if isinstance(outcome, Conflict):
            how = "exists already" if seen.version == 0 else "was changed by another replica"
            problem = f"The {name} of session {session_id} {how}"
            raise SessionException(problem) from conflict(outcome, handle.entity)
        applied = stored(outcome, handle.entity)
        self._documents[session_id, name] = SeenDocument(
            applied.documents[name], None, seen.created_at
        )

    # --- messages -------------------------------------------------------------------

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Add a message of an agent; an index that is taken raises."""
        handle, index = self._handle(session_id), session_message.message_id
        message = as_message(agent_id, session_message)
        key = f"{index} of {agent_id}"  # so that a message spilled in an outage is not stored twice
        read = self._read.get((session_id, agent_id))
        refused: Outcome | None = None
        while True:
            try:
                if read is None:
                    read = self._end(handle, agent_id, index)
                elif refused is not None:
                    read = self._passed_by(handle, agent_id, index, read, refused)
                at: tuple[Check, ...] = (LogAt(read.version, read.stamp),)
            except StoreUnavailable:
                at = ()  # a conflict cannot be detected now; the message is spilled in any case
            outcome = handle.append((message,), key, (OPEN, *at), keep=True)
            if isinstance(outcome, Suppressed):
                self._read.pop((session_id, agent_id), None)  # its place in the log is not known
                return
            refused = self._checked(session_id, outcome)
            if isinstance(refused, Conflict):
                continue
            if isinstance(outcome, KeyReused):
                raise taken(session_id, agent_id, index) from conflict(outcome, handle.entity)
            applied = stored(outcome, handle.entity)
            self._read[session_id, agent_id] = Cursor(applied.version, applied.stamp)
            return

    def _end(self, handle: Handle, agent_id: str, index: int) -> Cursor:
        """Return the end of the log, if it has no message with that index."""
        end, messages = self._messages(handle.entity.id, agent_id)
        if any(message.message_id == index for message in messages):
            raise taken(handle.entity.id, agent_id, index)
        return end

    def _passed_by(
        self, handle: Handle, agent_id: str, index: int, read: Cursor, outcome: Outcome
    ) -> Cursor:
        """Return the end of a log that has grown, but not by messages of the same agent."""
        fetched = handle.fetch(Log(read.version, stamp=read.stamp, details=True))
        new = (decode(entry.body) for entry in fetched.entries)
        if fetched.reset or any(agent_of(message) == agent_id for message in new):
            raise taken(handle.entity.id, agent_id, index) from conflict(outcome, handle.entity)
        return Cursor(fetched.head.version, fetched.head.stamp or None)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return the message with an index, or None."""
        numbered = self._find(session_id, agent_id, message_id)
        return None if numbered is None else numbered[1]

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Replace a message, e.g. by a redacted one; a missing one raises."""
        message_id = session_message.message_id
        numbered = self._find(session_id, agent_id, message_id)
        if numbered is None:
            raise SessionException(f"Message {message_id} does not exist")
        number, before = numbered
        session_message.created_at = before.created_at
        self._thread(session_id).edit({number: as_message(agent_id, session_message)})

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return messages of an agent by index, without the first `offset`, at most `limit`."""
        if self._document(session_id, f"agent {agent_id}") is None:
            raise SessionException(f"There is no agent {agent_id} in session {session_id}")
        self._read[session_id, agent_id], messages = self._messages(session_id, agent_id)
        messages.sort(key=lambda message: message.message_id)
        return messages[offset:] if limit is None else messages[offset : offset + limit]

    def _is_behind(self, session_id: str, agent_id: str) -> bool:
        """Return whether others have changed an agent, or added messages, since the last read."""
        name, read = f"agent {agent_id}", self._read.get((session_id, agent_id))
        fetched = self._handle(session_id).fetch(documents=(name,))
        value, read_value = fetched.documents.get(name), self._documents.get((session_id, name))
        if value is None:
            return False
        version = 0 if read is None else read.version
        if fetched.head.version != version or read_value is None:
            return True
        return read_value.version != value.version

    def _messages(self, session_id: str, agent_id: str) -> tuple[Cursor, list[SessionMessage]]:
        """Return all messages of an agent in the thread, and the end of the thread."""
        window = self._thread(session_id).load()
        return window.cursor, of_agent(window.messages, agent_id)

    def _find(
        self, session_id: str, agent_id: str, message_id: int
    ) -> tuple[int, SessionMessage] | None:
        """Find a message and its number in the log, searching the newest ones first."""
        if type(message_id) is not int:
            raise ValueError(f"message_id is an integer, not {message_id!r}")
        upto: int | None = None
        while upto != 0:
            window = self._thread(session_id).load(last=PAGE, upto=upto, exact=True, entries=True)
            for entry in reversed(window.entries):
                message = entry.message
                if agent_of(message) == agent_id and message["strands"]["message_id"] == message_id:
                    return entry.version, as_session_message(message)
            upto = window.entries[0].version - 1 if window.entries else 0
        return None


def taken(session_id: str, agent_id: str, index: int) -> SessionException:
    return SessionException(
        f"Message {index} of agent {agent_id} in session {session_id} was written by another "
        "replica; nothing was stored. Create the agent from the session again and retry"
    )


def conflict(outcome: Outcome, entity: Entity) -> StateConflictError:
    """Return the store's error for a refused commit."""
    try:
        refuse(outcome, entity)
    except StatewardError as error:
        if isinstance(error, StateConflictError):
            return error
        return StateConflictError(str(error))
