"""LangGraph's long-term memory over a Stateward store: an entity, with its expiry, per item."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

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
from msgspec import Struct

from stateward.codec import check_id, decode, encode_document
from stateward.errors import InvalidInput, StatewardError
from stateward.integrations.adapter import AnyStore
from stateward.integrations.bridge import Bridge, OnBridge, Plan, claims, in_both_colours, together
from stateward.integrations.langgraph import item_filter
from stateward.integrations.langgraph.item_reads import (
    ITEM,
    batches,
    fetch_items,
    list_all,
    list_namespaces,
    search_nearest,
    search_newest,
)
from stateward.integrations.langgraph.joined_calls import JoinedCalls
from stateward.integrations.langgraph.vectors import VECTORS, VectorIndex, Vectors
from stateward.kinds import LANGGRAPH_ITEM
from stateward.ops import (
    Commit,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Entity,
    Found,
    Head,
    NotYours,
    Put,
    SetHead,
    Value,
    Write,
)
from stateward.owner import UNSAID, Whose, owner_of
from stateward.records import moment
from stateward.state.refusals import stored

KIND = LANGGRAPH_ITEM
JOINED = 1_000  # operations of joined calls, whose writes are one batch with one outcome

Destination = tuple[Entity, str | None]  # an item and its intended owner
Answered = dict[str, Any]  # by search or listing: the result or the error
User = Whose | Callable[[tuple[str, ...]], Whose]


class StoreCall(Struct, frozen=True):
    """One call of `batch`, ready to be carried out."""

    ops: list[Op]
    queries: dict[str, list[float]]
    puts: dict[Destination, tuple[Write, ...]]  # the last write to each item counts


Calls = JoinedCalls[StoreCall, list[Result]]


class StatewardStore(OnBridge, BaseStore):
    """Items by namespace and key: `graph.compile(store=StatewardStore(store))`.

    `ttl` gives the default time an item lives, in minutes, and whether reading restarts it. `index`
    embeds items, so that `search(query=…)` finds them by meaning; without it the newest come first.
    A search by meaning compares every item of the namespace, and one without a query looks at the
    times of all: keep namespaces small, e.g. one for each user.
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
        self._calls: WeakKeyDictionary[asyncio.AbstractEventLoop, Calls] = WeakKeyDictionary()
        check_ttl(None if ttl is None else ttl.get("default_ttl"))

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Read first, then write; of several writes to one item the last one counts."""
        asked, values = self._checked(ops)
        vectors = Vectors()
        if self._index is not None:
            vectors = self._index.embed(asked)
        (results,) = self._bridge.run(self._answers([self._call(asked, values, vectors)]))
        if isinstance(results, StatewardError):
            raise results
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`. Calls beyond 64 at a time wait, and those that wait are joined."""
        operations, values = self._checked(ops)
        vectors = Vectors()
        if self._index is not None:
            vectors = await self._index.aembed(operations)
        loop = asyncio.get_running_loop()
        calls = self._calls.get(loop)
        if calls is None:  # several event loops may call over a blocking store
            calls = self._calls[loop] = JoinedCalls(self._carry_out, _weight, JOINED)
        return await calls.ask(self._call(operations, values, vectors))

    async def _carry_out(
        self, calls: Sequence[StoreCall]
    ) -> Sequence[list[Result] | StatewardError]:
        return await self._bridge.arun(self._answers(calls))

    def _claim(self, namespace: tuple[str, ...], *, user: str) -> Plan[int]:
        """Give the items below a namespace without an owner to a user, and return their number."""
        check_id(user, "a user")
        prefix = item_filter.namespace_id(namespace)
        items = yield from list_all(self._bridge.namespace, prefix)
        new_op = self._bridge.world.new_op
        commits = [claims(each.entity, each.head, user, new_op()) for each in items]
        claimed = 0
        for batch in batches([commit for commit in commits if commit is not None]):
            for commit, outcome in zip(batch, (yield batch), strict=True):
                if not isinstance(outcome, Conflict | NotYours):  # else gone, or another user's
                    stored(outcome, commit.entity)
                    claimed += 1
        return claimed

    claim, aclaim = in_both_colours(_claim)

    def _checked(self, ops: Iterable[Op]) -> tuple[list[Op], dict[int, str]]:
        """Check all operations before anything is written.

        Returns the operations and, by their numbers, the values to put as JSON text.
        """
        asked = list(ops)
        values: dict[int, str] = {}
        for at, op in enumerate(asked):
            validate_op_namespace(op)
            if isinstance(op, PutOp | GetOp):
                self._entity(op.namespace, op.key)
            if isinstance(op, PutOp) and op.value is not None:
                values[at] = encode_document(op.value, self._bridge.limits)
                check_ttl(op.ttl)
            if isinstance(op, SearchOp):
                item_filter.check_filter(op.filter or {})
        return asked, values

    def _call(self, ops: list[Op], values: dict[int, str], vectors: Vectors) -> StoreCall:
        """Prepare a call. Who owns an item is decided now: another task may carry the call out."""
        puts = {
            (self._entity(op.namespace, op.key), self._owner(op.namespace)): self._writes(
                op, values.get(at), vectors
            )
            for at, op in enumerate(ops)
            if isinstance(op, PutOp)
        }
        return StoreCall(ops, vectors.queries, puts)

    # --- the plans ----------------------------------------------------------------------

    def _entity(self, namespace: tuple[str, ...], key: str) -> Entity:
        id = item_filter.item_id(namespace, key)
        return Entity(
            self._bridge.namespace, KIND, check_id(id, "the namespace and key of an item")
        )

    def _owner(self, namespace: tuple[str, ...]) -> str | None:
        user = self._user(namespace) if callable(self._user) else self._user
        return owner_of(user)

    def _answers(self, calls: Sequence[StoreCall]) -> Plan[list[list[Result] | StatewardError]]:
        """Carry out several calls: all their reads, then all their writes."""
        items, searched = yield from self._read(calls)
        puts = {to: writes for call in calls for to, writes in call.puts.items()}
        written = {entity for entity, _ in puts}
        touched = _touched(calls, items, searched, self._entity)
        yield from self._touch([each for at, each in touched.items() if at not in written])
        refused = yield from self._put(puts)
        answers: list[list[Result] | StatewardError] = []
        for call in calls:
            try:
                answers.append(self._results(call, items, searched, refused))
            except StatewardError as refusal:
                answers.append(refusal)
        return answers

    def _read(self, calls: Sequence[StoreCall]) -> Plan[tuple[dict[Entity, Found], Answered]]:
        """Read the items of calls, and the results of their searches and listings.

        All reads are concurrent, and equal reads of several calls are done once.
        """
        gets: dict[Entity, None] = {}
        plans: dict[str, Plan[Any]] = {}
        for call in calls:
            for op in call.ops:
                if isinstance(op, GetOp):
                    gets[self._entity(op.namespace, op.key)] = None
                elif not isinstance(op, PutOp) and (question := repr(op)) not in plans:
                    plans[question] = self._find(op, call.queries)
        items, *answers = yield from together([fetch_items(list(gets)), *plans.values()])
        if isinstance(items, StatewardError):
            raise items
        return items, dict(zip(plans, answers, strict=True))

    def _find(self, op: SearchOp | ListNamespacesOp, queries: dict[str, list[float]]) -> Plan[Any]:
        namespace = self._bridge.namespace
        if isinstance(op, ListNamespacesOp):
            return list_namespaces(namespace, op)
        query = queries.get(op.query or "")
        if query is None:
            return search_newest(namespace, op)
        assert self._index is not None  # else no operation has a query
        return search_nearest(namespace, op, query, self._index.similarity)

    def _results(
        self,
        call: StoreCall,
        items: dict[Entity, Found],
        answers: Answered,
        refused: dict[Destination, StatewardError],
    ) -> list[Result]:
        """Return the results of one call, as new objects that the caller may change."""
        for to in call.puts:
            if to in refused:
                raise refused[to]
        results: list[Result] = []
        for op in call.ops:
            if isinstance(op, PutOp):
                results.append(None)
            elif isinstance(op, GetOp):
                item = items.get(self._entity(op.namespace, op.key))
                results.append(None if item is None else _item(item))
            else:
                answer = answers[repr(op)]
                if isinstance(answer, StatewardError):
                    raise answer
                if isinstance(op, SearchOp):
                    results.append([_search_item(each, score) for each, score in answer])
                else:
                    results.append(list(answer))
        return results

    def _touch(self, items: Sequence[Found]) -> Plan[None]:
        """Restart the lifetime of items that were read, unless they were changed meanwhile."""
        commits = [
            Commit(
                item_found.entity,
                self._bridge.world.new_op(),
                (SetHead(retain=item_found.head.retain),),
                (DocumentAt(ITEM, item.version, item.stamp),),
            )
            for item_found in items
            if item_found.head.retain is not None
            for item in (item_found.documents[ITEM],)
        ]
        for batch in batches(commits):
            for commit, outcome in zip(batch, (yield batch), strict=True):
                if not isinstance(outcome, Conflict):
                    stored(outcome, commit.entity)

    def _put(
        self, puts: dict[Destination, tuple[Write, ...]]
    ) -> Plan[dict[Destination, StatewardError]]:
        """Write items, each by itself; return the refused ones with their errors."""
        refused: dict[Destination, StatewardError] = {}
        for batch in batches(list(puts.items()), JOINED):
            outcomes = yield [
                Commit(entity, self._bridge.world.new_op(), writes, owner=owner)
                for (entity, owner), writes in batch
            ]
            for (to, _), outcome in zip(batch, outcomes, strict=True):
                try:
                    stored(outcome, to[0])
                except StatewardError as refusal:
                    refused[to] = refusal
        return refused

    def _writes(self, op: PutOp, value: str | None, vectors: Vectors) -> tuple[Write, ...]:
        if value is None:
            return (Drop(),)
        retain = 0.0 if op.ttl is None else op.ttl * 60.0
        writes: list[Write] = [Put(ITEM, value), SetHead(retain=retain)]
        if self._index is not None:
            text = vectors.texts.get((op.namespace, op.key))
            writes.append(Delete(VECTORS) if text is None else Put(VECTORS, text))
        return tuple(writes)


def _weight(call: StoreCall) -> int:
    return len(call.ops)


def _touched(
    calls: Sequence[StoreCall],
    items: dict[Entity, Found],
    found: Answered,
    entity_of: Callable[[tuple[str, ...], str], Entity],
) -> dict[Entity, Found]:
    """Return the items that were read and whose lifetime restarts."""
    touched: dict[Entity, Found] = {}
    for call in calls:
        for op in call.ops:
            if isinstance(op, GetOp) and op.refresh_ttl:
                item = items.get(entity_of(op.namespace, op.key))
                if item is not None:
                    touched[item.entity] = item
            elif isinstance(op, SearchOp) and op.refresh_ttl:
                answer = found[repr(op)]
                if not isinstance(answer, StatewardError):
                    touched |= {each.entity: each for each, _ in answer}
    return touched


def check_ttl(ttl: float | None) -> None:
    if ttl is not None and not 0 < ttl < math.inf:
        raise InvalidInput(f"ttl is a number of minutes above 0, or None for ever, not {ttl!r}")


def _parts(item_entity: Found) -> dict[str, Any]:
    head: Head = item_entity.head
    item: Value = item_entity.documents[ITEM]
    return {
        "value": decode(item.json),
        "namespace": item_filter.namespace_of(item_entity.entity.id),
        "key": item_filter.key_of(item_entity.entity.id),
        "created_at": moment(head.created),
        "updated_at": moment(item.updated),
    }


def _item(found: Found) -> Item:
    return Item(**_parts(found))


def _search_item(found: Found, score: float | None) -> SearchItem:
    return SearchItem(**_parts(found), score=cast(Any, score))
