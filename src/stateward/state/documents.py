"""One named JSON document of an entity: read, replaced, changed safely, patched, removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any, Generic, Literal, cast

from msgspec.structs import replace

from stateward.codec import MOST, Json, check_count, check_time, to_type
from stateward.errors import InvalidInput
from stateward.ops import NotDroppedSince
from stateward.records import Document, DocumentVersion, T
from stateward.state.calls import awaited
from stateward.state.handle import Handle
from stateward.state.json_document import JsonDocument, Merge, Update, check_patch
from stateward.state.merge_patch import merge_patch
from stateward.state.past import Past, PastState, check_version
from stateward.state.refusals import stored
from stateward.state.stored_document import document, document_at
from stateward.state.typed_value import dumped, to_json, updated


class DocumentHandle(JsonDocument, Generic[T]):
    """One document, which need not exist. Creating a handle does no I/O.

    With a `type` (a dataclass, a TypedDict, a msgspec struct or a Pydantic model) it is read and
    written as an object of that type; what does not fit raises `InvalidInput`.
    """

    def __init__(
        self, handle: Handle, name: str, type: type[T] | None = None, *, permanent: bool = False
    ) -> None:
        super().__init__(handle, name, permanent)
        self._type = type

    async def get(
        self, *, at: datetime | float | None = None, version: int | None = None
    ) -> Document[T]:
        """Read the document: as it is now, at a time, or in an earlier version.

        A missing document is `{}` with version 0. Times are those of the store's clock. Versions
        count from the document's creation: one that was removed and put again starts over. Raises
        `NotKept` for history that is not kept.
        """
        if at is None and version is None:
            fetched = await self._handle.fetch(documents=(self._name,))
            return self._typed(document(fetched.documents.get(self._name)))
        _, past_state = await self._past_state(at, version)
        return self._typed(past_state.document())

    async def history(self, *, limit: int | None = None) -> AsyncIterator[DocumentVersion[T]]:
        """Yield the versions of the document, newest first, as far back as they are kept."""
        most = None if limit is None else check_count(limit, "limit")
        past = await self._past(lambda past: most is not None and len(past.versions) > most)
        for version in past.numbered()[:most]:
            listed = version.listed()
            if self._type is not None and listed.value is not None:
                listed = replace(listed, value=self._of_type(listed.value))
            yield cast("DocumentVersion[T]", listed)

    async def diff(self, a: int | Document[T], b: int | Document[T] | None = None) -> list[Json]:
        """Return what changed from `a` to `b` (versions, or documents; None: the current one).

        A JSON patch (RFC 6902): a list of operations that turn `a` into `b`, each with what `was`
        there before. Empty if nothing changed.
        """
        from stateward.state.json_patch import difference

        versions = [
            check_version(each)
            for each in (a, b)
            if each is not None and type(each) is not Document
        ]
        past = None
        if versions or b is None:
            oldest = min(versions, default=MOST)
            past = await self._past(lambda past: past.has(oldest))
        return list(difference(self._side(a, past), self._side(b, past)))

    async def undo(
        self, *, to: int | None = None, at: datetime | float | None = None
    ) -> Document[T]:
        """Restore the document: to before its last change, to a version, or to a time.

        The result is a new version; if the document was missing then, it is removed. Raises
        `StateConflictError` if it is changed concurrently, and `NotKept` for history that is not
        kept.
        """
        if to is None and at is None:
            past = await self._past(lambda past: len(past.versions) > 1)
            restored = past.previous()
        else:
            past, restored = await self._past_state(at, to)
        if restored.json is None and past.value is None:
            return self._typed(Document({}))  # missing then as now, perhaps because it was erased
        op = self._scope.world.new_op()
        base = document_at(self._name, past.value)
        # Values of an earlier life were erased, and must not come back.
        checks = (NotDroppedSince(past.newest), base)
        outcome = await self._handle.commit(self._writes(restored.json, base), checks, op=op)
        written = self._written(op, outcome, restored.value)
        await self._prune(outcome)
        return self._typed(written if restored.json is not None else Document({}))

    async def _past_state(
        self, at: datetime | float | None, version: int | None
    ) -> tuple[Past, PastState]:
        if at is not None and version is not None:
            raise InvalidInput("give a version or a time, not both")
        if version is not None:
            number = check_version(version)
            past = await self._past(lambda past: past.has(number))
            return past, past.version(number)
        time = check_time(at, "at")
        past = await self._past(lambda past: past.reaches(time))
        return past, past.at(time)

    async def _past(self, enough: Callable[[Past], bool]) -> Past:
        if not self._is_permanent:
            raise InvalidInput(
                f"the {self._entity.kind}'s documents keep no history: only those of users do, and "
                "shared ones"
            )
        from stateward.state.history import read_past

        return await read_past(self._handle, self._name, enough)

    def _side(self, side: int | Document[T] | None, past: Past | None) -> Json:
        """Return one side of a difference as plain JSON."""
        if isinstance(side, Document):
            return self._plain(side.value)
        assert past is not None
        return document(past.value).value if side is None else past.version(side).value

    async def put(self, value: T, *, expect: int | Document[T] | None = None) -> Document[T]:
        """Replace the document, or, with `expect`, only if it is still at that version.

        Otherwise raises `StateConflictError`, and nothing is written.
        """
        checks = () if expect is None else (self._at(expect),)
        op = self._scope.world.new_op()
        plain = self._plain(value)
        writes = self._writes(self._encoded(plain), *checks)
        outcome = await self._handle.commit(writes, checks, op=op)
        written = self._written(op, outcome, plain)
        await self._prune(outcome)
        return self._typed(written)

    async def update(
        self,
        change: Callable[[T], Any],
        *,
        conflict: Literal["retry", "raise"] | Merge[T] = "retry",
        retries: int = 3,
        within: float = 2.0,
    ) -> Document[T]:
        """Change the document with a function of its current value, without losing other changes.

        `change` gets a copy and returns the new value, or changes the copy and returns None. After
        a concurrent change it runs again on the new value: at least `retries` times, and as often
        as fits into `within` seconds, after random, growing pauses; then raises
        `StateConflictError`. `conflict="raise"` raises immediately. A function `conflict(base,
        mine, theirs)` merges instead of running `change` again.
        """
        merge = self._plain_merge(conflict) if callable(conflict) else conflict
        update = Update(self._plain_change(change), merge, retries, within)
        return self._typed(await self._update(update))

    async def patch(
        self,
        patch: Json,
        *,
        conflict: Literal["retry", "raise"] | Merge[Json] = "retry",
        retries: int = 3,
        within: float = 2.0,
    ) -> Document[T]:
        """Apply a JSON merge patch (RFC 7396): objects merge, null removes, the rest replaces.

        Takes the options of `update` and is as safe.
        """
        check_patch(patch)

        def patched(value: Json) -> Json:
            new: Json = merge_patch(value, patch)
            if self._type is not None:
                self._of_type(new)
            return new

        return self._typed(await self._update(Update(patched, conflict, retries, within)))

    async def delete(
        self, *, expect: int | Document[T] | None = None, forget: bool = False
    ) -> None:
        """Remove the document. Does nothing if it is missing.

        Its history stays for as long as it is kept; with `forget`, it is removed immediately.
        """
        checks = () if expect is None else (self._at(expect),)
        if forget and self._is_permanent:
            from stateward.state.history import forget_document

            stored(await forget_document(self._handle, self._name, checks), self._entity)
            return
        outcome = await self._handle.commit(self._writes(None, *checks), checks)
        stored(outcome, self._entity)
        await self._prune(outcome)

    def _typed(self, plain: Document) -> Document[T]:
        if self._type is None:
            return cast("Document[T]", plain)
        return Document(self._of_type(plain.value), plain.version, plain.stamp, plain.updated)

    def _of_type(self, value: Json) -> T:
        assert self._type is not None
        return to_type(value, self._type, self._what)

    def _plain(self, value: T) -> Json:
        if self._type is None:
            return cast("Json", value)
        return to_json(value, self._type, self._what)

    @property
    def _what(self) -> str:
        return f"the document {self._name!r}"

    def _plain_change(self, change: Callable[[T], Any]) -> Callable[[Json], Any]:
        """Return the change as one of the JSON object; fields the type does not have are kept."""
        type, what = self._type, self._what
        if type is None:
            return cast("Callable[[Json], Any]", change)

        async def changed(value: Json) -> Json:
            typed = self._of_type(value)
            plain = dumped(typed, type, what)
            result = await awaited(change(typed))
            return updated(value, plain, typed if result is None else result, type, what)

        return changed

    def _plain_merge(self, merge: Merge[T]) -> Merge[Json]:
        type, what = self._type, self._what
        if type is None:
            return cast("Merge[Json]", merge)

        def merged(base: Json, mine: Json, theirs: Json) -> Json:
            typed = self._of_type(theirs)
            plain = dumped(typed, type, what)
            new = merge(self._of_type(base), self._of_type(mine), typed)
            return updated(theirs, plain, new, type, what)

        return merged
