"""The record of a conversation besides its messages: usage, pending tools, revision."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationRecord

from stateward.codec import decode
from stateward.integrations.pydantic_ai.branches import entry_id
from stateward.ops import Absent, Check, DocumentAt, Fetched, LogAt

RECORD = "pydantic-ai record"
RECORDS = TypeAdapter(ConversationRecord)


def record_of(id: str, fetched: Fetched) -> ConversationRecord | None:
    """Return the record of a thread; make one for the newest message of another framework."""
    head, value = fetched.head, fetched.documents.get(RECORD)
    if value is None and not head.live:
        return None
    newest = None
    for entry in fetched.entries:
        newest = entry_id(id, entry.seq, decode(entry.body))
    if value is not None:
        record = RECORDS.validate_json(value.json)
    else:
        at = datetime.fromtimestamp(head.updated, UTC)
        record = ConversationRecord(conversation_id=id, head_id=None, updated_at=at)
    if value is None or record.head_id != newest:  # others have written
        record.head_id, record.revision = newest, f"{head.version} {head.stamp} {newest}"
    return record


def unchanged(fetched: Fetched) -> tuple[Check, ...]:
    """Return the checks that the thread is unchanged since it was read."""
    head, value = fetched.head, fetched.documents.get(RECORD)
    if not head.exists:
        return (Absent(),)
    version, stamp = (0, None) if value is None else (value.version, value.stamp)
    return LogAt(head.version, head.stamp or None), DocumentAt(RECORD, version, stamp)
