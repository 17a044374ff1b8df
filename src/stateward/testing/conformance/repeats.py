"""A lost reply is survivable: a known op or key answers with what was stored at first."""

from __future__ import annotations

from msgspec.structs import replace

from stateward.engine import CALL_SECONDS, KEY_SECONDS, KEYS_KEPT, OPS_KEPT, OPS_MOST, OPS_SECONDS
from stateward.ops import (
    Acquire,
    Append,
    Applied,
    Commit,
    Conflict,
    Delete,
    Drop,
    Duplicate,
    KeyReused,
    Log,
    LogAt,
    NotYours,
    Put,
    Release,
    Renew,
    Replace,
    SetHead,
    Trim,
    Write,
)
from stateward.testing.conformance.cases import case, clock_case
from stateward.testing.conformance.harness import Harness, bodies, is_a, lines

# --- ops --------------------------------------------------------------------------------


@case
async def a_repeated_op_answers_with_its_first_outcome_whatever_it_wrote(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    granted = await a.apply(entity, Append(bodies(1, 2, 3)), Put("old", "1"), Acquire("n", h.span))
    assert granted.lease is not None
    token = granted.lease.token
    several: list[tuple[Write, ...]] = [
        (Append(bodies(4)),),
        (Append(bodies(5, 6)),),
        (Append(bodies(7), key="k"),),
        (Put("doc", "1"),),
        (Put("doc", "2"),),
        (Delete("old"),),
        (Trim(1),),
        (Replace({2: None, 3: '{"n":33}'}),),
        (SetHead(status="s", due=5.0),),
        (Acquire("n", h.span),),
        (Renew(token, "n", h.span),),
        (Release(token, "n"),),
        (Append(bodies(8)), Put("doc", "3"), Delete("none"), SetHead(status="t")),
        (Drop(),),
    ]
    for writes in several:
        op = h.new_id()
        first = await a.apply(entity, *writes, op=op)
        after = await a.everything(entity)
        for replica in (a, b):
            again = is_a(await replica.commit(entity, *writes, op=op), Duplicate)
            assert again.own
            assert again.first == first, writes
        assert await b.everything(entity) == after, writes


@case
async def a_repeated_append_is_known_in_a_batch_of_others_wherever_its_entry_is(h: Harness) -> None:
    a = await h.replica()
    for size in (4, 80):
        names = [h.entity(f"{size}-{number}") for number in range(5 + size)]
        logged, trimmed, dropped, strange, new, *plain = names
        first = {entity: h.new_id() for entity in (logged, trimmed, dropped)}
        for entity in (logged, trimmed, dropped, strange, *plain):
            await a.apply(entity, Append(bodies(1)), owner="u")
        for entity, op in first.items():
            await a.apply(entity, Append(bodies(2, 3)), op=op)
        await a.apply(trimmed, Trim(3))
        await a.apply(dropped, Drop())
        await a.apply(dropped, Append(bodies(4)), owner="u")
        repeated = [Commit(entity, op, (Append(bodies(2, 3)),)) for entity, op in first.items()]
        fresh = [
            Commit(entity, h.new_id(), (Append(bodies(2, 3, 4)[: 1 + number % 3]),), owner="u")
            for number, entity in enumerate(plain)
        ]
        begun = Commit(new, h.new_id(), (Append(bodies(1)),), owner="u")
        refused = Commit(strange, h.new_id(), (Append(bodies(2)),), owner="somebody else")
        outcomes = await a.execute(*repeated, refused, begun, *fresh)
        for outcome, commit in zip(outcomes[:3], repeated, strict=True):
            again = is_a(outcome, Duplicate)
            assert again.own
            assert (again.first.version, again.first.stamp) == (3, commit.op)
        is_a(outcomes[3], NotYours)
        assert is_a(outcomes[4], Applied).created
        for number, (outcome, commit) in enumerate(zip(outcomes[5:], fresh, strict=True)):
            assert is_a(outcome, Applied).version == 2 + number % 3
            fetched = await a.fetch(commit.entity, Log(details=True))
            assert [entry.body for entry in fetched.entries] == [
                *bodies(1, 2, 3, 4)[: 2 + number % 3]
            ]
            assert fetched.entries[-1].stamp == fetched.head.stamp == commit.op
        assert (await a.fetch(logged, Log())).lines == lines(1, 2, 3)
        assert (await a.fetch(strange, Log())).lines == lines(1)


@case
async def the_op_that_created_an_entity_says_so_again(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    first = await a.apply(entity, Append(bodies(1)), op=op, owner="u")
    again = is_a(await a.commit(entity, Append(bodies(1)), op=op, owner="u"), Duplicate)
    assert first.created
    assert again.first == first


@case
async def a_repeated_op_is_known_though_its_checks_no_longer_hold(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    first = await a.apply(entity, Append(bodies(1)), op=op, checks=(LogAt(0),))
    await a.apply(entity, Append(bodies(2)))
    again = is_a(await a.commit(entity, Append(bodies(1)), op=op, checks=(LogAt(0),)), Duplicate)
    assert again.first == first
    assert (await a.fetch(entity, Log())).lines == lines(1, 2)


@case
async def a_refused_op_is_not_remembered(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    is_a(await a.commit(entity, Append(bodies(1), key="k"), op=op, checks=(LogAt(1),)), Conflict)
    is_a(await a.commit(entity, Append(bodies(1), key="k"), op=op, checks=(LogAt(1),)), Conflict)
    assert (await a.apply(entity, Append(bodies(1), key="k"), op=op)).version == 1


@case
async def ops_are_remembered_by_each_entity_for_itself(h: Harness) -> None:
    a = await h.replica()
    op = h.new_id()
    for entity in (h.entity("1"), h.entity("2"), h.entity("1", kind="other")):
        assert (await a.apply(entity, Append(bodies(1), key="k"), op=op)).version == 1


@case
async def an_op_that_was_applied_before_a_drop_brings_nothing_back(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    append, put = h.new_id(), h.new_id()
    await a.apply(entity, Append(bodies(1)), op=append)
    await a.apply(entity, Put("doc", "1"), op=put)
    await a.apply(entity, Drop())
    is_a(await b.commit(entity, Append(bodies(1)), op=append), Duplicate)
    is_a(await b.commit(entity, Put("doc", "1"), op=put), Duplicate)
    assert not (await b.head(entity)).exists
    await a.apply(entity, Put("doc", "2"))
    is_a(await b.commit(entity, Put("doc", "1"), op=put), Duplicate)
    assert (await b.everything(entity)).documents["doc"].json == "2"


@case
async def what_is_remembered_of_ops_before_a_drop_names_no_documents(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    several: list[tuple[Write, ...]] = [
        (Put('the \x00 "diagnosis"', "1"), Acquire("n", h.span, "me")),
        (Append(bodies(1)), Put("doc", "1"), Put("doc2", "1"), SetHead(status="s")),
        (Delete("doc"),),
        (Append(bodies(2)),),
    ]
    for _ in range(2):
        firsts = [
            (op := h.new_id(), writes, await a.apply(entity, *writes, op=op)) for writes in several
        ]
        for _ in range(2):  # also what does not exist can be dropped
            await a.apply(entity, Drop())
            for op, writes, first in firsts:
                again = is_a(await b.commit(entity, *writes, op=op), Duplicate)
                assert again.first == replace(first, documents={})


@case
async def a_repeated_drop_does_not_drop_the_next_life(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    op = h.new_id()
    await a.apply(entity, Append(bodies(1)))
    await a.apply(entity, Drop(), op=op)
    await a.apply(entity, Append(bodies(2)))
    is_a(await a.commit(entity, Drop(), op=op), Duplicate)
    assert (await a.fetch(entity, Log())).lines == lines(2)


@case
async def an_append_is_known_though_its_entries_are_gone(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(0)))
    firsts = [await a.apply(entity, Append(bodies(n, n)), op=h.new_id()) for n in range(3)]
    gone: list[Write] = [Replace({2: None, 3: None}), Trim(4), Trim(7), Drop(), Append(bodies(9))]
    for write in gone:
        await a.apply(entity, write)
        await a.sweep_all()
        for number, first in enumerate(firsts):
            again = await b.commit(entity, Append(bodies(number, number)), op=first.stamp)
            assert is_a(again, Duplicate).first == first, write
    assert (await a.fetch(entity, Log())).lines == lines(9)


@clock_case
async def an_append_is_known_after_its_conversation_has_expired(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(0)), retain=h.span)
    first = await a.apply(entity, Append(bodies(1)), op=h.new_id())
    await h.pass_time(h.span)
    is_a(await a.commit(entity, Append(bodies(1)), op=first.stamp), Duplicate)
    assert (await a.apply(entity, Append(bodies(2)))).version == 1
    await a.sweep_all()
    is_a(await a.commit(entity, Append(bodies(1)), op=first.stamp), Duplicate)
    assert (await a.fetch(entity, Log())).lines == lines(2)


@clock_case
async def the_last_ops_are_remembered_however_old(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    ops = [h.new_id() for _ in range(OPS_KEPT)]
    for op in ops:
        await h.pass_time(2 * OPS_SECONDS)
        await a.apply(entity, Put("doc", "1"), op=op)
    await h.pass_time(100 * OPS_SECONDS)
    for version, op in enumerate(ops, 1):
        again = is_a(await a.commit(entity, Put("doc", "1"), op=op), Duplicate)
        assert again.first.documents == {"doc": version}


@case
async def many_recent_ops_are_remembered(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = h.new_id()
    await a.apply(entity, Append(bodies(0)), op=first)
    for number in range(1, OPS_MOST):
        await a.apply(entity, Append(bodies(number)))
    again = is_a(await a.commit(entity, Append(bodies(0)), op=first), Duplicate)
    assert again.first.version == 1
    assert (await a.head(entity)).version == OPS_MOST


@clock_case
async def the_ops_of_calls_under_way_are_remembered_however_many(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    first = h.new_id()
    await a.apply(entity, Put("doc", "0"), op=first)
    for number in range(2 * OPS_MOST + 100):
        if number == OPS_MOST:
            await h.pass_time(CALL_SECONDS / 2)
        await a.apply(entity, Put("doc", str(number)))
    again = is_a(await a.commit(entity, Put("doc", "0"), op=first), Duplicate)
    assert again.first.documents == {"doc": 1}


# --- keys -------------------------------------------------------------------------------


@case
async def a_repeated_key_answers_with_the_append_it_named(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(0)))
    first = await a.apply(entity, Append(bodies(1, 2), key="k"))
    await a.apply(entity, Append(bodies(3)))
    again = is_a(await b.commit(entity, Append(bodies(1, 2), key="k")), Duplicate)
    assert not again.own
    assert (again.first.version, again.first.stamp, again.first.at) == (3, first.stamp, first.at)
    assert (await b.fetch(entity, Log())).lines == lines(0, 1, 2, 3)


@case
async def a_key_with_other_bodies_is_refused(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(('"1"', '"2"'), key="k"))
    for other in (
        ('"1"',),
        ('"2"',),
        ('"2"', '"1"'),
        ('"1"', '"2"', '"3"'),
        ('"12"',),
        ('"1"', '"2" '),
        ('"1"', '"3"'),
    ):
        refused = is_a(await a.commit(entity, Append(other, key="k")), KeyReused)
        assert (refused.key, refused.version) == ("k", 2)
    assert (await a.head(entity)).version == 2


@case
async def a_key_names_an_append_of_one_log(h: Harness) -> None:
    a = await h.replica()
    for entity in (h.entity("1"), h.entity("2"), h.entity("1", kind="other")):
        assert (await a.apply(entity, Append(bodies(1), key="k"))).version == 1
        for other in ("K", "k ", " k", "k\x00"):
            await a.apply(entity, Append(bodies(2), key=other))
        assert (await a.head(entity)).version == 5


@case
async def a_key_is_known_after_its_entries_were_trimmed_or_rewritten(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for number in (1, 2, 3):
        await a.apply(entity, Append(bodies(number, number), key=str(number)))
    await a.apply(entity, Replace({3: '"other"', 5: None, 6: None}))
    await a.apply(entity, Trim(2))
    for number in (1, 2, 3):
        again = await a.commit(entity, Append(bodies(number, number), key=str(number)))
        assert is_a(again, Duplicate).first.version == 2 * number
        is_a(await a.commit(entity, Append(bodies(9), key=str(number))), KeyReused)
    await a.apply(entity, Trim(6))
    is_a(await a.commit(entity, Append(bodies(3, 3), key="3")), Duplicate)


@case
async def an_op_is_known_after_its_entries_were_trimmed_whatever_it_wrote_besides(
    h: Harness,
) -> None:
    a = await h.replica()
    for plain in ((), (0,), (3,), (0, 1, 4, 5)):  # which of them are appends and nothing else
        entity = h.entity(f"{plain}")
        ops = [h.new_id() for _ in range(7)]
        for number, op in enumerate(ops):
            record = Append(bodies(number))
            await a.apply(
                entity, *((record,) if number in plain else (Put("doc", "1"), record)), op=op
            )
        for upto in (2, 5, 7):
            await a.apply(entity, Trim(upto))
            for number, op in enumerate(ops):
                again = is_a(await a.commit(entity, Append(bodies(0)), op=op), Duplicate)
                assert again.own
                assert again.first.version == number + 1
                assert bool(again.first.documents) == (number not in plain)
        await a.apply(entity, Drop())
        for op in ops:
            assert is_a(await a.commit(entity, Append(bodies(0)), op=op), Duplicate).own


@case
async def an_append_with_the_op_of_another_kind_of_commit_is_not_applied(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1)))
    for write in (Put("doc", "1"), SetHead(status="s"), Acquire("n", h.span)):
        op = h.new_id()
        first = await a.apply(entity, write, op=op)
        again = is_a(await a.commit(entity, Append(bodies(2)), op=op), Duplicate)
        assert again.own
        assert again.first == first
    assert (await a.fetch(entity, Log())).lines == lines(1)


@case
async def a_new_life_knows_no_key_of_the_old(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1), key="k"))
    await a.apply(entity, Drop())
    assert (await a.apply(entity, Append(bodies(2), key="k"))).version == 1
    is_a(await a.commit(entity, Append(bodies(1), key="k")), KeyReused)


@clock_case
async def a_key_is_known_for_days_and_through_many_commits(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1), key="k"))
    for _ in range(OPS_KEPT + 1):
        await h.pass_time(OPS_SECONDS)
        await a.apply(entity, Append(bodies(2)))
    await h.pass_time(KEY_SECONDS - (OPS_KEPT + 1) * OPS_SECONDS - 1.0)
    is_a(await a.commit(entity, Append(bodies(1), key="k")), Duplicate)
    is_a(await a.commit(entity, Append(bodies(2), key="k")), KeyReused)


@case
async def a_key_is_known_behind_many_entries(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    await a.apply(entity, Append(bodies(1), key="k"))
    for _ in range(10):
        await a.apply(entity, Append(("1",) * (KEYS_KEPT // 10 - 1)))
    await a.apply(entity, Trim(KEYS_KEPT - 10))
    is_a(await a.commit(entity, Append(bodies(1), key="k")), Duplicate)
    assert (await a.head(entity)).version == KEYS_KEPT - 9


@case
async def a_batch_sent_twice_is_applied_once(h: Harness) -> None:
    """Repeat a commit as a retry after a lost reply does."""
    a, b = await h.replica(), await h.replica()
    batch = [
        Commit(h.entity(str(number)), h.new_id(), (Append(bodies(number)), Put("doc", "1")))
        for number in range(20)
    ]
    first = await a.execute(*batch)
    again = await b.execute(*batch)
    assert [is_a(outcome, Duplicate).first for outcome in again] == first
    for number in range(20):
        fetched = await b.everything(h.entity(str(number)))
        assert (fetched.head.version, fetched.documents["doc"].version) == (1, 1)
