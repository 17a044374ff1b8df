"""Pages of entities and of documents: complete, ordered by bytes, and never someone else's."""

from __future__ import annotations

from typing import Any

from stateward.engine import Namespaces
from stateward.errors import InvalidInput
from stateward.ops import Append, Commit, Drop, Entity, List, Put, SetHead, Value
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Caller, Harness, bodies

# Ids whose order by UTF-8 bytes is neither that of a dictionary nor that of UTF-16.
UNRULY = (
    "a",
    "a\x00",
    "a\x00b",
    "aa",
    "a b",
    "a!",
    "B",
    "b",
    "Z",
    "_",
    "10",
    "9",
    "é",
    "e\u0301",
    "ß",
    "\u0430",
    "日本",
    "\uffff",
    "\ue000",
    "\U00010000",
    "😀",
    "😀a",
    "\U0010ffff",
    "\x00",
    "\x7f",
    "%",
    "%a",
    "*",
)


async def create(a: Caller, *entities: Entity, owner: str | None = None) -> None:
    """Several entities in one round trip."""
    commits = [
        Commit(entity, a.world.new_id(), (Append(bodies(1)),), owner=owner) for entity in entities
    ]
    await a.execute(*commits)


def in_order(entities: list[Entity]) -> list[Entity]:
    return sorted(entities, key=lambda entity: (entity.kind.encode(), entity.id.encode()))


# --- order and pages --------------------------------------------------------------------


@case
async def entities_of_a_kind_come_by_the_bytes_of_their_ids(h: Harness) -> None:
    a = await h.replica()
    every = [h.entity(id) for id in UNRULY]
    await create(a, *every, owner="u")
    for options in ({"kind": "thing"}, {"kind": "thing", "owner": "u"}, {"owner": "u"}):
        for limit in (1, 4, len(every), 100):
            assert await a.list_all(h.namespace, limit=limit, **options) == in_order(every)
            backwards = await a.list_all(h.namespace, limit=limit, reverse=True, **options)
            assert backwards == in_order(every)[::-1]


@case
async def all_that_somebody_owns_comes_by_kind_and_id(h: Harness) -> None:
    a = await h.replica()
    every = [h.entity(id, kind) for kind in ("thread", "a", "user", "é") for id in "cab"]
    await create(a, *every, owner="u")
    await create(a, h.entity("x", "thread"), owner="v")
    await create(a, h.entity("y", "thread"))
    assert await a.list_all(h.namespace, owner="u") == in_order(every)
    assert await a.list_all(h.namespace, owner="u", reverse=True) == in_order(every)[::-1]
    assert await a.list_all(h.namespace, owner="nobody") == []


@case
async def a_kind_is_data_like_an_id(h: Harness) -> None:
    a = await h.replica()
    kinds = ("a", "a\x00", "a\x00b", "0.0\x00a", "thread:x", "%")
    every = [h.entity(id, kind) for kind in kinds for id in ("1", "\x00", "b\x00c", "2")]
    await create(a, *every, owner="u")
    assert await a.list_all(h.namespace, owner="u", limit=1) == in_order(every)
    for kind in kinds:
        wanted = in_order([entity for entity in every if entity.kind == kind])
        assert await a.list_all(h.namespace, kind=kind, limit=1) == wanted


@case
async def the_last_page_says_so(h: Harness) -> None:
    a = await h.replica()
    await create(a, *[h.entity(str(number)) for number in range(6)])
    page = await a.listing(h.namespace, kind="thing", limit=6)
    assert len(page.entities) == 6
    assert page.next is None
    page = await a.listing(h.namespace, kind="thing", limit=5)
    assert len(page.entities) == 5
    assert page.next is not None
    page = await a.listing(h.namespace, kind="thing", limit=5, after=page.next)
    assert [item.entity.id for item in page.entities] == ["5"]
    assert page.next is None
    assert (await a.listing(h.namespace, kind="none")).next is None


@case
async def changes_between_two_pages_hide_nothing_that_stays(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    await create(a, *[h.entity(f"{number:02}") for number in range(0, 20, 2)], owner="u")
    page = await a.listing(h.namespace, owner="u", limit=4)
    await b.apply(h.entity("06"), Drop())  # the very entity that the next page continues from
    await b.apply(h.entity("08"), Drop())
    await create(b, h.entity("01"), h.entity("15"), owner="u")
    page = await a.listing(h.namespace, owner="u", limit=100, after=page.next)
    assert [item.entity.id for item in page.entities] == ["10", "12", "14", "15", "16", "18"]


# --- what is asked for ------------------------------------------------------------------


@case
async def a_listing_shows_each_head_and_the_documents_asked_for(h: Harness) -> None:
    a = await h.replica()
    entity, other = h.entity("it"), h.entity("other")
    await a.apply(entity, Append(bodies(1, 2)), Put("a", "1"), Put("b", "2"), owner="u", retain=1e6)
    await a.apply(other, SetHead(status="s", due=7.0), owner="u")
    page = await a.listing(h.namespace, owner="u", documents=("b", "missing"))
    assert [item.head for item in page.entities] == [await a.head(entity), await a.head(other)]
    assert {n: v.json for n, v in page.entities[0].documents.items()} == {"b": "2"}
    assert page.entities[1].documents == {}
    assert (await a.listing(h.namespace, owner="u")).entities[0].documents == {}


@case
async def a_prefix_is_text_and_no_pattern(h: Harness) -> None:
    a = await h.replica()
    ids = (*UNRULY, "%b", "_a", "*a", "?", "[a]", "a%b", "\\", "'", "aé", "\U0010ffff\U0010ffff")
    every = [h.entity(id) for id in ids]
    await create(a, *every, owner="u")
    for prefix in (*ids, "", "zz", "\U0010fffe"):
        wanted = in_order([entity for entity in every if entity.id.startswith(prefix)])
        for options in ({"kind": "thing"}, {"owner": "u"}):
            entities = await a.list_all(h.namespace, limit=100, prefix=prefix, **options)
            assert entities == wanted, prefix
        entities = await a.list_all(h.namespace, kind="thing", prefix=prefix, reverse=True)
        assert entities == wanted[::-1]


@case
async def a_status_selects_those_that_have_it_now(h: Harness) -> None:
    a = await h.replica()
    for id, status in (("1", "on"), ("2", "off"), ("3", "on"), ("4", "")):
        await a.apply(h.entity(id), SetHead(status=status), Put("doc", "1"), owner=f"u{id}")
    assert await ids_of(a, h, kind="thing", status="on") == ["1", "3"]
    assert await ids_of(a, h, kind="thing", status="off") == ["2"]
    assert await ids_of(a, h, kind="thing", status="") == ["4"]
    assert await ids_of(a, h, kind="thing", status="ON") == []
    assert await ids_of(a, h, kind="thing", status="on", owner="u3") == ["3"]
    assert await ids_of(a, h, kind="other", status="on") == []
    await a.apply(h.entity("1"), SetHead(status="off"))
    assert await ids_of(a, h, kind="thing", status="on") == ["3"]
    assert await ids_of(a, h, kind="thing", status="off", reverse=True) == ["2", "1"]


@case
async def a_label_selects_those_that_have_it_now(h: Harness) -> None:
    a = await h.replica()
    for id, label in (("1", "refund"), ("2", "order"), ("3", "refund"), ("4", "")):
        await a.apply(h.entity(id), SetHead(label=label, status="on", due=5.0), owner="u")
    assert await ids_of(a, h, kind="thing", label="refund") == ["1", "3"]
    assert await ids_of(a, h, kind="thing", label="") == ["4"]
    assert await ids_of(a, h, owner="u", label="order") == ["2"]
    assert await ids_of(a, h, kind="thing", label="refund", status="on", due=True) == ["1", "3"]
    assert await ids_of(a, h, kind="thing", label="refund", status="off") == []
    await a.apply(h.entity("1"), SetHead(label="order"))
    assert await ids_of(a, h, kind="thing", label="order", reverse=True) == ["2", "1"]


@case
async def what_is_due_comes_soonest_first(h: Harness) -> None:
    a = await h.replica()
    now = (await a.apply(h.entity("clock"), Put("doc", "1"))).at
    ages = {"a": 30.0, "b": 10.0, "c": 20.0, "e": 20.0, "d": 20.0}
    for id, age in ages.items():
        await a.apply(h.entity(id), SetHead(due=now - age, status="s" if id < "c" else "t"))
    await a.apply(h.entity("later"), SetHead(due_in=h.span))
    await a.apply(h.entity("never"), SetHead(status="s"))
    await a.apply(h.entity("cleared"), SetHead(due=now - 5.0))
    await a.apply(h.entity("cleared"), SetHead(due=0))
    for limit in (1, 2, 100):
        entities = await a.list_all(h.namespace, kind="thing", due=True, limit=limit)
        assert [entity.id for entity in entities] == ["a", "c", "d", "e", "b"]
    assert await ids_of(a, h, kind="thing", prefix="", status="t") == ["c", "d", "e"]
    assert await ids_of(a, h, kind="thing", status="s") == ["a", "b", "never"], "only if asked for"
    assert await ids_of(a, h, kind="thing", due=True, status="t") == ["c", "d", "e"]
    assert await ids_of(a, h, kind="thing", due=True, prefix="d") == ["d"]
    await h.pass_time(h.span)
    assert await ids_of(a, h, kind="thing", due=True) == ["a", "c", "d", "e", "b", "later"]


async def ids_of(a: Caller, h: Harness, **options: Any) -> list[str]:
    return [entity.id for entity in await a.list_all(h.namespace, **options)]


NO_CURSORS = ("", "x", "{}", "[1]", '[1,"a"]', '["x","a","b"]', '[1e400,"a","b"]', "[1,2,3]")


@case
async def a_cursor_that_no_listing_has_told_is_refused_in_words(h: Harness) -> None:
    a = await h.replica()
    await create(a, h.entity("one"))
    orders: tuple[dict[str, Any], ...] = ({}, {"due": True}, {"recent": True}, {"owner": "u"})
    for after in NO_CURSORS:
        for order in orders:
            try:
                await a.execute(List(h.namespace, "thing", after=after, **order))
            except InvalidInput:
                continue
            raise AssertionError(f"{after!r} was taken for a cursor of {order}")
    assert await ids_of(a, h) == ["one"]


# --- the documents of one entity --------------------------------------------------------


@case
async def documents_of_an_entity_come_by_the_bytes_of_their_names(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    names = (*UNRULY, "%b", "_a")
    await a.apply(entity, *[Put(name, f'"{number}"') for number, name in enumerate(names)])
    await a.apply(h.entity("it2"), Put("other", "1"))
    stored = (await a.everything(entity)).documents
    for reverse in (False, True):
        for prefix in ("", "a", "%", "😀", "\U0010ffff", "none"):
            wanted = [n for n in sorted(names, key=str.encode) if n.startswith(prefix)]
            wanted = wanted[::-1] if reverse else wanted
            documents: list[tuple[str, Value]] = []
            after: str | None = None
            while True:
                page = await a.listing(
                    h.namespace, within=entity, prefix=prefix, reverse=reverse, limit=4, after=after
                )
                documents += page.documents
                if page.next is None:
                    break
                after = page.next
            assert documents == [(name, stored[name]) for name in wanted]
    exactly = await a.listing(h.namespace, within=entity, limit=len(names))
    assert (len(exactly.documents), exactly.next) == (len(names), None)


@case
async def a_listing_of_documents_can_leave_their_values_out(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    await a.apply(entity, Put("a", "1"))
    applied = await a.apply(entity, Put("a", "2"), Put("b", "3"), op=op)
    page = await a.listing(h.namespace, within=entity, values=False)
    assert [(n, v.json, v.version, v.stamp, v.updated) for n, v in page.documents] == [
        ("a", "", 2, op, applied.at),
        ("b", "", 1, op, applied.at),
    ]


@case
async def documents_are_listed_only_to_their_owner(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Put("doc", "1"), owner="u")
    assert len((await a.listing(h.namespace, within=entity, owner="u")).documents) == 1
    assert len((await a.listing(h.namespace, within=entity)).documents) == 1
    assert (await a.listing(h.namespace, within=entity, owner="v")).documents == ()
    assert (await a.listing(h.namespace, within=entity, owner="")).documents == ()
    assert (await a.listing(h.namespace, within=h.entity("absent"))).documents == ()


# --- no one else's ----------------------------------------------------------------------


@case
async def namespaces_do_not_see_each_other(h: Harness) -> None:
    a = await h.replica()
    names = [h.namespace + end for end in ("", ":", ":thing", "\x00", "\x00thing", "x", "}", " ")]
    for number, namespace in enumerate(names):
        entity = Entity(namespace, "thing", "same")
        await a.apply(entity, Append(bodies(number)), SetHead(status="s", due=1.0), owner="u")
        await a.apply(Entity(namespace, "thing", f"only {number}"), Put("doc", "1"), owner="u")
    for number, namespace in enumerate(names):
        both = [Entity(namespace, "thing", f"only {number}"), Entity(namespace, "thing", "same")]
        assert await a.list_all(namespace, kind="thing") == both
        assert await a.list_all(namespace, owner="u") == both
        assert await a.list_all(namespace, kind="thing", status="s") == both[1:]
        assert await a.list_all(namespace, kind="thing", due=True) == both[1:]
        await a.apply(both[1], Drop())
        assert await a.list_all(namespace, owner="u") == both[:1]


@case
async def a_new_owner_finds_it_and_the_old_does_not(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await create(a, entity)
    assert await a.list_all(h.namespace, kind="thing", owner="") == [entity]
    await a.apply(entity, SetHead(owner="u"))
    assert await a.list_all(h.namespace, owner="u") == [entity]
    await a.apply(entity, SetHead(owner="v"))
    assert await a.list_all(h.namespace, owner="u") == []
    assert await a.list_all(h.namespace, owner="v") == [entity]


@case
async def what_was_dropped_is_not_listed_and_what_came_back_is(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for owner in ("u", "v"):
        await a.apply(entity, Put("doc", "1"), SetHead(status="s", due=1.0), owner=owner)
        for options in ({"owner": owner}, {"status": "s"}, {"due": True}, {}):
            assert await a.list_all(h.namespace, kind="thing", **options) == [entity]
        await a.apply(entity, Drop())
        for options in ({"owner": owner}, {"status": "s"}, {"due": True}, {}):
            assert await a.list_all(h.namespace, kind="thing", **options) == []


@case
async def a_store_names_its_namespaces_by_their_bytes(h: Harness) -> None:
    """Where an engine knows them; there may be others' among them."""
    a = await h.replica()
    if not isinstance(a.engine, Namespaces):
        return
    ours = [f"{h.namespace}{end}" for end in ("", " ", "!", "\x00", "a", "é", "\U00010000", "😀")]
    await create(a, *[Entity(name, "thing", "entity") for name in ours])
    await a.apply(Entity(f"{h.namespace}~", "thing", "entity"), Put("doc", "1"))
    names = list(await a.engine.namespaces())
    assert names == sorted(set(names), key=str.encode)
    assert {*ours, f"{h.namespace}~"} <= set(names)
