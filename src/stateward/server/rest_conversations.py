"""OpenAI's Conversations API: its eight methods, each conversation a thread of the store."""

from __future__ import annotations

from hashlib import blake2b
from math import inf, nextafter
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from stateward.codec import check_key, encode, encode_document
from stateward.errors import KeyReusedError
from stateward.kinds import EFFECT, THREAD
from stateward.layers.outage.answers import Suppressed
from stateward.ops import (
    Absent,
    Applied,
    Conflict,
    Duplicate,
    Fetched,
    Head,
    Log,
    NotDroppedSince,
    Outcome,
    Put,
)
from stateward.server.openai_items import checked_items
from stateward.server.reply import Reply
from stateward.server.rest import Whom, answer, missing, whose
from stateward.server.route import KEY, RETRIES, RestCall, Routes
from stateward.state.about import VARS
from stateward.state.refusals import stored
from stateward.state.stored_document import document, document_at
from stateward.state.threads import Thread

METADATA = "metadata"  # the thread's variable that has it

Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16),
]


class ConversationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What a conversation begins with."""

    items: list[dict[str, Any]] | None = None
    metadata: Metadata | None = None


class MetadataBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The metadata that replaces all existing metadata; null: none."""

    metadata: Metadata | None


class ConversationShown(Struct, frozen=True):
    """A conversation, in OpenAI's format."""

    id: str
    created_at: int  # seconds since the epoch
    metadata: dict[str, str]
    object: Literal["conversation"] = "conversation"


class ConversationDeleted(Struct, frozen=True):
    """A conversation that is gone."""

    id: str
    deleted: bool = True
    object: Literal["conversation.deleted"] = "conversation.deleted"


# --- conversations ----------------------------------------------------------------------


def thread_of(call: RestCall) -> Thread:
    return call.store.thread(call.path["conversation"], whose(call, call.query.user))


async def existing(thread: Thread, log: Log | None = None) -> Fetched:
    """Return a conversation; raises a refusal if it does not exist."""
    fetched = await thread.handle.fetch(log, documents=(VARS,))
    if not fetched.head.exists:
        raise missing("conversation", thread.id)
    return fetched


def conversation_of(thread: Thread, seen: Fetched) -> ConversationShown:
    metadata = document(seen.documents.get(VARS)).value.get(METADATA)
    plain = metadata if isinstance(metadata, dict) else {}
    texts = {name: value for name, value in plain.items() if isinstance(value, str)}
    return ConversationShown(thread.id, int(seen.head.created), texts)


def is_retry(call: RestCall) -> bool:
    """Whether OpenAI's client says that it has sent this request before."""
    count = call.headers.get(RETRIES.lower(), "")
    return count.isascii() and count.isdigit() and count.strip("0") != ""


def same_life(head: Head) -> NotDroppedSince:
    """So that nothing is brought back that was deleted since."""
    return NotDroppedSince(nextafter(head.dropped, inf))


CONVERSATIONS = Routes("threads")


@CONVERSATIONS.route(
    "POST /v1/conversations",
    "write",
    ConversationShown,
    Whom,
    ConversationBody,
    headers=(KEY,),
    writes=(THREAD,),
    names_new=True,
)
async def _create(call: RestCall) -> Reply:
    """Create a conversation, as OpenAI's clients do."""
    body: ConversationBody = call.body
    items = checked_items(body.items or ())
    key, owner = call.headers.get(KEY.lower()), whose(call, call.query.user)
    check_key(key, None)
    metadata = body.metadata or {}
    thread = call.store.thread(_new_id(call, key), owner)
    handle = thread.handle
    put = Put(VARS, encode_document({METADATA: metadata}, handle.scope.limits))
    if items:
        outcome = await handle.append(items, key, (Absent(),), (put,), keep=False)
        assert not isinstance(outcome, Suppressed)
    else:
        outcome = await handle.commit((put,), (Absent(),))
    if isinstance(outcome, Applied):
        return answer(ConversationShown(thread.id, int(outcome.at), metadata))
    return await _created_before(thread, outcome, metadata, key, has_items=bool(items))


async def _created_before(
    thread: Thread, outcome: Outcome, metadata: dict[str, str], key: str | None, *, has_items: bool
) -> Reply:
    """Return the conversation that this request, or one with the same key, created earlier."""
    if not isinstance(outcome, Conflict):
        stored(outcome, thread.handle.entity)
    shown = conversation_of(thread, await existing(thread))
    if isinstance(outcome, Conflict) and (has_items or shown.metadata != metadata):
        raise KeyReusedError(f"the key {key!r} was used for another conversation")
    again = not (isinstance(outcome, Duplicate) and outcome.own)
    return answer(shown, headers={"idempotent-replayed": "true"} if again else {})


def _new_id(call: RestCall, key: str | None) -> str:
    """A fresh one; for the same key the same one, so that a repeat finds what it has made."""
    world = call.store.sections["threads"].world
    user = call.asker.user or call.query.user
    name = world.new_id() if key is None else encode([user, key], "the key")
    return f"conv_{blake2b(name.encode(), digest_size=24).hexdigest()}"


@CONVERSATIONS.logged("thread read", name="conversation", reads=True)
@CONVERSATIONS.route("GET /v1/conversations/{conversation}", "read", ConversationShown, Whom)
async def _retrieve(call: RestCall) -> Reply:
    """Get a conversation and its metadata."""
    thread = thread_of(call)
    return answer(conversation_of(thread, await existing(thread)))


@CONVERSATIONS.logged("thread describe", name="conversation")
@CONVERSATIONS.route(
    "POST /v1/conversations/{conversation}",
    "write",
    ConversationShown,
    Whom,
    MetadataBody,
    writes=(THREAD,),
)
async def _update(call: RestCall) -> Reply:
    """Replace the metadata of a conversation."""
    body: MetadataBody = call.body
    thread = thread_of(call)
    handle = thread.handle
    while True:
        fetched = await existing(thread)
        before = fetched.documents.get(VARS)
        new = {**document(before).value, METADATA: body.metadata or {}}
        put = Put(VARS, encode_document(new, handle.scope.limits))
        checks = (same_life(fetched.head), document_at(VARS, before))
        outcome = await handle.commit((put,), checks)
        if not isinstance(outcome, Conflict):
            stored(outcome, handle.entity)
            shown = ConversationShown(thread.id, int(fetched.head.created), body.metadata or {})
            return answer(shown)


@CONVERSATIONS.logged("thread delete", name="conversation", makes_room=True)
@CONVERSATIONS.route(
    "DELETE /v1/conversations/{conversation}",
    "write",
    ConversationDeleted,
    Whom,
    headers=(RETRIES,),
    writes=(THREAD, EFFECT),
)
async def _delete(call: RestCall) -> Reply:
    """Remove a conversation with its items."""
    thread = thread_of(call)
    if not is_retry(call):  # else the first try may have done it
        await existing(thread)
    await thread.delete()
    return answer(ConversationDeleted(thread.id))
