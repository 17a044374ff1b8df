"""State of ADK by owner, and its transfer to users and applications.

An event may change the state of its session, of its user and of its application. Only the first is
stored in the event's own commit. A note beside the session says what the event changes elsewhere,
until that change is stored there.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from stateward.codec import decode, encode, encode_document
from stateward.integrations.kept.adk import STATUS, UNMERGED, shared_name
from stateward.integrations.kept.statuses import is_session_of
from stateward.kinds import ERASED, USER, erasure_of
from stateward.ops import (
    Absent,
    Check,
    CommitsAt,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Fetched,
    NotDroppedSince,
    Put,
    Value,
    Write,
)
from stateward.state.refusals import stored
from stateward.state.users import DEFAULT

OPEN = is_session_of(STATUS)

Values = dict[str, Any]


class Deltas(NamedTuple):
    """A change of state, divided by owner; keys without their prefix."""

    app: Values
    user: Values
    session: Values


class Note(NamedTuple):
    """An event's change of `user:` and `app:`, stored beside the session until it is stored there.

    `at` is when the event was stored. What another event said later counts more, whichever of them
    is brought there first: beside each document stands when each of its keys was said.
    """

    name: str
    at: float
    deltas: Deltas

    @classmethod
    def of(cls, name: str, value: Value) -> Note:
        deltas = decode(value.json)
        return cls(name, value.updated, Deltas(deltas["app"], deltas["user"], {}))


class SharedState:
    """The state of users and applications in a store of either colour, which `call` asks."""

    def __init__(self, store: Any, call: Callable[..., Awaitable[Any]]) -> None:
        self._store = store
        self._call = call

    async def merge(self, app_name: str, user_id: str, thread: Any, note: Note) -> None:
        """Store the changes of the user's and the application's state, and remove the note."""
        name, deltas = shared_name(app_name), note.deltas
        if deltas.user:
            user = self._store.user(user_id).handle
            names = (name, f"adk-times {app_name}")
            if await self._merge_into(user, names, deltas.user, note.at):
                await self._take_back(user, names, deltas.user, note.at)
        if deltas.app:
            app = self._store.shared(name).handle
            await self._merge_into(app, (DEFAULT, "adk-times"), deltas.app, note.at)
        if deltas.user or deltas.app:
            outcome = await self._call(thread.handle.commit, (Delete(note.name),), (OPEN,))
            if not isinstance(outcome, Conflict):  # else the session was deleted in the meantime
                stored(outcome, thread.handle.entity)

    async def _merge_into(
        self, handle: Any, names: tuple[str, str], delta: Values, at: float
    ) -> bool:
        """Store a change made at the time `at`, without keys changed since; True: the owner is new.

        `names` are the documents of the state and of the times of its keys. State that was dropped
        since is not restored.
        """
        while True:
            fetched = await self._call(handle.fetch, documents=names)
            value, times = (value_of(fetched, name) for name in names)
            new = {key: each for key, each in delta.items() if times.get(key, 0.0) <= at}
            if not new:
                return False
            # An owner without state had none to drop; the present state may be a new beginning.
            begun = fetched.head.exists and fetched.head.created >= at
            if begun and handle.entity.kind == USER and await self._erased_since(handle, at):
                return False
            writes = (
                Put(names[0], encode_document(value | new, handle.scope.limits)),
                Put(names[1], encode(times | dict.fromkeys(new, at), "the times")),
            )
            there: tuple[Check, ...] = () if fetched.head.exists else (Absent(),)
            documents = (document_at(fetched, name) for name in names)
            checks = (NotDroppedSince(at), *there, *documents)
            outcome = await self._call(handle.commit, writes, checks)
            if not isinstance(outcome, Conflict):
                return stored(outcome, handle.entity).created
            if isinstance(outcome.failed, NotDroppedSince):
                return False

    async def _take_back(self, user: Any, names: tuple[str, str], delta: Values, at: float) -> None:
        """Remove state stored for a user who was erased since the event."""
        if not await self._erased_since(user, at):
            return
        while True:
            fetched = await self._call(user.fetch, all_documents=True)
            value, times = (value_of(fetched, name) for name in names)
            ours = {key for key in delta if times.get(key) == at}
            if not ours:
                return
            rest = [{k: v for k, v in each.items() if k not in ours} for each in (value, times)]
            writes: tuple[Write, ...] = (Drop(),)
            if rest[0] or not fetched.documents.keys() <= set(names):  # the user has new state
                puts = zip(names, rest, strict=True)
                writes = tuple(
                    Put(name, encode(each, "the state")) if each else Delete(name)
                    for name, each in puts
                )
            unchanged = (CommitsAt(fetched.head.commits),)
            outcome = await self._call(user.commit, writes, unchanged)
            if not isinstance(outcome, Conflict):
                stored(outcome, user.entity)
                return

    async def _erased_since(self, user: Any, at: float) -> bool:
        mark = type(user)(user.scope, erasure_of(user.scope.namespace, user.entity.id))
        erased = (await self._call(mark.fetch, documents=(ERASED,))).documents.get(ERASED)
        return erased is not None and erased.updated >= at


def split(state: Values) -> Deltas:
    """Divide state by owner: application, user or session; `temp:` has no owner."""
    state = to_jsonable_python(state)
    prefixes = (State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX)
    app, user = (
        {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        for prefix in prefixes[:2]
    )
    own = {key: value for key, value in state.items() if not key.startswith(prefixes)}
    return Deltas(app, user, own)


def merged(own: Values, user: Values, app: Values) -> Values:
    """Return the state that a session shows: its own and that of its user and application."""
    state = dict(own)
    state.update({State.APP_PREFIX + key: value for key, value in app.items()})
    state.update({State.USER_PREFIX + key: value for key, value in user.items()})
    return state


def new_note_name() -> str:
    return UNMERGED + uuid.uuid4().hex


def noted(name: str, deltas: Deltas) -> Iterable[Write]:
    """Return the note, stored with the event, of the changes for user and application."""
    if deltas.app or deltas.user:
        yield Put(name, encode({"app": deltas.app, "user": deltas.user}, "the state"))


def notes_in(fetched: Fetched) -> list[Note]:
    documents = fetched.documents.items()
    return [Note.of(name, value) for name, value in documents if name.startswith(UNMERGED)]


def document_at(fetched: Fetched, name: str) -> DocumentAt:
    value = fetched.documents.get(name)
    return DocumentAt(name, 0) if value is None else DocumentAt(name, value.version, value.stamp)


def value_of(outcome: Any, name: str) -> Values:
    assert isinstance(outcome, Fetched)
    value = outcome.documents.get(name)
    return {} if value is None else decode(value.json)
