"""One named JSON document of an entity: read, replaced, changed safely, patched, removed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

from holdfast.codec import check_id, decode, encode_document
from holdfast.errors import InvalidInput, StateConflictError
from holdfast.ops import (
    Check,
    Conflict,
    Delete,
    DocumentAt,
    Entity,
    Fetch,
    Outcome,
    Put,
    Value,
    Write,
)
from holdfast.records import Document
from holdfast.state.running import settle
from holdfast.state.scope import Scope, refuse, stored

Json = dict[str, Any]
Merge = Callable[[Json, Json, Json], Json]

FIRST_PAUSE = 0.002  # doubles with every conflict; the real pause is a random part of it
LONGEST_PAUSE = 0.1


class DocumentHandle:
    """A place where one document is or will be. Making a handle asks the store nothing."""

    def __init__(
        self,
        scope: Scope,
        entity: Entity,
        name: str,
        *,
        owner: str | None = None,
        retain: float | None = None,
    ) -> None:
        self._scope = scope
        self._entity = entity
        self._name = check_id(name, "the name of a document")
        self._owner = owner
        self._retain = retain

    async def get(self) -> Document:
        """The document as it is now; `{}` with version 0 if it is missing."""
        fetch = Fetch(self._entity, self._owner, documents=(self._name,))
        return document((await self._scope.fetch(fetch)).documents.get(self._name))

    async def put(self, value: Json, *, expect: int | Document | None = None) -> Document:
        """Replace the document, whatever it was, or only if it is still at `expect`.

        Raises `StateConflictError` if it is not; then nothing was written.
        """
        checks = () if expect is None else (self._at(expect),)
        op = self._scope.world.new_id()
        put = Put(self._name, encode_document(value, self._scope.limits))
        return self._written(op, await self._commit(op, put, checks), value)

    async def update(
        self,
        change: Callable[[Json], Any],
        *,
        conflict: Literal["retry", "raise"] | Merge = "retry",
        retries: int = 3,
        within: float = 2.0,
    ) -> Document:
        """Change the document by a function of what it is now; no other change gets lost.

        `change` gets a copy and returns the new value, or changes the copy and returns None.
        If somebody else was faster it runs again on what is there by then: at least `retries`
        times and as often as fits into `within` seconds, after random, growing pauses; then
        `StateConflictError`. `conflict="raise"` raises at once. A function `conflict(base, mine,
        theirs)` merges instead of running `change` again.
        """
        base = await self.get()
        mine = await self._changed(change, base.value)
        outcome = await self._swap(base, mine)
        if isinstance(outcome, Document):
            return outcome
        if conflict == "raise":
            refuse(outcome, self._entity)
        world = self._scope.world
        end = world.monotonic() + within
        longest = FIRST_PAUSE
        tries = 1
        async with self._scope.queue(self._entity, self._name):
            theirs = await self.get()  # those before us in the queue have changed it meanwhile
            while True:
                if callable(conflict):
                    mine = conflict(deepcopy(base.value), mine, deepcopy(theirs.value))
                else:
                    mine = await self._changed(change, theirs.value)
                base = theirs
                outcome = await self._swap(base, mine)
                if isinstance(outcome, Document):
                    return outcome
                theirs = document(outcome.values.get(self._name))
                tries += 1
                if tries > retries and world.monotonic() >= end:
                    raise StateConflictError(
                        f"the document {self._name!r} of the {self._entity.kind} "
                        f"{self._entity.id!r} was changed by others at each of {tries} tries "
                        f"within {within:g} s; it is at version {theirs.version} now. Give it more "
                        "time (within=), or have fewer writers",
                        expected=base.version,
                        current=theirs.version,
                    )
                await world.pause(longest * world.random())
                longest = min(longest * 2, LONGEST_PAUSE)

    async def _swap(self, base: Document, value: Json) -> Document | Conflict:
        """Put `value` if the document still is `base`; otherwise the conflict."""
        op = self._scope.world.new_id()
        outcome = await self._commit(
            op,
            Put(self._name, encode_document(value, self._scope.limits)),
            (DocumentAt(self._name, base.version, base.stamp),),
        )
        if isinstance(outcome, Conflict):
            return outcome
        return self._written(op, outcome, value)

    async def patch(self, patch: Json, **options: Any) -> Document:
        """Apply a JSON merge patch (RFC 7396): objects merge, null removes, the rest replaces.

        Takes the options of `update` and is as safe.
        """
        if type(patch) is not dict:
            raise InvalidInput(f"a patch is a JSON object (a dict), not {type(patch).__name__}")
        return await self.update(lambda value: merge_patch(value, patch), **options)

    async def delete(self, *, expect: int | Document | None = None) -> None:
        """Remove the document; nothing happens if it is missing."""
        checks = () if expect is None else (self._at(expect),)
        op = self._scope.world.new_id()
        stored(await self._commit(op, Delete(self._name), checks), self._entity)

    async def _commit(self, op: str, write: Write, checks: tuple[Check, ...]) -> Outcome:
        return await self._scope.commit(
            self._entity, (write,), checks, owner=self._owner, retain=self._retain, op=op
        )

    def _written(self, op: str, outcome: Outcome, value: Json) -> Document:
        applied = stored(outcome, self._entity)
        return Document(value, applied.documents[self._name], op, applied.at)

    def _at(self, expect: int | Document) -> DocumentAt:
        if isinstance(expect, Document):
            return DocumentAt(self._name, expect.version, expect.stamp)
        if type(expect) is not int or expect < 0:
            raise InvalidInput(f"expect is a version (0 for missing) or a Document, not {expect!r}")
        return DocumentAt(self._name, expect)

    async def _changed(self, change: Callable[[Json], Any], value: Json) -> Json:
        mine = deepcopy(value)
        result = await settle(change(mine))
        return mine if result is None else result


def document(value: Value | None) -> Document:
    """A stored value as a record."""
    if value is None:
        return Document({})
    return Document(decode(value.json), value.version, value.stamp, value.updated)


def merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), item)
    return merged
