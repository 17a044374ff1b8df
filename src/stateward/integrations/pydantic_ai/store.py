"""Pydantic AI's interface for stores of conversations, over Stateward's threads.

A thread's log is the history of its conversation. A branch that a conversation has left is a
document beside the log, and so is the record: usage, pending tools, revision. A fork is
its own thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from stateward.codec import Retention, encode
from stateward.context.compaction import SUMMARY
from stateward.integrations.adapter import OnAnyStore
from stateward.integrations.pydantic_ai.branches import (
    ENTRY,
    Kept,
    entry_id,
    kept_as,
    left_behind,
    line_to,
    linked,
)
from stateward.integrations.pydantic_ai.messages import as_given
from stateward.integrations.pydantic_ai.records import RECORD, RECORDS, record_of, unchanged
from stateward.integrations.recent import Recent
from stateward.kinds import FORK, THREAD
from stateward.layers.outage.edits import EDITS
from stateward.ops import (
    Append,
    Check,
    Conflict,
    Drop,
    Fetched,
    Head,
    List,
    Log,
    NotDroppedSince,
    NotYours,
    Put,
    Write,
)
from stateward.owner import UNSAID, Unsaid
from stateward.state.effects import drop_effects
from stateward.state.forks import RETAIN
from stateward.state.refusals import stored
from stateward.state.shared_message import FORKED_FROM

KNOWN = 10_000  # entries whose conversation is remembered


class StatewardConversationStore(OnAnyStore, ConversationStore):
    """Conversations of Pydantic AI, each a thread: `load`, `save`, `branch`, `fork`, `delete`.

    `scope` is the user whose a conversation is. A save is one commit: all of it is stored, or
    nothing. If another writer has added to the conversation since it was loaded, also through
    `StatewardConversation`, it raises `ConversationConflict`. A store that does not answer raises
    `StoreUnavailable`; nothing is kept locally. `delete` removes all messages of a conversation;
    forks of it have their own copies.
    """

    def __init__(self, store: Any, *, retain: Retention | Unsaid = UNSAID) -> None:
        super().__init__(store)
        self._retain = retain
        self._known: Recent[str, str] = Recent(KNOWN)  # entry → the conversation that has it

    def _thread(self, id: str, scope: str | None = None) -> Any:
        user: Any = UNSAID if scope is None else scope
        return self._store.thread(id, user=user, retain=self._retain)

    # --- records --------------------------------------------------------------------

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record of a conversation, or None. A missing one is made from the messages."""
        return self._record(conversation_id, await self._fetch(conversation_id))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return records, newest first, of one user or of all."""
        records: list[ConversationRecord] = []
        threads = self._thread("any").handle.scope
        recent = List(threads.namespace, THREAD, scope, recent=True, documents=(RECORD,))
        async for page in self._each(threads.pages(recent)):
            for each in page.entities:
                value, id = each.documents.get(RECORD), each.entity.id
                if value is not None and value.log == each.head.version:
                    records.append(self._of(id, RECORDS.validate_json(value.json), each.head))
                elif (record := await self.read_record(id)) is not None:
                    records.append(record)
            if limit is not None and len(records) >= limit:
                break
        records.sort(key=lambda record: record.updated_at, reverse=True)
        return records[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record with what its history adds, in one commit, or `ConversationConflict`."""
        id = record.conversation_id
        fetched = await self._fetch(id)
        before = self._checked(id, fetched, expected_revision)
        keep = new_entries[0].parent_id if new_entries else record.head_id
        added = kept_as(new_entries)
        writes: list[Write] = []
        allowed: tuple[Check, ...] = ()
        try:
            if before is None and keep is not None:  # a fork begins with copies
                allowed = await self._announced(record)
                added = kept_as(await self.read_history(keep)) + added
            elif before is not None and keep != before.head_id:
                fetched = await self._fetch(id, whole=True)
                self._checked(id, fetched, expected_revision)
                current = await self._log(id)
                line = line_to(keep, [entry for _, entry in current], fetched)
                pairs = zip(line, current, strict=False)
                shared = sum(1 for own, (_, other) in pairs if own[0] == other[0])
                added = line[shared:] + added
                writes += left_behind(current[shared:], line[:shared], fetched)
        except LookupError:
            raise ConversationConflict(id) from None
        bodies = [{**message, ENTRY: entry} for entry, message in added]
        if bodies:
            writes.append(Append(self._thread(id).handle.encoded(bodies)))
        dumped = RECORDS.dump_python(record, mode="json")
        writes.append(Put(RECORD, encode(dumped, "the record")))
        version = await self._commit(id, record.scope, writes, fetched, *allowed)
        if bodies:
            self._thread(id, record.scope).handle.tell(bodies, version)
        self._remember(id, record)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Remove a conversation with all its messages, or raise `ConversationConflict`."""
        fetched = await self._fetch(conversation_id)
        self._checked(conversation_id, fetched, expected_revision)
        await self._commit(conversation_id, None, [Drop()], fetched)
        handle = self._thread(conversation_id).handle
        await drop_effects(handle.scope, handle.entity)

    async def _fetch(self, id: str, *, whole: bool = False) -> Fetched:
        """Fetch a conversation's head, newest message and documents."""
        handle, newest = self._thread(id).handle, Log(last=1, details=True)
        beside = (RECORD, EDITS, SUMMARY)
        fetched: Fetched = await self._call(handle.fetch, newest, beside, all_documents=whole)
        return fetched

    def _record(self, id: str, fetched: Fetched) -> ConversationRecord | None:
        record = record_of(id, fetched)
        return None if record is None else self._of(id, record, fetched.head)

    def _of(self, id: str, record: ConversationRecord, head: Head) -> ConversationRecord:
        record.scope = head.owner or None
        self._remember(id, record)
        return record

    def _remember(self, id: str, record: ConversationRecord) -> None:
        for entry in (record.head_id, *record.branches):
            if entry is not None:
                self._known[entry] = id

    def _checked(
        self, id: str, fetched: Fetched, expected: str | None
    ) -> ConversationRecord | None:
        record = self._record(id, fetched)
        if (None if record is None else record.revision) != expected:
            raise ConversationConflict(id)
        return record

    async def _commit(
        self, id: str, scope: str | None, writes: list[Write], fetched: Fetched, *allowed: Check
    ) -> int:
        handle = self._thread(id, scope).handle
        outcome = await self._call(handle.commit, tuple(writes), (*unchanged(fetched), *allowed))
        if isinstance(outcome, Conflict | NotYours):
            raise ConversationConflict(id)
        return stored(outcome, handle.entity).version

    async def _announced(self, record: ConversationRecord) -> tuple[Check, ...]:
        """Announce a copy, which an erasure of the user then prevents: see `forks`."""
        if record.scope is None:
            return ()
        handle = self._thread(record.conversation_id, record.scope).handle
        fork = handle.scope.entity(FORK, record.conversation_id)
        intent = replace(handle, entity=fork, retain=RETAIN)
        put = Put(FORKED_FROM, encode({"thread": record.forked_from}, "the origin"))
        return (NotDroppedSince(stored(await self._call(intent.commit, (put,)), fork).at),)

    # --- entries --------------------------------------------------------------------

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return one entry; one not read here before is searched for in all conversations."""
        return (await self.read_history(entry_id))[-1]

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to one of them, or their last part; `LookupError` if it is gone."""
        if head_id is None or limit == 0:
            return []
        id = await self._home(head_id)
        log = [entry for _, entry in await self._log(id, limit)]
        if not log or log[-1][0] != head_id:
            log = [entry for _, entry in await self._log(id)]
            log = line_to(head_id, log, await self._fetch(id, whole=True))
        messages = as_given([message for _, message in log], id)
        ids = [entry for entry, _ in log]
        if len(messages) != len(ids):  # a message of another framework, divided in another way
            ids = [*(f"{n} of {id}, translated" for n in range(1, len(messages))), head_id]
        entries = [
            ConversationEntry(id=entry, parent_id=parent, message=message)
            for entry, parent, message in zip(ids, [None, *ids[:-1]], messages, strict=True)
        ]
        return entries if limit is None else entries[-limit:]

    async def _home(self, entry: str) -> str:
        """Return the conversation that has an entry."""
        if entry not in self._known:
            for record in await self.read_records():
                id = record.conversation_id
                log = [logged for _, logged in await self._log(id)]
                if entry in linked(log, await self._fetch(id, whole=True)):
                    self._known[entry] = id
                    break
        return self._known[entry]

    async def _log(self, id: str, limit: int | None = None) -> list[tuple[int, Kept]]:
        """Return entries of the history by their numbers, and one more: the parent."""
        bounds = {} if limit is None else {"last": limit + 1, "exact": True}
        window = await self._call(self._thread(id).load, entries=True, **bounds)
        return [
            (each.version, (entry_id(id, each.version, each.message), each.message))
            for each in window.entries
        ]
