"""A commit is all or nothing, belongs to an owner, and a refusal says what is there."""

from __future__ import annotations

from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Head,
    Held,
    KeyReused,
    Log,
    LogAt,
    NotYours,
    Put,
    Release,
    Renew,
    SetHead,
    Write,
)
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Harness, bodies, hidden, is_a, lines, raises

# --- all or nothing ---------------------------------------------------------------------


@case
async def an_entity_that_was_never_written_is_absent(h: Harness) -> None:
    a = await h.replica()
    fetched = await a.everything(h.entity())
    assert fetched == Fetched(head=Head())
    assert fetched.head.version == 0
    assert not fetched.head.exists


@case
async def every_write_of_a_commit_is_there_at_once(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Put("gone", "1"))
    applied = await a.apply(
        entity,
        Append(bodies(1, 2)),
        Put("kept", "2"),
        Delete("gone"),
        SetHead(status="busy"),
        Acquire("nonce", h.span, "holder"),
    )
    fetched = await b.everything(entity)
    assert [entry.body for entry in fetched.entries] == [*bodies(1, 2)]
    assert {name: value.json for name, value in fetched.documents.items()} == {"kept": "2"}
    assert fetched.head.status == "busy"
    assert fetched.head.lease == hidden(applied.lease)
    assert applied.documents == {"kept": 1, "gone": 0}


@case
async def nothing_of_a_refused_commit_is_there(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    lease = (
        await a.apply(
            entity,
            Append(bodies(1), key="k"),
            Put("doc", "1"),
            Put("old", "1"),
            SetHead(status="old"),
            Acquire("mine", h.span),
            owner="u",
        )
    ).lease
    assert lease is not None
    before = await b.everything(entity)
    others = (Put("doc", "9"), Put("new", "9"), Delete("old"), SetHead(status="new"))
    append, stale = Append(bodies(9)), Fence(lease.token - 1, "mine")
    is_a(await a.commit(entity, *others, append, owner="v"), NotYours)
    is_a(await a.commit(entity, *others, Append(bodies(9), key="k")), KeyReused)
    is_a(await a.commit(entity, *others, Append(bodies(1), key="k")), Duplicate)
    is_a(await a.commit(entity, *others, append, checks=(stale,)), Fenced)
    is_a(await a.commit(entity, *others, append, checks=(LogAt(0),)), Conflict)
    is_a(await a.commit(entity, *others, append, Acquire("theirs", h.span)), Held)
    is_a(await a.commit(entity, *others, append, Renew(lease.token, "theirs", h.span)), Fenced)
    is_a(await a.commit(entity, *others, append, Release(None, "theirs")), Fenced)
    assert await b.everything(entity) == before


@case
async def a_refused_commit_does_not_create_its_entity(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    is_a(await a.commit(entity, Put("doc", "1"), checks=(LogAt(1),)), Conflict)
    is_a(await a.commit(entity, Put("doc", "1"), checks=(Fence(1, "n"),)), Fenced)
    assert await a.everything(entity) == Fetched(head=Head())
    assert await a.list_all(h.namespace, kind=entity.kind) == []


@case
async def a_commit_without_a_clear_meaning_is_refused_and_nothing_is_written(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)), Put("doc", "1"), Acquire("n", h.span))
    before = await b.everything(entity)
    put = Put("doc", "2")
    shapeless: tuple[tuple[Write, ...], ...] = (
        (),
        (Append(()),),
        (put, Append(())),
        (Append(bodies(2)), Append(bodies(3))),
        (put, Put("doc", "3")),
        (put, Delete("doc")),
        (SetHead(status="s"), SetHead(status="t")),
        (Acquire("n", h.span), Release(None, "n")),
        (put, Drop()),
        (Drop(), put),
    )
    for writes in shapeless:
        with raises(ValueError):
            await a.commit(entity, *writes)
        assert await b.everything(entity) == before, writes
    await a.apply(entity, Append(bodies(2)))


@case
async def a_refusal_in_a_batch_leaves_its_neighbours_alone(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    first, second, third = h.entity("1"), h.entity("2"), h.entity("3")
    outcomes = await a.execute(
        Commit(first, h.new_id(), (Put("doc", "1"),)),
        Commit(second, h.new_id(), (Put("doc", "2"),), (LogAt(7),)),
        Commit(third, h.new_id(), (Put("doc", "3"),)),
    )
    assert [type(outcome) for outcome in outcomes] == [Applied, Conflict, Applied]
    assert (await b.fetch(first, documents=("doc",))).documents["doc"].json == "1"
    assert (await b.fetch(third, documents=("doc",))).documents["doc"].json == "3"
    assert not (await b.head(second)).exists


@case
async def long_appends_of_one_batch_stay_apart(h: Harness) -> None:
    """Of several hundred entries each: how many there are takes more than one byte."""
    a, b = await h.replica(), await h.replica()
    entities = [h.entity(f"{number}") for number in range(4)]
    for step, size in enumerate((1, 300, 2, 600)):
        appends = [
            Commit(entity, f"{step} {entity.id}", (Append(bodies(*range(number, number + size))),))
            for number, entity in enumerate(entities)
        ]
        before = [(await a.head(entity)).version for entity in entities]
        for outcome, version in zip(await a.execute(*appends), before, strict=True):
            assert is_a(outcome, Applied).version == version + size
        for number, (entity, version) in enumerate(zip(entities, before, strict=True)):
            fetched = await b.fetch(entity, Log(after=version))
            assert fetched.lines == lines(*range(number, number + size))


@case
async def what_one_replica_was_told_is_stored_another_sees(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    for number in range(1, 6):
        writer, reader = (a, b) if number % 2 else (b, a)
        await writer.apply(entity, Append(bodies(number)))
        fetched = await reader.fetch(entity, Log())
        assert fetched.lines == lines(*range(1, number + 1))


# --- who owns it ------------------------------------------------------------------------


@case
async def an_entity_belongs_to_whom_it_was_created_for(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)), owner="u")
    assert (await b.head(entity)).owner == "u"
    for other in ("v", "", "U", "u "):
        assert await b.refuses(entity, other)
        is_a(await b.commit(entity, Append(bodies(2)), owner=other), NotYours)
        is_a(await b.commit(entity, Drop(), owner=other), NotYours)
    assert not await b.refuses(entity, "u")
    assert (await b.apply(entity, Append(bodies(2)), owner="u")).version == 2


@case
async def a_caller_that_names_no_owner_is_not_asked_for_one(h: Harness) -> None:
    a = await h.replica()
    entity, nobodys = h.entity("it"), h.entity("nobodys")
    await a.apply(entity, Append(bodies(1)), owner="u")
    assert (await a.apply(entity, Append(bodies(2)))).version == 2
    assert (await a.head(entity)).owner == "u"
    await a.apply(nobodys, Append(bodies(1)))
    assert (await a.head(nobodys)).owner == ""
    assert not await a.refuses(nobodys, "")
    assert await a.refuses(nobodys, "u")


@case
async def a_new_owner_shuts_out_the_old(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)))
    await a.apply(entity, SetHead(owner="u"), owner="")
    assert await a.refuses(entity, "")
    is_a(await a.commit(entity, SetHead(owner="v"), owner=""), NotYours)
    assert (await a.fetch(entity, Log(), owner="u")).lines == lines(1)


# --- what a refusal shows ---------------------------------------------------------------


@case
async def a_conflict_shows_what_is_there_now(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(
        entity, Append(bodies(1, 2)), Put("doc", "1"), Put("other", "2"), Put("third", "3")
    )
    now = await b.everything(entity)
    checks = (LogAt(2), DocumentAt("doc", 9), DocumentAt("missing", 0))
    outcome = await a.commit(entity, Put("doc", "9"), checks=checks, reading=("other", "missing"))
    conflict = is_a(outcome, Conflict)
    assert conflict.failed == DocumentAt("doc", 9)
    assert conflict.head == now.head
    assert conflict.values == {name: now.documents[name] for name in ("doc", "other")}


@case
async def every_refusal_shows_the_head_and_the_documents_asked_for(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    writes = (Append(bodies(1), key="k"), Put("doc", "1"), SetHead(status="s", label="l"))
    await a.apply(entity, *writes, Acquire("mine", h.span, "me"), op=op, owner="u")
    now = await a.everything(entity)
    put, reading = Put("doc", "2"), ("doc", "missing")
    refusals = (
        is_a(await a.commit(entity, put, op=op, reading=reading), Duplicate),
        is_a(await a.commit(entity, Append(bodies(1), key="k"), reading=reading), Duplicate),
        is_a(await a.commit(entity, Append(bodies(2), key="k"), reading=reading), KeyReused),
        is_a(await a.commit(entity, put, checks=(Fence(1, "n"),), reading=reading), Fenced),
        is_a(await a.commit(entity, put, checks=(LogAt(9),), reading=reading), Conflict),
        is_a(await a.commit(entity, Acquire("theirs", h.span), reading=reading), Held),
        is_a(await a.commit(entity, Renew(1, "theirs", h.span), reading=reading), Fenced),
        is_a(await a.commit(entity, Release(1, "mine"), reading=reading), Fenced),
    )
    for refusal in refusals:
        assert refusal.head == now.head, refusal
        assert refusal.values == now.documents, refusal


@case
async def a_refusal_over_an_absent_entity_shows_what_a_fetch_would(h: Harness) -> None:
    a = await h.replica()
    never, dropped, expired = h.entity("never"), h.entity("dropped"), h.entity("expired")
    op = h.new_id()
    await a.apply(dropped, Put("doc", "1"), op=op)
    await a.apply(dropped, Drop())
    await a.apply(expired, Put("doc", "1"), op=op, retain=h.span)
    await h.pass_time(h.span)
    for entity in (never, dropped, expired):
        head = await a.head(entity)
        put = Put("doc", "1")
        conflict = await a.commit(entity, put, checks=(DocumentAt("doc", 1),), reading=("doc",))
        fenced = await a.commit(entity, put, checks=(Fence(1, "n"),), reading=("doc",))
        assert conflict == Conflict(DocumentAt("doc", 1), head)
        assert fenced == Fenced(head)
        assert await a.commit(entity, Release(None, "n")) == Fenced(head)
        if entity is not never:
            assert is_a(await a.commit(entity, put, op=op), Duplicate).head == head


@case
async def reading_answers_with_what_was_there_before(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    first = await a.apply(entity, Put("doc", "1"), op=op, reading=("doc",))
    assert first.values == {}
    before = (await a.everything(entity)).documents
    second = await a.apply(
        entity, Put("doc", "2"), Append(bodies(1), key="k"), reading=("doc", "no")
    )
    assert second.values == before
    now = (await a.everything(entity)).documents
    repeated = is_a(await a.commit(entity, Put("doc", "1"), op=op, reading=("doc",)), Duplicate)
    assert repeated.values == now
    keyed = await a.commit(entity, Append(bodies(1), key="k"), reading=("doc",))
    assert is_a(keyed, Duplicate).values == now
    await a.apply(entity, Acquire("mine", h.span))
    held = await a.commit(entity, Acquire("theirs", h.span), reading=("doc",))
    assert is_a(held, Held).values == now
    dropped = await a.apply(entity, Drop(), reading=("doc",))
    assert dropped.values == now


@case
async def another_owner_is_shown_nothing(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)), Put("doc", '"secret"'), owner="u")
    refused = await a.commit(entity, Put("doc", "1"), owner="v", reading=("doc",))
    fetched = (await a.execute(Fetch(entity, "v", Log(), ("doc",), True)))[0]
    assert refused == fetched == NotYours()
