"""LangGraph's long-term memory over a Stateward store: one entity an item, so that each expires."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from stateward.codec import check_id, decode, encode_document
from stateward.errors import InvalidInput
from stateward.integrations.bridge import (
    AnyStore,
    Bridge,
    OnBridge,
    Plan,
    claims,
    in_both_colours,
    pages,
)
from stateward.integrations.langgraph import item_filter
from stateward.integrations.langgraph.vectors import VECTORS, VectorIndex, Vectors, nearest
from stateward.kinds import LANGGRAPH_ITEM
from stateward.ops import (
    Commit,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Entity,
    Fetch,
    Fetched,
    Found,
    Head,
    List,
    NotYours,
    Put,
    SetHead,
    Value,
    Write,
)
from stateward.options import UNSAID, Whose, owner_of
from stateward.records import moment
from stateward.state.refusals import refuse, stored

KIND = LANGGRAPH_ITEM
ITEM = "item"
BATCH = 200

User = Whose | Callable[[tuple[str, ...]], Whose]


class StatewardStore(OnBridge, BaseStore):
    """Items by namespace and key: `graph.compile(store=StatewardStore(store))`.

    `ttl` gives the default time an item lives, in minutes, and whether reading restarts it. `index`
    embeds items, so that `search(query=…)` finds them by meaning; without it the newest come first.
    Searching looks at every item of the namespace: keep namespaces small, e.g. one for each user.
    `user` says to whom an item belongs that is put, as a name or as a function of its namespace:
    it is exported and erased with them. A failing store raises; nothing is kept locally.
    """

    supports_ttl = True

    def __init__(
        self,
        store: AnyStore | Bridge,
        *,
        ttl: TTLConfig | None = None,
        index: IndexConfig | None = None,
        user: User = UNSAID,
    ) -> None:
        super().__init__(store)
        self._user = user
        self._index = None if index is None else VectorIndex(index)
        self.index_config = index
        self.ttl_config = ttl
        check_ttl(None if ttl is None else ttl.get("default_ttl"))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads as of before, then writes; of several writes to one item the last one counts."""
        asked = self._checked(ops)
        vectors = Vectors()
        if self._index is not None:
            vectors = self._index.embed(asked)
        return self._bridge.run(self._batch(asked, vectors))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`."""
        asked = self._checked(ops)
        vectors = Vectors()
        if self._index is not None:
            vectors = await self._index.aembed(asked)
        return await self._bridge.arun(self._batch(asked, vectors))

    def _claim(self, namespace: tuple[str, ...], *, user: str) -> Plan[int]:
        """Give the items below a namespace that belong to nobody to a user; how many these were."""
        check_id(user, "a user")
        prefix = item_filter.namespace_id(namespace)
        found = yield from self._all(prefix, ())
        new_op = self._bridge.world.new_op
        commits = [claims(each.entity, each.head, user, new_op()) for each in found]
        claimed = 0
        for batch in _batches([commit for commit in commits if commit is not None]):
            for commit, outcome in zip(batch, (yield batch), strict=True):
                if not isinstance(outcome, Conflict | NotYours):  # else it is gone, or another's
                    stored(outcome, commit.entity)
                    claimed += 1
        return claimed

    claim, aclaim = in_both_colours(_claim)

    def _checked(self, ops: Iterable[Op]) -> list[Op]:
        """Everything that can be refused is refused before anything is written."""
        asked = list(ops)
        for op in asked:
            validate_op_namespace(op)
            if isinstance(op, PutOp | GetOp):
                self._entity(op.namespace, op.key)
            if isinstance(op, PutOp) and op.value is not None:
                encode_document(op.value, self._bridge.limits)
                check_ttl(op.ttl)
            if isinstance(op, SearchOp):
                item_filter.check_filter(op.filter or {})
        return asked

    # --- the plans ----------------------------------------------------------------------

    def _entity(self, namespace: tuple[str, ...], key: str) -> Entity:
        id = item_filter.item_id(namespace, key)
        return Entity(
            self._bridge.namespace, KIND, check_id(id, "the namespace and key of an item")
        )

    def _owner(self, namespace: tuple[str, ...]) -> str | None:
        user = self._user(namespace) if callable(self._user) else self._user
        return owner_of(user)

    def _batch(self, ops: Sequence[Op], vectors: Vectors) -> Plan[list[Result]]:
        results: list[Result] = [None] * len(ops)
        touched: dict[Entity, Found] = {}  # read items whose time begins anew
        gets = {at: op for at, op in enumerate(ops) if isinstance(op, GetOp)}
        for at, found in (yield from self._get(gets)).items():
            results[at] = _item(found)
            if gets[at].refresh_ttl:
                touched[found.entity] = found
        for at, op in enumerate(ops):
            if isinstance(op, SearchOp):
                hits = yield from self._search(op, vectors)
                results[at] = [_search_item(found, score) for found, score in hits]
                if op.refresh_ttl:
                    touched |= {found.entity: found for found, _ in hits}
            elif isinstance(op, ListNamespacesOp):
                results[at] = yield from self._namespaces(op)
        puts = {self._entity(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}
        yield from self._touch([f for entity, f in touched.items() if entity not in puts])
        yield from self._put(puts, vectors)
        return results

    def _get(self, ops: dict[int, GetOp]) -> Plan[dict[int, Found]]:
        found: dict[int, Found] = {}
        for batch in _batches(list(ops.items())):
            entities = [self._entity(op.namespace, op.key) for _, op in batch]
            outcomes = yield [Fetch(entity, documents=(ITEM,)) for entity in entities]
            for (at, _), entity, outcome in zip(batch, entities, outcomes, strict=True):
                if not isinstance(outcome, Fetched):
                    refuse(outcome, entity)
                if ITEM in outcome.documents:
                    found[at] = Found(entity, outcome.head, outcome.documents)
        return found

    def _search(self, op: SearchOp, vectors: Vectors) -> Plan[list[tuple[Found, float | None]]]:
        query = vectors.queries.get(op.query or "")
        documents = (ITEM,) if query is None else (ITEM, VECTORS)
        prefix = item_filter.namespace_id(op.namespace_prefix)
        found = yield from self._all(prefix, documents)
        fitting = [
            each
            for each in found
            if ITEM in each.documents
            and (not op.filter or item_filter.fits(decode(each.documents[ITEM].json), op.filter))
        ]
        if query is None:
            newest = sorted(fitting, key=lambda each: each.documents[ITEM].updated, reverse=True)
            ranked: list[tuple[Found, float | None]] = [(each, None) for each in newest]
        else:
            assert self._index is not None  # else there were no queries
            ranked = nearest(query, fitting, self._index.similarity)
        return ranked[op.offset : op.offset + op.limit]

    def _namespaces(self, op: ListNamespacesOp) -> Plan[list[tuple[str, ...]]]:
        conditions = op.match_conditions or ()
        prefix = item_filter.common_prefix(conditions)
        found = yield from self._all(prefix, ())
        spaces = {item_filter.namespace_of(each.entity.id) for each in found}
        spaces = {space for space in spaces if item_filter.matches(space, conditions)}
        if op.max_depth is not None:
            spaces = {space[: op.max_depth] for space in spaces}
        return sorted(spaces)[op.offset : op.offset + op.limit]

    def _all(self, prefix: str, documents: tuple[str, ...]) -> Plan[list[Found]]:
        namespace = self._bridge.namespace
        (found,) = yield from pages(
            List(namespace, kind=KIND, prefix=prefix, documents=documents, limit=BATCH)
        )
        return [each for page in found for each in page.entities]

    def _touch(self, items: Sequence[Found]) -> Plan[None]:
        """Restart the time of items that were read; what was changed meanwhile has its own."""
        commits = [
            Commit(
                found.entity,
                self._bridge.world.new_op(),
                (SetHead(retain=found.head.retain),),
                (DocumentAt(ITEM, item.version, item.stamp),),
            )
            for found in items
            if found.head.retain is not None
            for item in (found.documents[ITEM],)
        ]
        for batch in _batches(commits):
            for commit, outcome in zip(batch, (yield batch), strict=True):
                if not isinstance(outcome, Conflict):
                    stored(outcome, commit.entity)

    def _put(self, puts: dict[Entity, PutOp], vectors: Vectors) -> Plan[None]:
        commits = [
            Commit(
                entity,
                self._bridge.world.new_op(),
                self._writes(op, vectors),
                owner=self._owner(op.namespace),
            )
            for entity, op in puts.items()
        ]
        for batch in _batches(commits):
            for commit, outcome in zip(batch, (yield batch), strict=True):
                stored(outcome, commit.entity)

    def _writes(self, op: PutOp, vectors: Vectors) -> tuple[Write, ...]:
        if op.value is None:
            return (Drop(),)
        retain = 0.0 if op.ttl is None else op.ttl * 60.0
        writes: list[Write] = [
            Put(ITEM, encode_document(op.value, self._bridge.limits)),
            SetHead(retain=retain),
        ]
        if self._index is not None:
            text = vectors.texts.get((op.namespace, op.key))
            writes.append(Delete(VECTORS) if text is None else Put(VECTORS, text))
        return tuple(writes)


def check_ttl(ttl: float | None) -> None:
    if ttl is not None and not 0 < ttl < math.inf:
        raise InvalidInput(f"ttl is a number of minutes above 0, or None for ever, not {ttl!r}")


def _batches(things: list[Any]) -> Iterable[list[Any]]:
    return (things[start : start + BATCH] for start in range(0, len(things), BATCH))


def _parts(found: Found) -> dict[str, Any]:
    head: Head = found.head
    item: Value = found.documents[ITEM]
    return {
        "value": decode(item.json),
        "namespace": item_filter.namespace_of(found.entity.id),
        "key": item_filter.key_of(found.entity.id),
        "created_at": moment(head.created),
        "updated_at": moment(item.updated),
    }


def _item(found: Found) -> Item:
    return Item(**_parts(found))


def _search_item(found: Found, score: float | None) -> SearchItem:
    return SearchItem(**_parts(found), score=cast(Any, score))
