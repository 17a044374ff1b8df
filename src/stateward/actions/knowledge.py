"""The action that says what an agent was given when it wrote a turn, and what differs since."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Struct

from stateward.actions.action import ActionCall, Actions, Missing, Rest
from stateward.actions.arguments import Arguments, Id, User
from stateward.actions.documents import NamedDocument, named_document
from stateward.actions.transcripts import ReceiptShown, receipt_shown
from stateward.bounds import CURSOR_BYTES, Text
from stateward.errors import InvalidInput, NotKept
from stateward.kinds import THREAD
from stateward.records import WorkflowInfo
from stateward.state.window_record import Gone, Knowledge
from stateward.store import Store

LOOKED_BACK = 10  # messages: the turn before may have been stored with its question apart


class KnowledgeChange(Struct, frozen=True):
    """Something that is not what it was. `was` and `now` are a version, or a status; null: none."""

    what: Literal["messages", "document", "workflow", "summary"]
    name: str
    was: int | str | None
    now: int | str | None


class ComparedKnowledge(Struct, frozen=True):
    """What differs between the turn and `version`, the end of the turn before or of the thread."""

    against: Literal["before", "now"]
    version: int
    changes: list[KnowledgeChange]


class KnowledgeShown(Struct, frozen=True):
    """What an agent was given when it wrote a turn, as `Store.knew` returns it."""

    thread: str
    version: int
    at: datetime
    receipt: ReceiptShown
    messages: list[dict[str, Any]]
    numbers: tuple[int, ...]
    summary: str | None
    documents: list[NamedDocument]
    workflows: list[WorkflowInfo]
    gone: tuple[Gone, ...]
    difference: ComparedKnowledge | None = None  # null: not asked for, or nothing to compare with


class KnewQuery(Arguments, frozen=True, kw_only=True):
    """`against` compares it with what the turn before was given, or with what there is now."""

    thread: Id
    version: Annotated[str, Text(1, CURSOR_BYTES), "The version of a message of the turn."]
    user: User = None
    against: Literal["before", "now"] | None = None


KNOWLEDGE = Actions(THREAD, for_one_user=True)


@KNOWLEDGE.read(
    "knew", KnewQuery, KnowledgeShown, rest=Rest("GET /v1/threads/{thread}/knew/{version}")
)
async def _knew(call: ActionCall) -> KnowledgeShown:
    """Get what the agent was given when it wrote the turn of a message."""
    asked: KnewQuery = call.arguments
    try:
        knew = await call.store.knew(asked.thread, asked.version, user=call.whose)
    except InvalidInput as error:
        number = asked.version.partition(".")[0]
        if number.isascii() and number.isdigit():
            raise Missing("turn", asked.version, str(error)) from error
        raise
    if knew is None:
        why = "it was stored without a receipt: see saw= of Thread.append"
        raise Missing("turn", asked.version, why)
    difference = None
    if asked.against == "before":
        difference = await _since_before(call.store, knew, call.whose)
    elif asked.against == "now":
        difference = await _until_now(call.store, knew, call.whose)
    return KnowledgeShown(
        knew.thread,
        knew.version,
        knew.at,
        receipt_shown(knew.receipt),
        knew.messages,
        knew.numbers,
        knew.summary,
        [named_document(name, of) for name, of in knew.user.items()],
        knew.workflows,
        knew.gone,
        difference,
    )


async def _since_before(store: Store, knew: Knowledge, user: Any) -> ComparedKnowledge | None:
    newest = knew.receipt.version
    for version in range(newest, max(0, newest - LOOKED_BACK), -1):
        try:
            before = await store.knew(knew.thread, version, user=user)
        except (InvalidInput, NotKept):
            continue  # that message is gone
        if before is not None:
            changes = _changes(
                (before.receipt.version, knew.receipt.version),
                (_versions(before.receipt.documents), _versions(knew.receipt.documents)),
                (_statuses(before.workflows), _statuses(knew.workflows)),
            )
            if before.receipt.summary != knew.receipt.summary:
                changes.append(KnowledgeChange("summary", "", None, None))
            return ComparedKnowledge("before", before.version, changes)
    return None


async def _until_now(store: Store, knew: Knowledge, user: Any) -> ComparedKnowledge | None:
    owner = user if isinstance(user, str) else None
    if owner is None:
        head = (await store.thread(knew.thread, user).handle.fetch()).head
        owner = head.owner or None
    if owner is None:  # no one's: there are neither documents nor workflows to compare
        window = await store.thread(knew.thread, user).load(last=1, exact=True)
        changes = _changes((knew.receipt.version, window.version), ({}, {}), ({}, {}))
        return ComparedKnowledge("now", window.version, changes)
    now = await store.context(user=owner, thread=knew.thread, last=1, exact=True)
    documents: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})
    workflows: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    if knew.receipt.documents is not None:
        versions = {name: of.version for name, of in now.user.items()}
        documents = (_versions(knew.receipt.documents), versions)
        workflows = (_statuses(knew.workflows), _statuses(now.workflows))
    changes = _changes((knew.receipt.version, now.thread.version), documents, workflows)
    return ComparedKnowledge("now", now.thread.version, changes)


def _versions(documents: Mapping[str, tuple[int, str | None]] | None) -> dict[str, int]:
    return {name: of[0] for name, of in (documents or {}).items()}


def _statuses(workflows: list[WorkflowInfo]) -> dict[str, str]:
    return {of.id: f"{of.status} {of.step}" if of.step else of.status for of in workflows}


def _changes(
    messages: tuple[int, int],
    documents: tuple[Mapping[str, int], Mapping[str, int]],
    workflows: tuple[Mapping[str, str], Mapping[str, str]],
) -> list[KnowledgeChange]:
    changes = []
    if messages[0] != messages[1]:
        changes.append(KnowledgeChange("messages", "", *messages))
    for name in sorted({*documents[0], *documents[1]}):
        was, now = (each.get(name) for each in documents)
        if was != now:
            changes.append(KnowledgeChange("document", name, was, now))
    for name in sorted({*workflows[0], *workflows[1]}):
        then, at_last = (each.get(name) for each in workflows)
        if then != at_last:
            changes.append(KnowledgeChange("workflow", name, then, at_last))
    return changes
