"""The context an agent was given for a turn, read again by means of the turn's receipt."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from stateward.context.compaction import SUMMARY
from stateward.errors import InvalidInput, NotKept, NotYoursError
from stateward.kinds import THREAD, USER, WORKFLOW
from stateward.layers.outage.edits import EDITS, edits_of
from stateward.ops import Entry, Fetch, Fetched, Found, Log
from stateward.records import Cursor, Document, WorkflowInfo, moment
from stateward.state.feeds import reset
from stateward.state.handle import Handle
from stateward.state.history import read_past
from stateward.state.past import PastState
from stateward.state.receipts import Recalled, end_of, receipt_of, stale_documents
from stateward.state.refusals import refuse
from stateward.state.scope import Scope
from stateward.state.shared_message import FORKED_FROM, SharedMessage, shared_message
from stateward.state.stored_document import document
from stateward.state.window_record import Gone, Knowledge, TurnReceipt
from stateward.state.workflow_record import READING

FIRST_ENTRIES = 8  # enough to see the end of most turns at once


async def knew(handle: Handle, users: Scope, work: Scope, at: Cursor) -> Knowledge | None:
    """Return the context for the turn of this message; None if the turn has no receipt.

    `users` and `work` are the scopes of users' documents and of workflows. The receipt of a turn
    that a fork shares with its origin is in the origin.
    """
    end = await _end_of_turn(handle, at)
    if isinstance(end, SharedMessage):
        return await _knew_at_origin(handle, users, work, end)
    if end.note is None:
        return None
    receipt = receipt_of(end.note)
    as_read = Log(receipt.version, first=1, stamp=receipt.stamp)
    thread = await handle.fetch(as_read, (EDITS, SUMMARY))
    recalled = Recalled(receipt, edits_of(thread.documents.get(EDITS)), thread)
    if (log := recalled.beginning()) is not None:
        recalled.read_beginning((await handle.fetch(log)).entries)
    while (log := recalled.older(handle.scope.capabilities.page)) is not None:
        recalled.read_older((await handle.fetch(log)).entries)
    messages, summary = recalled.messages(), recalled.summary(thread.documents.get(SUMMARY))
    documents, stale = await documents_then(users, thread.head.owner, receipt.documents or {})
    workflows = await _workflows_then(work, receipt, recalled)
    return Knowledge(
        handle.entity.id,
        end.seq,
        moment(end.at),
        receipt,
        messages,
        summary,
        documents,
        workflows,
        (*recalled.gone, *stale),
        recalled.numbers,
    )


async def _end_of_turn(handle: Handle, at: Cursor) -> Entry | SharedMessage:
    """Return the last entry of the turn, with its note; for a fork's copy, the shared message."""
    entries: list[Entry] = []
    after, size = max(at.version - 1, 0), FIRST_ENTRIES
    while True:
        page = await handle.fetch(Log(after, first=size, whole=True), (FORKED_FROM,))
        entries += page.entries
        if not entries or entries[0].seq != at.version or not entries[0].body:
            raise InvalidInput(
                f"the thread {handle.entity.id!r} has no message {at.version}: it was removed, has "
                "expired, or was never there"
            )
        if at.stamp not in (None, entries[0].stamp):
            raise reset(handle.entity)
        shared = shared_message(page.documents.get(FORKED_FROM), at.version)
        if shared is not None:
            return shared
        end = end_of(entries, page.head)
        if end is not None or not page.entries:
            return end or entries[-1]
        after, size = entries[-1].seq, handle.scope.capabilities.page


async def _knew_at_origin(
    handle: Handle, users: Scope, work: Scope, shared: SharedMessage
) -> Knowledge | None:
    """Read from the thread where the turn was stored, which may be the origin of an origin."""
    try:
        while True:
            origin = replace(handle, entity=handle.scope.entity(THREAD, shared.thread))
            end = Log(shared.end.version, first=1, stamp=shared.end.stamp)
            fetched = await origin.fetch(end, (FORKED_FROM,))
            if fetched.reset or not fetched.head.exists:
                break
            further = shared_message(fetched.documents.get(FORKED_FROM), shared.number)
            if further is None:
                return await knew(origin, users, work, Cursor(shared.number))
            shared = further
    except (InvalidInput, NotYoursError):
        pass
    raise NotKept(
        f"the thread {handle.entity.id!r} shares this turn with the thread {shared.thread!r}, "
        "which had its receipt, and is gone or no longer has the turn"
    )


async def documents_then(
    users: Scope, user: str, versions: Mapping[str, tuple[int, str | None]]
) -> tuple[dict[str, Document], list[Gone]]:
    """Return a user's documents in these versions, and those that are no longer kept."""
    if not versions:
        return {}, []
    handle = Handle(users, users.entity(USER, user), user)
    there = (await handle.fetch(documents=tuple(versions))).documents
    gone = {each.name: each for each in stale_documents(versions, there)}
    then: dict[str, Document] = {}
    for name, (version, stamp) in versions.items():
        if name not in gone:
            then[name] = document(there[name])
        elif (past := await _remembered(handle, name, stamp)) is not None:
            then[name] = Document(past.value, version, stamp, past.at)
    return then, [each for name, each in gone.items() if name not in then]


async def _remembered(handle: Handle, name: str, stamp: str | None) -> PastState | None:
    """Return a version of a document from its history; None if it is not kept."""
    past = await read_past(handle, name, lambda past: past.with_stamp(stamp) is not None)
    return past.with_stamp(stamp)


async def _workflows_then(
    work: Scope, receipt: TurnReceipt, recalled: Recalled
) -> list[WorkflowInfo]:
    asked = [work.entity(WORKFLOW, id) for id in receipt.workflows or {}]
    fetches = [Fetch(entity, None, None, READING) for entity in asked]
    infos: list[WorkflowInfo] = []
    for fetch, outcome in zip(fetches, await work.execute(fetches) if asked else (), strict=True):
        if not isinstance(outcome, Fetched):
            refuse(outcome, fetch.entity)
        info = recalled.workflow(Found(fetch.entity, outcome.head, outcome.documents))
        infos += [] if info is None else [info]
    return infos
