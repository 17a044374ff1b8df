"""A document as plain JSON: its conditional writes, and the retries after concurrent changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

from msgspec import Struct

from stateward.codec import MOST, Json, check_id, check_span, encode_document, shown
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
    Head,
    Held,
    Lease,
    Outcome,
    Put,
    Release,
    Unheld,
    Write,
)
from stateward.records import Document, T
from stateward.state.calls import awaited
from stateward.state.conversation_life import Life
from stateward.state.document_record import record_body
from stateward.state.handle import Handle
from stateward.state.merge_patch import merge_patch
from stateward.state.receipts import life_of
from stateward.state.refusals import refuse, stored
from stateward.state.stored_document import document, document_at

Merge = Callable[[T, T, T], T]

FIRST_PAUSE = 0.002  # doubles with every conflict; the real pause is a random part of it
LONGEST_PAUSE = 0.05
UNTIL_TURN = 4  # conflicts after which an update makes the others wait for it
TURN = 2.0  # seconds such a turn lasts at most, should its holder die


class Update(Struct, frozen=True):
    """A change of a document by a function of its value, and what to do about conflicts."""

    change: Callable[[Json], Any]
    conflict: Literal["retry", "raise"] | Merge[Json]
    retries: int
    within: float

    @property
    def merge(self) -> Merge[Json] | None:
        return self.conflict if callable(self.conflict) else None

    async def changed(self, value: Json) -> Json:
        result = await awaited(self.change(value))
        return value if result is None else result


class JsonDocument:
    """One document of an entity, which need not exist."""

    def __init__(self, handle: Handle, name: str, permanent: bool) -> None:
        self._handle = handle
        self._scope = handle.scope
        self._entity = handle.entity
        self._name = check_id(name, "the name of a document")
        self._is_permanent = permanent  # its entity's lease and log have no other use
        self._remembers = permanent and self._scope.keep.versions > 0

    async def _read(self) -> tuple[Document, Head]:
        """Return the document, and the head of the entity it belongs to."""
        fetched = await self._handle.fetch(documents=(self._name,))
        return document(fetched.documents.get(self._name)), fetched.head

    def _encoded(self, value: Json) -> str:
        return encode_document(value, self._scope.limits)

    def _writes(self, text: str | None, base: DocumentAt | None = None) -> tuple[Write, ...]:
        """Return the write of a new value (None: its removal), with its record in a history."""
        write = Delete(self._name) if text is None else Put(self._name, text)
        if not self._remembers:
            return (write,)
        if base is None:
            return (write, Append((record_body(self._name, text),)))
        version = None if text is None else base.version + 1
        return (write, Append((record_body(self._name, text, version, base.stamp),)))

    def _written(self, op: str, outcome: Outcome, value: Json) -> Document:
        applied = stored(outcome, self._entity)
        # The version is unknown if the put is a repeated one and its entity was dropped meanwhile.
        return Document(value, applied.documents.get(self._name, 0), op, applied.at)

    async def _prune(self, outcome: Outcome) -> None:
        """Remove records that need not be kept any longer, once every so many writes."""
        if not self._remembers or not isinstance(outcome, Applied):
            return
        if self._scope.prunings.due(self._entity, outcome.version):
            from stateward.state.history import prune

            await prune(self._handle, self._scope.keep, outcome)

    def _at(self, expect: int | Document[Any]) -> DocumentAt:
        """Return the check that `expect` stands for."""
        if isinstance(expect, Document):
            return DocumentAt(self._name, expect.version, expect.stamp)
        if type(expect) is not int or not 0 <= expect <= MOST:
            raise InvalidInput(
                f"expect is a version (0 for missing) or a Document, not {shown(expect)}"
            )
        return DocumentAt(self._name, expect)

    async def _update(self, update: Update) -> Document:
        retries = update.retries
        if type(retries) is not int or not 0 <= retries <= MOST:
            raise InvalidInput(f"retries is a whole number of at least 0, not {shown(retries)}")
        check_span(update.within, "within")
        base, head = await self._read()
        life = self._handle.life(head)
        # Only a merge needs the value from before the change later.
        value = base.value if update.merge is None else deepcopy(base.value)
        mine = await update.changed(value)
        outcome = await self._swap(base, mine, None, life)
        if isinstance(outcome, Document):
            return outcome
        if update.conflict == "raise" and isinstance(outcome, Conflict):
            refuse(outcome, self._entity)
        async with self._scope.queue(self._entity, self._name):
            return await self._retry(update, base, mine, head.life, life)

    async def _retry(
        self, update: Update, base: Document, mine: Json, number: int, life: Life | None
    ) -> Document:
        """Retry an update until it succeeds; after many conflicts, take a turn all others wait for.

        Values that were read in an earlier life are not merged: they were deleted, or their user
        erased.
        """
        world = self._scope.world
        end = world.monotonic() + update.within
        longest = FIRST_PAUSE
        turn: Lease | None = None
        tries = 1
        try:
            while True:
                if turn is None and self._is_permanent and tries > UNTIL_TURN:
                    turn = await self._take_turn(end)
                self._scope.counters.update_retries += 1
                theirs, head = await self._read()
                if update.merge is not None and (head.life == number or not base.exists):
                    mine = update.merge(deepcopy(base.value), mine, deepcopy(theirs.value))
                else:
                    mine = await update.changed(theirs.value)
                base, number = theirs, head.life
                outcome = await self._swap(base, mine, turn, life)
                if isinstance(outcome, Document):
                    turn = None  # released together with the write
                    return outcome
                if isinstance(outcome, Fenced):
                    turn = None  # it took too long, and another writer has the turn
                tries += 1
                if tries > update.retries and world.monotonic() >= end:
                    raise self._conflict(tries, update.within, base.version)
                await world.pause(longest * world.random())
                longest = min(longest * 2, LONGEST_PAUSE)
        finally:
            if turn is not None:
                await self._handle.commit((Release(turn.token, turn.nonce),))

    async def _take_turn(self, end: float) -> Lease | None:
        """Make updates by others wait until this one is done; None if the lease is not granted."""
        wait = max(0.0, end - self._scope.world.monotonic())
        owner, retain = self._handle.owner, self._handle.retain
        try:
            lease, _ = await self._scope.leases.acquire(
                self._entity, ttl=TURN, wait=wait, owner=owner, retain=retain
            )
        except LeaseHeld:
            return None
        return lease

    async def _swap(
        self, base: Document, value: Json, turn: Lease | None, life: Life | None
    ) -> Document | Conflict | Held | Fenced:
        """Put `value` if the document still is `base` and no other writer has the turn."""
        op = self._scope.world.new_op()
        at = DocumentAt(self._name, base.version, base.stamp)
        writes = self._writes(self._encoded(value), at)
        checks: tuple[Check, ...] = (at,)
        if turn is not None:
            writes = (*writes, Release(turn.token, turn.nonce))
            checks = (Fence(turn.token, turn.nonce), *checks)
        elif self._is_permanent:
            checks = (Unheld(), *checks)
        if life is not None:
            checks = (life.check, *checks)
        outcome = await self._handle.commit(writes, checks, op=op)
        if life is not None:
            await self._handle.check_life(life, outcome)
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


async def append_patching(
    handle: Handle,
    messages: Sequence[Any],
    key: str | None,
    checks: tuple[Check, ...],
    patch: tuple[str, Mapping[str, Any]],
    saw: Any = None,
) -> Outcome | Suppressed:
    """Append messages and merge a patch into a document, in one commit.

    If another writer changes the document first, both are retried on its new value.
    """
    name, changes = patch
    check_patch(changes)
    world, longest = handle.scope.world, FIRST_PAUSE
    life = life_of(saw)
    while True:
        fetched = await handle.fetch(documents=(name,))
        before, life = fetched.documents.get(name), life or handle.life(fetched.head)
        value = merge_patch(document(before).value, changes)
        put = Put(name, encode_document(value, handle.scope.limits))
        at = document_at(name, before)
        guarded = (*checks, at)
        outcome = await handle.append(
            messages, key, guarded, (put,), keep=False, saw=saw, life=life
        )
        if not isinstance(outcome, Conflict) or outcome.failed != at:
            return outcome
        await world.pause(longest * world.random())
        longest = min(longest * 2, LONGEST_PAUSE)


def check_patch(patch: Any) -> None:
    if type(patch) is not dict:
        raise InvalidInput(f"a patch is a JSON object (a dict), not {type(patch).__name__}")
