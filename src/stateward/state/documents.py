"""One named JSON document of an entity: read, replaced, changed safely, patched, removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any, Generic, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import (
    MOST,
    Json,
    check_count,
    check_id,
    check_span,
    check_time,
    decode,
    encode_document,
    shown,
    to_json,
    to_type,
)
from stateward.errors import InvalidInput, LeaseHeld, StateConflictError
from stateward.layers.outage.answers import Suppressed
from stateward.ops import (
    Append,
    Applied,
    Check,
    Conflict,
    Delete,
    DocumentAt,
    Fence,
    Fenced,
    Held,
    Lease,
    NotDroppedSince,
    Outcome,
    Put,
    Release,
    Unheld,
    Value,
    Write,
)
from stateward.records import Document, DocumentVersion, T
from stateward.state.calls import awaited
from stateward.state.handle import Handle
from stateward.state.merge_patch import merge_patch, with_unknown
from stateward.state.past import Known, Past, check_version, record
from stateward.state.refusals import refuse, stored

Merge = Callable[[T, T, T], T]

FIRST_PAUSE = 0.002  # doubles with every conflict; the real pause is a random part of it
LONGEST_PAUSE = 0.05
UNTIL_TURN = 4  # conflicts after which the others have to wait for us
TURN = 2.0  # seconds such a turn lasts at most, should its holder die


class Again(Struct, frozen=True):
    """How to go on after a conflict."""

    change: Callable[[Json], Any]
    merge: Merge[Json] | None
    retries: int
    within: float


class DocumentHandle(Generic[T]):
    """One document, which need not exist. Creating a handle does no I/O.

    With a `type` (a dataclass, a TypedDict, a msgspec struct or a Pydantic model) it is read and
    written as an object of that type; what does not fit raises `InvalidInput`.
    """

    def __init__(
        self,
        handle: Handle,
        name: str,
        type: type[T] | None = None,
        *,
        permanent: bool = False,
    ) -> None:
        self._handle = handle
        self._scope = handle.scope
        self._entity = handle.entity
        self._name = check_id(name, "the name of a document")
        self._type = type
        # Only where the entity's lease and log have no other use.
        self._takes_turns = self._is_permanent = permanent
        self._remembers = permanent and self._scope.keep.versions > 0

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
        _, known = await self._at_or_numbered(at, version)
        return self._typed(known.document())

    async def history(self, *, limit: int | None = None) -> AsyncIterator[DocumentVersion[T]]:
        """Yield the versions of the document, newest first, as far back as they are kept."""
        most = None if limit is None else check_count(limit, "limit")
        past = await self._past(lambda past: most is not None and len(past.versions) > most)
        for known in past.numbered()[:most]:
            listed = known.listed()
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
            known = past.previous()
        else:
            past, known = await self._at_or_numbered(at, to)
        op = self._scope.world.new_op()
        base = document_at(self._name, past.value)
        # What was read in an earlier life was erased, and must not come back.
        checks = (NotDroppedSince(past.newest), base)
        outcome = await self._handle.commit(self._writes(known.json, base), checks, op=op)
        found = self._written(op, outcome, known.value)
        await self._prune(outcome)
        return self._typed(found if known.json is not None else Document({}))

    async def _at_or_numbered(
        self, at: datetime | float | None, version: int | None
    ) -> tuple[Past, Known]:
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

    def _side(self, given: int | Document[T] | None, past: Past | None) -> Json:
        """One side of a difference, as plain JSON."""
        if isinstance(given, Document):
            return self._plain(given.value)
        assert past is not None
        return document(past.value).value if given is None else past.version(given).value

    def _writes(self, text: str | None, base: DocumentAt | None = None) -> tuple[Write, ...]:
        """A new value, or None to remove it; and its record, where a history is kept."""
        write = Delete(self._name) if text is None else Put(self._name, text)
        if not self._remembers:
            return (write,)
        if base is None:
            return (write, Append((record(self._name, text),)))
        version = None if text is None else base.version + 1
        return (write, Append((record(self._name, text, version, base.stamp),)))

    def _encoded(self, value: Json) -> str:
        return encode_document(value, self._scope.limits)

    async def _prune(self, outcome: Outcome) -> None:
        """Look now and then for what the history need not hold any longer."""
        if not self._remembers or not isinstance(outcome, Applied):
            return
        if self._scope.prunings.due(self._entity, outcome.version):
            from stateward.state.history import prune

            await prune(self._handle, self._scope.keep, outcome)

    async def _look(self) -> tuple[Document, int]:
        """The document, and the life of what it belongs to."""
        fetched = await self._handle.fetch(documents=(self._name,))
        return document(fetched.documents.get(self._name)), fetched.head.life

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
        changed = await self._update(self._plain_change(change), merge, retries, within)
        return self._typed(changed)

    async def _update(
        self,
        change: Callable[[Json], Any],
        conflict: Literal["retry", "raise"] | Merge[Json],
        retries: int,
        within: float,
    ) -> Document:
        if type(retries) is not int or not 0 <= retries <= MOST:
            raise InvalidInput(f"retries is a whole number of at least 0, not {shown(retries)}")
        check_span(within, "within")
        base, life = await self._look()
        # Only a merge asks later what the document was before.
        value = deepcopy(base.value) if callable(conflict) else base.value
        mine = await self._changed(change, value)
        outcome = await self._swap(base, mine, None)
        if isinstance(outcome, Document):
            return outcome
        if conflict == "raise" and isinstance(outcome, Conflict):
            refuse(outcome, self._entity)
        again = Again(change, conflict if callable(conflict) else None, retries, within)
        async with self._scope.queue(self._entity, self._name):
            return await self._insist(again, base, mine, life)

    async def _insist(self, again: Again, base: Document, mine: Json, life: int) -> Document:
        """Try until it succeeds; who has lost too often takes a turn that the others wait for.

        What was read in an earlier life is not merged: it was deleted, or its user erased.
        """
        world = self._scope.world
        end = world.monotonic() + again.within
        longest = FIRST_PAUSE
        turn: Lease | None = None
        tries = 1
        try:
            while True:
                if turn is None and self._takes_turns and tries > UNTIL_TURN:
                    turn = await self._take_turn(end)
                self._scope.counters.update_retries += 1
                theirs, now = await self._look()
                if again.merge is not None and (now == life or not base.exists):
                    mine = again.merge(deepcopy(base.value), mine, deepcopy(theirs.value))
                else:
                    mine = await self._changed(again.change, theirs.value)
                base, life = theirs, now
                outcome = await self._swap(base, mine, turn)
                if isinstance(outcome, Document):
                    turn = None  # given back together with the write
                    return outcome
                if isinstance(outcome, Fenced):
                    turn = None  # it took too long, and another has the turn
                tries += 1
                if tries > again.retries and world.monotonic() >= end:
                    raise self._conflict(tries, again.within, base.version)
                await world.pause(longest * world.random())
                longest = min(longest * 2, LONGEST_PAUSE)
        finally:
            if turn is not None:
                await self._handle.commit((Release(turn.token, turn.nonce),))

    async def _take_turn(self, end: float) -> Lease | None:
        """Until it is used or its time is up, updates by others wait. None: not to be had."""
        wait = max(0.0, end - self._scope.world.monotonic())
        try:
            lease, _ = await self._scope.leases.acquire(
                self._entity,
                ttl=TURN,
                wait=wait,
                owner=self._handle.owner,
                retain=self._handle.retain,
            )
        except LeaseHeld:
            return None
        return lease

    async def _swap(
        self, base: Document, value: Json, turn: Lease | None
    ) -> Document | Conflict | Held | Fenced:
        """Put `value` if the document still is `base` and it is nobody else's turn."""
        op = self._scope.world.new_op()
        at = DocumentAt(self._name, base.version, base.stamp)
        writes = self._writes(self._encoded(value), at)
        checks: tuple[Check, ...] = (at,)
        if turn is not None:
            writes = (*writes, Release(turn.token, turn.nonce))
            checks = (Fence(turn.token, turn.nonce), *checks)
        elif self._takes_turns:
            checks = (Unheld(), *checks)
        outcome = await self._handle.commit(writes, checks, op=op)
        if isinstance(outcome, Conflict | Held | Fenced):
            return outcome
        written = self._written(op, outcome, value)
        await self._prune(outcome)
        return written

    def _conflict(self, tries: int, within: float, version: int) -> StateConflictError:
        return StateConflictError(
            f"the document {self._name!r} of the {self._entity.kind} {self._entity.id!r} was "
            f"changed by others at each of {tries} tries within {within:g} s; it was at version "
            f"{version} last. Give it more time (within=), or have fewer writers",
            expected=version,
            current=version + 1,
        )

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
                to_type(new, self._type, f"the document {self._name!r}")
            return new

        return self._typed(await self._update(patched, conflict, retries, within))

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

    def _written(self, op: str, outcome: Outcome, value: Json) -> Document:
        applied = stored(outcome, self._entity)
        # Of a put whose entity was dropped before it was asked for again no version is known.
        return Document(value, applied.documents.get(self._name, 0), op, applied.at)

    def _at(self, expect: int | Document[T]) -> DocumentAt:
        if isinstance(expect, Document):
            return DocumentAt(self._name, expect.version, expect.stamp)
        if type(expect) is not int or not 0 <= expect <= MOST:
            raise InvalidInput(
                f"expect is a version (0 for missing) or a Document, not {shown(expect)}"
            )
        return DocumentAt(self._name, expect)

    def _typed(self, found: Document) -> Document[T]:
        if self._type is None:
            return cast("Document[T]", found)
        value = self._of_type(found.value)
        return Document(value, found.version, found.stamp, found.updated)

    def _of_type(self, value: Json) -> T:
        assert self._type is not None
        return to_type(value, self._type, f"the document {self._name!r}")

    def _plain(self, value: T) -> Json:
        if self._type is None:
            return cast("Json", value)
        return to_json(value, self._type, f"the document {self._name!r}")

    def _plain_change(self, change: Callable[[T], Any]) -> Callable[[Json], Any]:
        """The same change of the JSON object; what the type does not know stays as it is."""
        if self._type is None:
            return cast("Callable[[Json], Any]", change)

        async def changed(value: Json) -> Json:
            given = self._of_type(value)
            known = self._plain(given)
            result = await awaited(change(given))
            return with_unknown(value, known, self._plain(given if result is None else result))

        return changed

    def _plain_merge(self, merge: Merge[T]) -> Merge[Json]:
        if self._type is None:
            return cast("Merge[Json]", merge)

        def merged(base: Json, mine: Json, theirs: Json) -> Json:
            given = self._of_type(theirs)
            known = self._plain(given)
            new = merge(self._of_type(base), self._of_type(mine), given)
            return with_unknown(theirs, known, self._plain(new))

        return merged

    async def _changed(self, change: Callable[[Json], Any], value: Json) -> Json:
        result = await awaited(change(value))
        return value if result is None else result


async def append_patching(
    handle: Handle,
    messages: Sequence[Any],
    key: str | None,
    checks: tuple[Check, ...],
    patch: tuple[str, Mapping[str, Any]],
    saw: Any = None,
) -> Outcome | Suppressed:
    """Append messages and merge a patch into a document, in one commit.

    If another writer changes the document first, both are retried on what is there by then.
    """
    name, changes = patch
    check_patch(changes)
    world, longest = handle.scope.world, FIRST_PAUSE
    while True:
        before = (await handle.fetch(documents=(name,))).documents.get(name)
        value = merge_patch(document(before).value, changes)
        put = Put(name, encode_document(value, handle.scope.limits))
        at = document_at(name, before)
        outcome = await handle.append(messages, key, (*checks, at), (put,), keep=False, saw=saw)
        if not isinstance(outcome, Conflict) or outcome.failed != at:
            return outcome
        await world.pause(longest * world.random())
        longest = min(longest * 2, LONGEST_PAUSE)


def document_at(name: str, value: Value | None) -> DocumentAt:
    """The check that a document is still what was read."""
    return DocumentAt(name, 0) if value is None else DocumentAt(name, value.version, value.stamp)


def check_patch(patch: Any) -> None:
    if type(patch) is not dict:
        raise InvalidInput(f"a patch is a JSON object (a dict), not {type(patch).__name__}")


def document(value: Value | None) -> Document:
    """A stored value as a record."""
    if value is None:
        return Document({})
    return Document(decode(value.json), value.version, value.stamp, value.updated)
