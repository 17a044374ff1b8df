"""Event-sourced logs: state changes are appended, and the state is what they fold to.

Also the shared channel on which agents publish what they did: nobody overwrites anybody.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from holdfast.codec import check_id, decode, decode_lines, encode, encode_messages
from holdfast.errors import InvalidInput, Truncated
from holdfast.ops import (
    Append,
    Check,
    Conflict,
    DocumentAt,
    Drop,
    Duplicate,
    Fetch,
    Fetched,
    Log,
    LogAt,
    Put,
    Trim,
)
from holdfast.records import Appended, Change, Cursor, Folded, moment
from holdfast.state.feeds import entries_after
from holdfast.state.scope import Scope, refuse, stored

Event = dict[str, Any]
Reducer = Callable[[Any, Event], Any]
Place = int | str | Cursor


class Journal:
    """One log of events. Every failed write raises."""

    def __init__(self, scope: Scope, id: str, user: str | None, retain: float | None) -> None:
        self._scope = scope
        self._entity = scope.entity("journal", id)
        self._user = None if user is None else check_id(user, "a user")
        self._retain = retain

    @property
    def id(self) -> str:
        return self._entity.id

    async def append(
        self, *events: Event, key: str | None = None, expect: Place | None = None
    ) -> Appended:
        """Publish events, adjacent and in this order, all or none.

        `key` makes a repeated delivery harmless; `expect` is the version the decision was made
        on, and raises `StateConflictError` if somebody else was faster.
        """
        if key is not None:
            check_id(key, "a key")
        checks: tuple[Check, ...] = ()
        if expect is not None:
            place = Cursor.of(expect)
            checks = (LogAt(place.version, place.stamp),)
        bodies = encode_messages(events, self._scope.limits)
        outcome = await self._scope.commit(
            self._entity, (Append(bodies, key),), checks, owner=self._user, retain=self._retain
        )
        applied = stored(outcome, self._entity)
        again = isinstance(outcome, Duplicate) and not outcome.own
        cursor = Cursor(applied.version, applied.stamp)
        return Appended("duplicate" if again else "stored", applied.version, cursor)

    async def fold(
        self, reducer: Reducer, initial: Any = None, *, name: str = "default", version: int = 1
    ) -> Folded:
        """The state that all events fold to: `state = reducer(state, event)` from `initial` on.

        Starts from the snapshot of the same `name` and reducer `version`, if there is one. Change
        `version` when the reducer's meaning changes: older snapshots are then left aside.
        """
        start = await self._snapshot(name, version)
        state = initial if start is None else start.state
        place = Cursor(0) if start is None else start.cursor
        folded = 0
        while True:
            page = Log(place.version, first=self._scope.capabilities.page, stamp=place.stamp)
            fetched = await self._scope.fetch(Fetch(self._entity, self._user, page))
            if fetched.reset:  # the snapshot is of a history that is gone
                state, place, folded = initial, Cursor(0), 0
                continue
            if fetched.truncated:
                raise Truncated(
                    f"the journal {self.id!r} was trimmed up to {fetched.head.base}, and there is "
                    f"no snapshot {name!r} of reducer version {version} to start from",
                    base=fetched.head.base,
                )
            for event in decode_lines(fetched.lines) if fetched.count else []:
                state = reducer(state, event)
            folded += fetched.count
            if fetched.count < self._scope.capabilities.page:
                head = fetched.head
                cursor = Cursor(head.version, head.stamp or None)
                return Folded(state, head.version, cursor, folded)
            place = self._after(fetched, place)

    async def snapshot(
        self, reducer: Reducer, initial: Any = None, *, name: str = "default", version: int = 1
    ) -> Folded:
        """Fold, and keep the result, so that the next fold starts from here."""
        folded = await self.fold(reducer, initial, name=name, version=version)
        document = _snapshot_name(name)
        fetched = await self._scope.fetch(Fetch(self._entity, self._user, documents=(document,)))
        old = fetched.documents.get(document)
        record = {
            "reducer": version,
            "version": folded.version,
            "stamp": folded.cursor.stamp,
            "state": folded.state,
        }
        outcome = await self._scope.commit(
            self._entity,
            (Put(document, encode(record, "the state of the fold")),),
            (DocumentAt(document, old.version, old.stamp) if old else DocumentAt(document, 0),),
            owner=self._user,
            retain=self._retain,
        )
        if not isinstance(outcome, Conflict):  # else somebody made a snapshot just now: fine too
            stored(outcome, self._entity)
        return folded

    async def trim(self, upto: Place) -> None:
        """Remove the events up to a version. Make a snapshot first; a slower reader is told."""
        outcome = await self._scope.commit(
            self._entity, (Trim(Cursor.of(upto).version),), owner=self._user, retain=self._retain
        )
        stored(outcome, self._entity)

    async def delete(self) -> None:
        """Remove the journal with its snapshots; nothing happens if there is none."""
        stored(await self._scope.commit(self._entity, (Drop(),), owner=self._user), self._entity)

    async def changes(self, after: Place = 0, *, follow: bool = True) -> AsyncIterator[Change]:
        """Every event after a place, in order, once, and then what comes; see `Thread.changes`."""
        place = Cursor.of(after)
        feed = entries_after(self._scope, self._entity, self._user, place, follow=follow)
        async for entry in feed:
            cursor = Cursor(entry.seq, entry.stamp)
            yield Change(decode(entry.body), entry.seq, cursor, moment(entry.at), entry.key)

    async def _snapshot(self, name: str, version: int) -> Folded | None:
        document = _snapshot_name(name)
        outcome = (
            await self._scope.execute((Fetch(self._entity, self._user, documents=(document,)),))
        )[0]
        if not isinstance(outcome, Fetched):
            refuse(outcome, self._entity)
        if document not in outcome.documents:
            return None
        record = decode(outcome.documents[document].json)
        if record["reducer"] != version:
            return None
        cursor = Cursor(record["version"], record["stamp"])
        return Folded(record["state"], record["version"], cursor, 0)

    def _after(self, fetched: Fetched, place: Cursor) -> Cursor:
        """The end of a page. Numbers may have gaps only where entries were removed."""
        return Cursor(max(fetched.first + fetched.count - 1, place.version + 1))


def _snapshot_name(name: str) -> str:
    if type(name) is not str or not name:
        raise InvalidInput(f"the name of a snapshot is a string, not {name!r}")
    return check_id(f"snapshot:{name}", "the name of a snapshot")
