"""OpenAI's Conversations API: its eight methods, each conversation a thread of the store."""

from __future__ import annotations

from hashlib import blake2b
from math import inf, nextafter
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from stateward.codec import check_key, encode, encode_document
from stateward.errors import KeyReusedError
from stateward.kinds import THREAD
from stateward.layers.outage.answers import Suppressed
from stateward.ops import (
    Absent,
    Applied,
    Check,
    Conflict,
    Duplicate,
    Entry,
    Fetched,
    Head,
    Log,
    LogAt,
    NotDroppedSince,
    Put,
)
from stateward.server.openai_error import CONVERSATIONS as PATH
from stateward.server.openai_items import (
    ItemPlace,
    ToldItem,
    checked_items,
    place_of,
    told_items,
)
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import Whom, answer, missing, whose
from stateward.server.route import KEY, RETRIES, RestCall, RestRoute, RouteDeed
from stateward.state.documents import document, document_at
from stateward.state.forks import VARS
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.threads import Thread

METADATA = "metadata"  # the thread's variable that has it
RETRIED_WITHIN = 1800.0  # seconds: three tries of OpenAI's clients, ten minutes each

Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16),
]
Included = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]


class IncludeQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`include` is taken, and changes nothing: an item is told with all that it was stored with."""

    user: str | None = None
    include: list[Included] = []


class ItemsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of items, those first that came last, unless `order` says otherwise."""

    user: str | None = None
    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    include: list[Included] = []


class ConversationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What a conversation begins with."""

    items: list[dict[str, Any]] | None = None
    metadata: Metadata | None = None


class MetadataBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What is put in the place of all the metadata that there is; null: none."""

    metadata: Metadata | None


class ItemsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Items for the end of a conversation: all of them are stored, or none."""

    items: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class ConversationShown(Struct, frozen=True):
    """A conversation, as OpenAI tells it."""

    id: str
    created_at: int  # seconds since the epoch
    metadata: dict[str, str]
    object: Literal["conversation"] = "conversation"


class ConversationDeleted(Struct, frozen=True):
    """A conversation that is gone."""

    id: str
    deleted: bool = True
    object: Literal["conversation.deleted"] = "conversation.deleted"


class ItemList(Struct, frozen=True):
    """Some items. `last_id` goes into `after` for those that follow, if there are more."""

    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: Literal["list"] = "list"


# --- conversations ----------------------------------------------------------------------


def _thread(call: RestCall) -> Thread:
    return call.store.thread(call.path["conversation"], whose(call, call.query.user))


async def _there(thread: Thread, log: Log | None = None) -> Fetched:
    """What there is of a conversation; one that does not exist is refused."""
    seen = await thread.handle.fetch(log, documents=(VARS,))
    if not seen.head.exists:
        raise missing("conversation", thread.id)
    return seen


def _shown(thread: Thread, seen: Fetched) -> ConversationShown:
    metadata = document(seen.documents.get(VARS)).value.get(METADATA)
    plain = metadata if isinstance(metadata, dict) else {}
    texts = {name: value for name, value in plain.items() if isinstance(value, str)}
    return ConversationShown(thread.id, int(seen.head.created), texts)


def _is_retry(call: RestCall) -> bool:
    """Whether OpenAI's client says that it has sent this request before."""
    count = call.headers.get(RETRIES.lower(), "")
    return count.isascii() and count.isdigit() and count.strip("0") != ""


def _same_life(head: Head) -> NotDroppedSince:
    """So that nothing is brought back that was deleted since."""
    return NotDroppedSince(nextafter(head.dropped, inf))


async def _create(call: RestCall) -> Reply:
    body: ConversationBody = call.body
    items = checked_items(body.items or ())
    key, owner = call.headers.get(KEY.lower()), whose(call, call.query.user)
    check_key(key, None)
    metadata = body.metadata or {}
    thread = call.store.thread(_new_id(call, key), owner)
    if items:
        done = await thread.append(*items, key=key, vars={METADATA: metadata})
        again = done.status == "duplicate"
    else:
        again = await _begun(thread, metadata, key)
    headers = {"idempotent-replayed": "true"} if again else {}
    return answer(_shown(thread, await _there(thread)), headers=headers)


def _new_id(call: RestCall, key: str | None) -> str:
    """A fresh one; for the same key the same one, so that a repeat finds what it has made."""
    world = call.store.sections["threads"].world
    user = call.asker.user or call.query.user
    name = world.new_id() if key is None else encode([user, key], "the key")
    return f"conv_{blake2b(name.encode(), digest_size=24).hexdigest()}"


async def _begun(thread: Thread, metadata: dict[str, str], key: str | None) -> bool:
    """Begin it without an item; true: a request with the same key has done so before."""
    handle = thread.handle
    put = Put(VARS, encode_document({METADATA: metadata}, handle.scope.limits))
    outcome = await handle.commit((put,), (Absent(),))
    if not isinstance(outcome, Conflict):
        stored(outcome, handle.entity)
        return False
    if _shown(thread, await _there(thread)).metadata != metadata:
        raise KeyReusedError(f"the key {key!r} was used for a conversation with other metadata")
    return True


async def _retrieve(call: RestCall) -> Reply:
    thread = _thread(call)
    return answer(_shown(thread, await _there(thread)))


async def _update(call: RestCall) -> Reply:
    body: MetadataBody = call.body
    thread = _thread(call)
    handle = thread.handle
    while True:
        seen = await _there(thread)
        before = seen.documents.get(VARS)
        new = {**document(before).value, METADATA: body.metadata or {}}
        put = Put(VARS, encode_document(new, handle.scope.limits))
        checks = (_same_life(seen.head), document_at(VARS, before))
        outcome = await handle.commit((put,), checks)
        if not isinstance(outcome, Conflict):
            stored(outcome, handle.entity)
            shown = ConversationShown(thread.id, int(seen.head.created), body.metadata or {})
            return answer(shown)


async def _delete(call: RestCall) -> Reply:
    thread = _thread(call)
    if not _is_retry(call):  # else the first try may have done it
        await _there(thread)
    await thread.delete()
    return answer(ConversationDeleted(thread.id))


# --- items ------------------------------------------------------------------------------


async def _add(call: RestCall) -> Reply:
    body: ItemsBody = call.body
    items = checked_items(body.items)
    key = call.headers.get(KEY.lower())
    check_key(key, None)
    thread = _thread(call)
    applied, again = await _appended(thread, items, key, is_retry=_is_retry(call))
    first = applied.version - len(items) + 1
    bodies = thread.handle.encoded(items)
    entries = [Entry(first + at, 0.0, text, applied.stamp) for at, text in enumerate(bodies)]
    told = [each for entry in entries for each in told_items(entry)]
    headers = {"idempotent-replayed": "true"} if again else {}
    return answer(_listed(told, has_more=False), headers=headers)


async def _appended(
    thread: Thread, items: tuple[dict[str, Any], ...], key: str | None, *, is_retry: bool
) -> tuple[Applied, bool]:
    """What was stored, and whether it was before.

    OpenAI's clients send a failed request again by themselves, and no key: they only say that they
    do so. Then the end of the conversation tells whether the request had been carried out.
    """
    handle = thread.handle
    looks = is_retry and key is None
    while True:
        seen = await _there(thread, Log(last=len(items) + 1, details=True) if looks else None)
        checks: tuple[Check, ...] = (_same_life(seen.head),)
        if looks:
            if _holds(seen, handle.encoded(items), handle.scope.world.now()):
                last = seen.entries[-1]
                return Applied(last.seq, last.stamp, last.at), True
            checks = (*checks, LogAt(seen.head.version, seen.head.stamp or None))
        outcome = await handle.append(items, key, checks, keep=False)
        assert not isinstance(outcome, Suppressed)
        if not isinstance(outcome, Conflict):
            again = isinstance(outcome, Duplicate) and not outcome.own
            return stored(outcome, handle.entity), again


def _holds(seen: Fetched, bodies: tuple[str, ...], now: float) -> bool:
    """Whether the last append to the conversation is this very one: its first try was stored."""
    last, before = seen.entries[-len(bodies) :], seen.entries[: -len(bodies)]
    stamps = {entry.stamp for entry in last}
    return (
        tuple(entry.body for entry in last) == bodies
        and len(stamps) == 1
        and stamps.isdisjoint(entry.stamp for entry in before)
        and now - last[-1].at <= RETRIED_WITHIN
    )


async def _list(call: RestCall) -> Reply:
    query: ItemsQuery = call.query
    thread = _thread(call)
    place = None
    if query.after is None:
        await _there(thread)
    else:
        place = await _place(thread, query.after)
    reverse = query.order == "desc"
    told = await _beyond(thread.handle, place, query.limit + 1, reverse=reverse)
    return answer(_listed(told[: query.limit], has_more=len(told) > query.limit))


def _listed(told: list[ToldItem], *, has_more: bool) -> ItemList:
    """Pages go on by place: that of an item which brought its id along is not searched for."""
    first, last = (told[0].placed_id, told[-1].placed_id) if told else (None, None)
    return ItemList([each.item for each in told], first, last, has_more)


async def _beyond(
    handle: Handle, place: ItemPlace | None, most: int, *, reverse: bool
) -> list[ToldItem]:
    """So many items after a place; in reverse, those before it, the newest first."""
    count = min(most + 1, handle.scope.capabilities.page)  # the place itself may be among them
    after = 0 if place is None or reverse else place.number - 1
    upto = place.number if place is not None and reverse else None
    found: list[ToldItem] = []
    while True:
        first, last = (None, count) if reverse else (count, None)
        entries = (await handle.fetch(Log(after, upto, first, last, details=True))).entries
        told = [each for entry in entries for each in told_items(entry)]
        if place is not None:
            told = [it for it in told if (it.place < place if reverse else it.place > place)]
        found += reversed(told) if reverse else told
        if len(found) >= most or len(entries) < count:
            return found[:most]
        if reverse:
            upto = entries[0].seq - 1
        else:
            after = entries[-1].seq


async def _place(thread: Thread, id: str) -> ItemPlace:
    """Where an item stands, or stood: a page goes on after one that was deleted meanwhile."""
    seen, found = await _find(thread, id)
    place = place_of(id)
    if found is not None:
        return found.place
    if place is None or not 0 < place.number <= seen.head.version or seen.entries:
        raise missing("item", id)
    return place


async def _find(thread: Thread, id: str) -> tuple[Fetched, ToldItem | None]:
    """An item: at its place, or, by an id that it brought along, from the newest on."""
    handle, place = thread.handle, place_of(id)
    at = None
    if place is not None and place.number:
        at = Log(place.number - 1, place.number, details=True)
    seen = await _there(thread, at)
    for each in (each for entry in seen.entries for each in told_items(entry)):
        if each.place == place:
            return seen, each
    quoted, page, upto = encode(id, "the id"), handle.scope.capabilities.page, None
    while True:
        entries = (await handle.fetch(Log(0, upto, last=page, details=True))).entries
        for entry in reversed(entries):
            if quoted in entry.body:
                for each in told_items(entry):
                    if each.item["id"] == id:
                        return seen, each
        if len(entries) < page:
            return seen, None
        upto = entries[0].seq - 1


async def _retrieve_item(call: RestCall) -> Reply:
    _, found = await _find(_thread(call), call.path["item"])
    if found is None:
        raise missing("item", call.path["item"])
    return answer(found.item)


async def _delete_item(call: RestCall) -> Reply:
    thread = _thread(call)
    seen, found = await _find(thread, call.path["item"])
    gone = found is None
    if found is not None:
        if not found.alone:
            raise Refusal(
                400,
                "this item is a part of one message of another framework: remove that message with "
                f"thread.edit({{{found.place.number}: None}})",
            )
        gone = not await thread.edit({found.place.number: None})
    if gone and not _is_retry(call):  # else the first try may have done it
        raise missing("item", call.path["item"])
    return answer(_shown(thread, seen))


_C, _I = f"{PATH}/{{conversation}}", f"{PATH}/{{conversation}}/items"
CONVERSATIONS = (
    RestRoute(
        "POST",
        PATH,
        "write",
        _create,
        "Begin a conversation, as OpenAI's clients do",
        ConversationShown,
        Whom,
        ConversationBody,
        headers=(KEY,),
    ),
    RestRoute(
        "GET",
        _C,
        "read",
        _retrieve,
        "A conversation and its metadata",
        ConversationShown,
        Whom,
        deed=RouteDeed("thread read", THREAD, "conversation", reads=True),
    ),
    RestRoute(
        "POST",
        _C,
        "write",
        _update,
        "Replace the metadata of a conversation",
        ConversationShown,
        Whom,
        MetadataBody,
        deed=RouteDeed("thread describe", THREAD, "conversation"),
    ),
    RestRoute(
        "POST",
        _I,
        "write",
        _add,
        "Add items to a conversation, all or none",
        ItemList,
        IncludeQuery,
        ItemsBody,
        headers=(KEY, RETRIES),
    ),
    RestRoute(
        "GET",
        _I,
        "read",
        _list,
        "A page of a conversation's items",
        ItemList,
        ItemsQuery,
        deed=RouteDeed("thread read", THREAD, "conversation", reads=True),
    ),
    RestRoute(
        "GET",
        f"{_I}/{{item}}",
        "read",
        _retrieve_item,
        "One item of a conversation",
        dict[str, Any],
        IncludeQuery,
        deed=RouteDeed("thread read", THREAD, "conversation", reads=True),
    ),
    RestRoute(
        "DELETE",
        f"{_I}/{{item}}",
        "write",
        _delete_item,
        "Remove one item of a conversation",
        ConversationShown,
        Whom,
        headers=(RETRIES,),
        deed=RouteDeed("thread edit", THREAD, "conversation"),
    ),
    RestRoute(
        "DELETE",
        _C,
        "write",
        _delete,
        "Remove a conversation with its items",
        ConversationDeleted,
        Whom,
        headers=(RETRIES,),
        deed=RouteDeed("thread delete", THREAD, "conversation", makes_room=True),
    ),
)
