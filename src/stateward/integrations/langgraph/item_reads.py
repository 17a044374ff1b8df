"""Plans that read items by address, by age or by similarity, and list namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langgraph.store.base import ListNamespacesOp, SearchOp

from stateward.codec import decode
from stateward.integrations.bridge import Plan, pages
from stateward.integrations.langgraph import item_filter
from stateward.integrations.langgraph.vectors import VECTORS, Similarity, nearest
from stateward.kinds import LANGGRAPH_ITEM
from stateward.ops import Entity, Fetch, Fetched, Found, List, Listed
from stateward.state.refusals import refuse

ITEM = "item"
BATCH = 200  # operations, or entities of a page, in one round trip

T = TypeVar("T")
Scored = tuple[Found, float | None]


def batches(things: Sequence[T], size: int = BATCH) -> Iterable[Sequence[T]]:
    return (things[start : start + size] for start in range(0, len(things), size))


def fetch_items(entities: Sequence[Entity]) -> Plan[dict[Entity, Found]]:
    """Return the existing ones of some items."""
    items: dict[Entity, Found] = {}
    for batch in batches(entities):
        outcomes = yield [Fetch(entity, documents=(ITEM,)) for entity in batch]
        for entity, outcome in zip(batch, outcomes, strict=True):
            if not isinstance(outcome, Fetched):
                refuse(outcome, entity)
            if ITEM in outcome.documents:
                items[entity] = Found(entity, outcome.head, outcome.documents)
    return items


def list_all(
    namespace: str, prefix: str, documents: tuple[str, ...] = (), after: str | None = None
) -> Plan[list[Found]]:
    """Return every item whose id has the prefix, with these documents."""
    (listed,) = yield from pages(_listing(namespace, prefix, documents, after))
    return [each for page in listed for each in page.entities]


def search_nearest(
    namespace: str, op: SearchOp, query: list[float], similarity: Similarity
) -> Plan[list[Scored]]:
    """Return items by their similarity to a query, which is compared with every vector."""
    prefix = item_filter.namespace_id(op.namespace_prefix)
    items = yield from list_all(namespace, prefix, (ITEM, VECTORS))
    ranked = nearest(query, _fitting(items, op.filter), similarity)
    return ranked[op.offset : op.offset + op.limit]


def search_newest(namespace: str, op: SearchOp) -> Plan[list[Scored]]:
    """Return items by the time of their last change, newest first.

    The first page includes its items: most namespaces have no other page. Of further pages only the
    heads are listed, and items are read in the order of their heads until no other can be among
    the requested ones: no item is newer than its head, which reading an item also touches.
    """
    prefix = item_filter.namespace_id(op.namespace_prefix)
    (page,) = yield (_listing(namespace, prefix, (ITEM,), None),)
    assert isinstance(page, Listed)
    fitting = _fitting(page.entities, op.filter)
    unread: list[Found] = []
    if page.next is not None:
        unread = yield from list_all(namespace, prefix, after=page.next)
        unread.sort(key=_newest_head)
    wanted, start, size = op.offset + op.limit, 0, 0
    while True:
        fitting.sort(key=_newest_item)
        if start >= len(unread) or not wanted:
            break
        if len(fitting) >= wanted and _newest_item(fitting[wanted - 1]) < _newest_head(
            unread[start]
        ):
            break
        size = min(max(wanted, 2 * size), BATCH)
        read = yield from fetch_items([each.entity for each in unread[start : start + size]])
        fitting += _fitting(read.values(), op.filter)
        start += size
    return [(each, None) for each in fitting[op.offset : wanted]]


def list_namespaces(namespace: str, op: ListNamespacesOp) -> Plan[list[tuple[str, ...]]]:
    conditions = op.match_conditions or ()
    items = yield from list_all(namespace, item_filter.common_prefix(conditions))
    spaces = {item_filter.namespace_of(each.entity.id) for each in items}
    spaces = {space for space in spaces if item_filter.matches(space, conditions)}
    if op.max_depth is not None:
        spaces = {space[: op.max_depth] for space in spaces}
    return sorted(spaces)[op.offset : op.offset + op.limit]


def _listing(namespace: str, prefix: str, documents: tuple[str, ...], after: str | None) -> List:
    return List(
        namespace, kind=LANGGRAPH_ITEM, prefix=prefix, documents=documents, limit=BATCH, after=after
    )


def _fitting(found: Iterable[Found], filter: Mapping[str, Any] | None) -> list[Found]:
    return [
        each
        for each in found
        if ITEM in each.documents
        and (not filter or item_filter.fits(decode(each.documents[ITEM].json), filter))
    ]


def _newest_item(found: Found) -> tuple[float, str]:
    return -found.documents[ITEM].updated, found.entity.id


def _newest_head(found: Found) -> tuple[float, str]:
    return -found.head.updated, found.entity.id
