"""Event-sourced logs: changes are appended, and a reducer folds them to the state.

Also a shared channel on which agents publish events without overwriting each other.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from copy import deepcopy
from typing import Any

from stateward.codec import Limits, check_id, decode, encode_messages, encode_value
from stateward.errors import InvalidInput, Reset, Truncated
from stateward.kinds import JOURNAL
from stateward.ops import Append, Check, Drop, Duplicate, KeyReused, LogAt, Put, Trim, Value
from stateward.records import Appended, Change, Cursor, Folded
from stateward.state.feeds import change_of, entries_after
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.scope import Scope
from stateward.state.stored_document import document_at

Event = dict[str, Any]
Reducer = Callable[[Any, Event], Any]
Position = int | str | Cursor


class Journal:
    """An append-only log of events. Every failed write raises."""

    def __init__(
        self,
        scope: Scope,
        id: str,
        owner: str | None,
        retain: float | None,
        *,
        sets_retain: bool = False,
    ) -> None:
        self.handle = Handle(scope, scope.entity(JOURNAL, id), owner, retain, sets_retain)

    @property
    def id(self) -> str:
        return self.handle.entity.id

    async def append(
        self, *events: Event, key: str | None = None, expect: Position | None = None
    ) -> Appended:
        """Publish events, adjacent and in this order, all or none.

        `key` is an idempotency key: a duplicate delivery is stored once. `expect` is the version
        that the decision was based on: raises `StateConflictError` if events were added since.
        """
        if key is not None:
            check_id(key, "a key")
        checks: tuple[Check, ...] = ()
        if expect is not None:
            at = Cursor.of(expect)
            checks = (LogAt(at.version, at.stamp),)
        bodies = encode_messages(events, self.handle.scope.limits)
        append = Append(bodies, key)
        retention = (self.handle.retention,) if self.handle.sets_retain else ()
        outcome = await self.handle.commit((append, *retention), checks)
        if type(outcome) is KeyReused:
            outcome = await self.handle.same_messages(outcome, append)
        applied = stored(outcome, self.handle.entity)
        repeated = isinstance(outcome, Duplicate) and not outcome.own
        cursor = Cursor(applied.version, applied.stamp)
        return Appended("duplicate" if repeated else "stored", applied.version, cursor)

    async def fold(
        self, reducer: Reducer, initial: Any = None, *, name: str = "default", version: int = 1
    ) -> Folded:
        """Return the state that all events fold to: `state = reducer(state, event)`.

        Starts from `initial`, or from the snapshot of the same `name` and reducer `version`, if
        there is one. Change `version` when the reducer's meaning changes: older snapshots are then
        ignored.
        """
        start = await self._snapshot(name, version)
        while True:
            at = Cursor(0) if start is None else start.cursor
            state = deepcopy(initial) if start is None else start.state
            events = 0
            try:
                async for entry in entries_after(self.handle, at, follow=False):
                    state = reducer(state, decode(entry.body))
                    at = Cursor(entry.seq, entry.stamp)
                    events += 1
            except Reset:  # deleted, or restored from a backup: start from the beginning
                start = None
            except Truncated as error:
                # A snapshot is taken before a trim, also before one during this fold.
                start = await self._snapshot(name, version)
                if start is None or start.version < error.base:
                    raise Truncated(
                        f"the journal {self.id!r} was trimmed up to {error.base}, and there is no "
                        f"snapshot {name!r} of reducer version {version} to start from",
                        base=error.base,
                    ) from error
            else:
                return Folded(state, at.version, at, events)

    async def snapshot(
        self, reducer: Reducer, initial: Any = None, *, name: str = "default", version: int = 1
    ) -> Folded:
        """Fold, and store the result, so that the next fold starts from here.

        When this returns, a snapshot of everything folded is stored: it is safe to trim up to it.
        """
        document = _snapshot_name(name, version)
        while True:
            previous = await self._stored_snapshot(document, initial)
            folded = await self.fold(reducer, initial, name=name, version=version)
            if folded.version == 0:
                return folded
            if previous is None:
                continue  # the journal was created just now
            if decode(previous.json)["version"] >= folded.version:
                return folded  # another caller has stored as much
            record = _snapshot_json(
                folded.version, folded.cursor.stamp, folded.state, self.handle.scope.limits
            )
            unchanged = (document_at(document, previous),)
            if await self.handle.commit_if(unchanged, Put(document, record)):
                return folded

    async def _stored_snapshot(self, document: str, initial: Any) -> Value | None:
        """Return the stored snapshot; if there is none, first store one of no events.

        The check of its version prevents a snapshot that was folded before the journal was deleted
        from restoring deleted events.
        """
        while True:
            fetched = await self.handle.fetch(documents=(document,))
            if not fetched.head.exists or document in fetched.documents:
                return fetched.documents.get(document)
            put = Put(document, _snapshot_json(0, None, initial, self.handle.scope.limits))
            await self.handle.commit_if((document_at(document, None),), put)

    async def trim(self, upto: Position) -> None:
        """Remove the events up to a version. Take a snapshot first.

        Readers that have not reached that version get `Truncated`.
        """
        outcome = await self.handle.commit((Trim(Cursor.of(upto).version),))
        stored(outcome, self.handle.entity)

    async def delete(self) -> None:
        """Remove the journal with its snapshots. Does nothing if it does not exist."""
        stored(await self.handle.commit((Drop(),)), self.handle.entity)

    async def changes(
        self, after: Position = 0, *, follow: bool = True
    ) -> AsyncGenerator[Change, None]:
        """Yield every event after a position, in order, once, and then new ones.

        See `Thread.changes`.
        """
        async for entry in entries_after(self.handle, Cursor.of(after), follow=follow):
            yield change_of(entry)

    async def _snapshot(self, name: str, version: int) -> Folded | None:
        document = _snapshot_name(name, version)
        fetched = await self.handle.fetch(documents=(document,))
        if document not in fetched.documents:
            return None
        record = decode(fetched.documents[document].json)
        if not record["version"]:
            return None  # the snapshot of no events: a fold has its own beginning
        cursor = Cursor(record["version"], record["stamp"])
        return Folded(record["state"], record["version"], cursor, 0)


def _snapshot_name(name: str, version: int) -> str:
    """Return the document of a snapshot: one for each version, as old and new code may coexist."""
    if type(name) is not str or not name:
        raise InvalidInput(f"the name of a snapshot is a string, not {name!r}")
    if type(version) is not int:
        raise InvalidInput(f"the version of a reducer is a number, not {version!r}")
    return check_id(f"snapshot:{version}:{name}", "the name of a snapshot")


def _snapshot_json(version: int, stamp: str | None, state: Any, limits: Limits) -> str:
    snapshot = {"version": version, "stamp": stamp, "state": state}
    return encode_value(snapshot, "the state of the fold", limits)
