"""An entity with its owner: the commits and fetches of every kind of state and every adapter."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from math import inf, nextafter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import as_message, encode_messages
from stateward.errors import StoreUnavailable
from stateward.kinds import ERASED, THREAD, erasure_of
from stateward.layers.outage.answers import Suppressed
from stateward.layers.outage.edits import EDITS, edited
from stateward.layers.redelivery import duplicate_of, log_of
from stateward.observe.counters import count_context_break
from stateward.ops import (
    Append,
    Applied,
    Check,
    Commit,
    CommitsAt,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Fenced,
    Fetch,
    Fetched,
    Head,
    Held,
    KeyReused,
    Log,
    LogAt,
    NotDroppedSince,
    Outcome,
    Replace,
    SetHead,
    Write,
)
from stateward.state.conversation_life import Life
from stateward.state.head_writes import with_one_head
from stateward.state.receipts import note_of
from stateward.state.refusals import applied_in_part, deleted, refuse, stored
from stateward.state.scope import Scope

PINNED = "pinned"  # the document of a thread that is kept regardless of `retain`
UNPINNED = DocumentAt(PINNED, 0)
NOTHING: tuple[None, None] = (None, None)  # the note of an append without `saw`, and its life
DERIVED = "derived"  # the document that an adapter derives from a thread's messages

logger = logging.getLogger("stateward.threads")


class Handle(Struct, frozen=True):
    """An entity with its owner and how long it is kept. Creating a handle does no I/O."""

    scope: Scope
    entity: Entity
    owner: str | None = None
    retain: float | None = None
    sets_retain: bool = False  # explicit: appends set it on an existing entity that is not pinned

    async def commit(
        self,
        writes: tuple[Write, ...],
        checks: tuple[Check, ...] = (),
        *,
        reading: tuple[str, ...] = (),
        op: str | None = None,
    ) -> Outcome:
        """Commit, with a new op by default; return the engine's outcome.

        A commit that rewrites messages changes the label, so that every replica sees it in the
        head, and deletes the document derived from the messages, which may contain removed text.
        """
        scope = self.scope
        op = op or scope.world.new_op()
        if type(writes[0]) is Replace:
            writes = with_one_head((*writes, Delete(DERIVED), SetHead(label=op)))
        commit = Commit(self.entity, op, writes, checks, self.owner, self.retain, reading)
        outcome = (await scope.execute((commit,)))[0]
        if scope.listener is not None and type(outcome) in (Applied, Duplicate):
            tell_of(scope, self.entity, writes[0])
        return outcome

    async def commit_if(self, checks: tuple[Check, ...], *writes: Write) -> bool:
        """Commit if the checks hold; return whether they did. Raises for any other refusal."""
        outcome = await self.commit(writes, checks)
        if isinstance(outcome, Conflict):
            return False
        stored(outcome, self.entity)
        return True

    async def fetch(
        self,
        log: Log | None = None,
        documents: tuple[str, ...] = (),
        *,
        all_documents: bool = False,
    ) -> Fetched:
        """Fetch parts of the entity as of one moment; raises for an entity of another user."""
        fetch = Fetch(self.entity, self.owner, log, documents, all_documents)
        outcome = (await self.scope.execute((fetch,)))[0]
        if type(outcome) is not Fetched:
            refuse(outcome, self.entity)
        return outcome

    async def pages(self, after: int = 0, upto: int | None = None) -> AsyncIterator[Fetched]:
        """Yield the log with its details, page by page, up to its end at the first read."""
        page = self.scope.capabilities.page
        while True:
            fetched = await self.fetch(Log(after, upto, first=page, details=True))
            yield fetched
            if len(fetched.entries) < page:
                return
            after = fetched.entries[-1].seq
            upto = fetched.head.version if upto is None else upto

    @property
    def retention(self) -> SetHead:
        """The write that sets how long the entity is kept."""
        return SetHead(retain=self.retain or 0.0)

    def encoded(self, messages: Sequence[Any]) -> tuple[str, ...]:
        """Return messages as they are stored: redacted, and as JSON text."""
        if self.scope.redact is not None:
            messages = self.redacted(messages)
        return encode_messages(messages, self.scope.limits)

    def redacted(self, messages: Sequence[Any]) -> tuple[dict[str, Any], ...]:
        """Return messages as dicts, redacted if the store has a `redact` function."""
        plain = map(as_message, messages)
        return tuple(plain if self.scope.redact is None else map(self.scope.redact, plain))

    async def append(
        self,
        messages: Sequence[Any],
        key: str | None = None,
        checks: tuple[Check, ...] = (),
        writes: tuple[Write, ...] = (),
        *,
        keep: bool,
        takes_first: bool = False,
        saw: Any = None,
        life: Life | None = None,
    ) -> Outcome | Suppressed:
        """Append messages: redact, encode and commit them, then notify the listener.

        With `keep`, messages that the store cannot take are spilled to this machine if the policy
        permits, whatever the checks: then the outcome is `Spilled`, or `Dropped`. A caller with
        `takes_first` accepts what was stored first under the key, has redacted its messages itself,
        and gets `KeyReused` unchanged. `saw` is its context, whose receipt is stored with them.
        Messages that were begun in another `life` of the conversation, by default that of `saw`,
        are refused with `ConversationDeletedError`.
        """
        if self.sets_retain:
            sets, checked = with_one_head((*writes, self.retention)), (*checks, UNPINNED)
            plain = replace(self, sets_retain=False)
            outcome = await plain.append(
                messages, key, checked, sets, keep=keep, takes_first=takes_first, saw=saw, life=life
            )
            if type(outcome) is not Conflict or outcome.failed != UNPINNED:
                return outcome
            life = life or self.life(outcome.head)
        scope = self.scope
        if scope.redact is not None and not takes_first:
            messages = self.redacted(messages)
        note, seen_in = NOTHING if saw is None else note_of(saw, self.entity, self.owner)
        life = life or seen_in
        added = Append(encode_messages(messages, scope.limits), key, takes_first, note)
        if life is not None:  # `life.check`, without a call
            checks = (NotDroppedSince(nextafter(life.dropped, inf)), *checks)
        commit = Commit(
            self.entity, scope.world.new_op(), (added, *writes), checks, self.owner, self.retain
        )
        outcome = (await (scope.append if keep else scope.execute)((commit,)))[0]
        if key is not None and type(outcome) is KeyReused and not takes_first:
            outcome = await self.same_messages(outcome, added)
        if life and (type(outcome) is not Applied or life.may_be_over(outcome, len(messages))):
            await self.check_life(life, outcome, len(messages), acknowledge=keep)
        if scope.listener is not None:
            if type(outcome) is Applied:
                self.tell(messages, outcome.version)
            elif type(outcome) is Duplicate and outcome.own:
                self.tell(messages, outcome.first.version)
        return outcome

    def life(self, head: Head) -> Life | None:
        """Return the life of a conversation that was just read; None for any other entity."""
        if self.entity.kind != THREAD:
            return None
        return Life.of(head, self.scope.world.monotonic())

    async def check_life(
        self,
        life: Life,
        outcome: Outcome | Suppressed,
        messages: int = 0,
        *,
        acknowledge: bool = False,
    ) -> None:
        """Raise `ConversationDeletedError` if the conversation's life is over.

        A commit of so many messages that is in a new life, because the old one expired, is taken
        back; so is one of a user who was erased before there was a conversation. If the store fails
        meanwhile, raises `StoreUnavailable`, unless what is stored is to be acknowledged.
        """
        if isinstance(outcome, Conflict | Fenced | Held) and life.is_over(outcome.head):
            raise deleted(self.entity)
        if type(outcome) is Duplicate and outcome.own:
            outcome = outcome.first
        if type(outcome) is not Applied or not life.may_be_over(outcome, messages):
            return
        with applied_in_part():
            try:
                if not await self._was_over(life, outcome, messages):
                    return
            except StoreUnavailable:
                if acknowledge:
                    return
                raise
            await self._take_back(outcome, messages)
        raise deleted(self.entity)

    async def _take_back(self, outcome: Applied, messages: int) -> None:
        """Remove what was stored too late."""
        unchanged = (LogAt(outcome.version, outcome.stamp or None),)
        if not outcome.created or not await self.commit_if(unchanged, Drop()):
            await self._remove(outcome, messages)

    async def _remove(self, appended: Applied, messages: int) -> None:
        """Remove messages that were just appended, from a conversation others write to as well."""
        own: dict[int, str | None] = dict.fromkeys(
            range(appended.version - messages + 1, appended.version + 1)
        )
        while own:
            fetched = await self.fetch(documents=(EDITS,))
            head = fetched.head
            noted = edited(fetched.documents.get(EDITS), head, own)
            if not head.exists or head.dropped >= appended.at:
                return
            if await self.commit_if((CommitsAt(head.commits),), Replace(own), noted):
                return

    async def _was_over(self, life: Life, outcome: Applied, messages: int) -> bool:
        """Return whether the life that was read was over when this was stored.

        In doubt, what was erased stays erased. A document is no answer to what was read.
        """
        scope = self.scope
        if life.existed:
            return outcome.created or (messages > 0 and life.is_over((await self.fetch()).head))
        if not self.owner:
            return False
        read = outcome.at - (scope.world.monotonic() - life.read)
        mark = Fetch(erasure_of(scope.namespace, self.owner), documents=(ERASED,))
        erased = (await scope.fetch(mark)).documents.get(ERASED)
        return erased is not None and erased.updated >= read

    async def same_messages(self, refused: KeyReused, append: Append) -> Outcome:
        """Return `Duplicate` if the key was used for equal messages with names in another order."""
        fetched = await self.fetch(log_of(refused, append))
        return duplicate_of(refused, append, fetched) or refused

    def tell(self, messages: Sequence[Any], version: int) -> None:
        """Notify the listener, and count the repeats that it returns as context breaks."""
        listener, (namespace, _, thread) = self.scope.listener, self.entity
        if listener is None:
            return
        try:
            user = self.owner or None
            plain = tuple(map(as_message, messages))
            repeats = listener.appended(namespace, thread, user, plain, version)
            for repeat in repeats if isinstance(repeats, list) else ():
                count_context_break(self.scope.counters, str(getattr(repeat, "kind", "other")))
                self.scope.stack.tenants.count(namespace, "context_break")
                self.scope.stack.concerned.note("context_breaks", self.entity)
        except Exception as error:
            _listener_failed(self.entity, error)


def tell_of(scope: Scope, entity: Entity, write: Write) -> None:
    """Notify the listener that a conversation was rewritten or deleted."""
    if scope.listener is None or entity.kind != THREAD:
        return
    try:
        if type(write) is Drop:
            scope.listener.deleted(entity.namespace, entity.id)
        elif type(write) is Replace:
            scope.listener.edited(entity.namespace, entity.id)
    except Exception as error:
        _listener_failed(entity, error)


def tell_of_erasure(scope: Scope, user: str) -> None:
    """Notify the listener that a user was erased."""
    if scope.listener is not None:
        try:
            scope.listener.erased(scope.namespace, user)
        except Exception as error:
            _listener_failed(erasure_of(scope.namespace, user), error)


def _listener_failed(entity: Entity, error: Exception) -> None:
    """Log the failure and continue: the change is stored already."""
    logger.error("listener_failed", extra={"thread_id": entity.id, "error": type(error).__name__})
