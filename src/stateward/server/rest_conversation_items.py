"""Items of OpenAI's Conversations API: added, listed, found and removed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from stateward.codec import check_key, encode
from stateward.kinds import THREAD
from stateward.layers.outage.answers import Suppressed
from stateward.ops import Applied, Check, Conflict, Duplicate, Entry, Fetched, Log, LogAt
from stateward.server.openai_items import ItemPlace, ToldItem, checked_items, place_of, told_items
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import Whom, answer, missing
from stateward.server.rest_conversations import (
    ConversationShown,
    conversation_of,
    existing,
    is_retry,
    same_life,
    thread_of,
)
from stateward.server.route import KEY, RETRIES, RestCall, Routes
from stateward.state.handle import Handle
from stateward.state.refusals import stored
from stateward.state.threads import Thread

RETRIED_WITHIN = 1800.0  # seconds: three tries of OpenAI's clients, ten minutes each
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


class ItemsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Items for the end of a conversation: all of them are stored, or none."""

    items: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class ItemList(Struct, frozen=True):
    """Some items. `last_id` goes into `after` for those that follow, if there are more."""

    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: Literal["list"] = "list"


CONVERSATION_ITEMS = Routes("threads")


@CONVERSATION_ITEMS.route(
    "POST /v1/conversations/{conversation}/items",
    "write",
    ItemList,
    IncludeQuery,
    ItemsBody,
    headers=(KEY, RETRIES),
    writes=(THREAD,),
)
async def _add(call: RestCall) -> Reply:
    """Add items to a conversation, all or none."""
    body: ItemsBody = call.body
    items = checked_items(body.items)
    key = call.headers.get(KEY.lower())
    check_key(key, None)
    thread = thread_of(call)
    applied, again = await _appended(thread, items, key, is_retry=is_retry(call))
    first = applied.version - len(items) + 1
    bodies = thread.handle.encoded(items)
    entries = [Entry(first + at, 0.0, text, applied.stamp) for at, text in enumerate(bodies)]
    listed = [each for entry in entries for each in told_items(entry)]
    headers = {"idempotent-replayed": "true"} if again else {}
    return answer(_listed(listed, has_more=False), headers=headers)


async def _appended(
    thread: Thread, items: tuple[dict[str, Any], ...], key: str | None, *, is_retry: bool
) -> tuple[Applied, bool]:
    """Store items; return the stored entries, and whether they were stored before.

    OpenAI's clients send a failed request again by themselves, and no key: they only say that they
    do so. Then the end of the conversation tells whether the request had been carried out.
    """
    handle = thread.handle
    looks = is_retry and key is None
    while True:
        fetched = await existing(thread, Log(last=len(items) + 1, details=True) if looks else None)
        checks: tuple[Check, ...] = (same_life(fetched.head),)
        if looks:
            if _holds(fetched, handle.encoded(items), handle.scope.world.now()):
                last = fetched.entries[-1]
                return Applied(last.seq, last.stamp, last.at), True
            checks = (*checks, LogAt(fetched.head.version, fetched.head.stamp or None))
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


@CONVERSATION_ITEMS.logged("thread read", name="conversation", reads=True)
@CONVERSATION_ITEMS.route(
    "GET /v1/conversations/{conversation}/items", "read", ItemList, ItemsQuery
)
async def _list(call: RestCall) -> Reply:
    """List a conversation's items."""
    query: ItemsQuery = call.query
    thread = thread_of(call)
    place = None
    if query.after is None:
        await existing(thread)
    else:
        place = await _place(thread, query.after)
    reverse = query.order == "desc"
    items = await _beyond(thread.handle, place, query.limit + 1, reverse=reverse)
    return answer(_listed(items[: query.limit], has_more=len(items) > query.limit))


def _listed(told: list[ToldItem], *, has_more: bool) -> ItemList:
    """Pages continue by place: that of an item which brought its id along is not searched for."""
    first, last = (told[0].placed_id, told[-1].placed_id) if told else (None, None)
    return ItemList([each.item for each in told], first, last, has_more)


async def _beyond(
    handle: Handle, place: ItemPlace | None, most: int, *, reverse: bool
) -> list[ToldItem]:
    """So many items after a place; in reverse, those before it, the newest first."""
    count = min(most + 1, handle.scope.capabilities.page)  # the place itself may be among them
    after = 0 if place is None or reverse else place.number - 1
    upto = place.number if place is not None and reverse else None
    items: list[ToldItem] = []
    while True:
        first, last = (None, count) if reverse else (count, None)
        entries = (await handle.fetch(Log(after, upto, first, last, details=True))).entries
        batch = [each for entry in entries for each in told_items(entry)]
        if place is not None:
            batch = [
                item for item in batch if (item.place < place if reverse else item.place > place)
            ]
        items += reversed(batch) if reverse else batch
        if len(items) >= most or len(entries) < count:
            return items[:most]
        if reverse:
            upto = entries[0].seq - 1
        else:
            after = entries[-1].seq


async def _place(thread: Thread, id: str) -> ItemPlace:
    """Where an item is, or was: a page continues after one that was deleted in between."""
    fetched, item = await _find(thread, id)
    place = place_of(id)
    if item is not None:
        return item.place
    if place is None or not 0 < place.number <= fetched.head.version or fetched.entries:
        raise missing("item", id)
    return place


async def _find(thread: Thread, id: str) -> tuple[Fetched, ToldItem | None]:
    """An item: at its place, or, by an id that it brought along, from the newest on."""
    handle, place = thread.handle, place_of(id)
    at = None
    if place is not None and place.number:
        at = Log(place.number - 1, place.number, details=True)
    fetched = await existing(thread, at)
    for each in (each for entry in fetched.entries for each in told_items(entry)):
        if each.place == place:
            return fetched, each
    quoted, page, upto = encode(id, "the id"), handle.scope.capabilities.page, None
    while True:
        entries = (await handle.fetch(Log(0, upto, last=page, details=True))).entries
        for entry in reversed(entries):
            if quoted in entry.body:
                for each in told_items(entry):
                    if each.item["id"] == id:
                        return fetched, each
        if len(entries) < page:
            return fetched, None
        upto = entries[0].seq - 1


@CONVERSATION_ITEMS.logged("thread read", name="conversation", reads=True)
@CONVERSATION_ITEMS.route(
    "GET /v1/conversations/{conversation}/items/{item}", "read", dict[str, Any], IncludeQuery
)
async def _retrieve_item(call: RestCall) -> Reply:
    """Get an item of a conversation."""
    _, item = await _find(thread_of(call), call.path["item"])
    if item is None:
        raise missing("item", call.path["item"])
    return answer(item.item)


@CONVERSATION_ITEMS.logged("thread edit", name="conversation")
@CONVERSATION_ITEMS.route(
    "DELETE /v1/conversations/{conversation}/items/{item}",
    "write",
    ConversationShown,
    Whom,
    headers=(RETRIES,),
    writes=(THREAD,),
)
async def _delete_item(call: RestCall) -> Reply:
    """Remove an item from a conversation."""
    thread = thread_of(call)
    fetched, item = await _find(thread, call.path["item"])
    gone = item is None
    if item is not None:
        if not item.alone:
            raise Refusal(
                400,
                "this item is a part of one message of another framework: remove that message with "
                f"thread.edit({{{item.place.number}: None}})",
            )
        gone = not await thread.edit({item.place.number: None})
    if gone and not is_retry(call):  # else the first try may have done it
        raise missing("item", call.path["item"])
    return answer(conversation_of(thread, fetched))
