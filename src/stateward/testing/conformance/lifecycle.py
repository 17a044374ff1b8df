"""An engine opens, closes, opens again, has a sibling, and says what it is."""

from __future__ import annotations

from stateward.ops import Acquire, Append, Applied, Commit, Fetch, Fetched, Log, Put, Renew
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Harness, bodies, hidden, is_a, lines


@case
async def a_durable_store_is_the_same_when_all_replicas_are_gone(h: Harness) -> None:
    entity = h.entity()
    first = h.make_engine()
    await first.open()
    try:
        commit = Commit(
            entity, h.new_id(), (Append(bodies(1), key="k"), Put("doc", "1")), owner="u"
        )
        await first.execute((commit,))
        before = (await first.execute((Fetch(entity, None, Log(details=True), (), True),)))[0]
    finally:
        await first.close()
    if first.capabilities.durable:
        a = await h.replica()
        assert await a.everything(entity) == before
        assert is_a(before, Fetched).head.version == 1


@case
async def an_engine_opens_again_after_it_was_closed(h: Harness) -> None:
    engine = h.make_engine()
    entity = h.entity()
    for number in (1, 2, 3):
        await engine.open()
        try:
            await engine.execute((Commit(entity, h.new_id(), (Append(bodies(number)),)),))
            fetched = is_a((await engine.execute((Fetch(entity, log=Log(last=1)),)))[0], Fetched)
            assert fetched.lines == lines(number)
        finally:
            await engine.close()


@case
async def a_sibling_is_a_blocking_replica_of_the_same_store(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    lease = (await a.apply(entity, Acquire("n", h.span), Append(bodies(1)))).lease
    assert lease is not None
    sibling = a.engine.sibling()
    sibling.open()
    try:
        renew = Commit(entity, h.new_id(), (Renew(lease.token, "n", 5 * h.span), Append(bodies(2))))
        renewed = is_a(sibling.execute((renew,))[0], Applied)
        fetched = is_a(sibling.execute((Fetch(entity, log=Log()),))[0], Fetched)
        assert fetched.lines == lines(1, 2)
    finally:
        sibling.close()
    assert (await a.head(entity)).lease == hidden(renewed.lease)
    assert (await a.apply(entity, Append(bodies(3)))).version == 3, "closing it closes nothing else"


@case
async def an_engine_describes_itself(h: Harness) -> None:
    a = await h.replica()
    about = await a.engine.describe()
    assert about.engine
    assert about.version
    assert about.durability
    assert about.schema >= 1
    assert about.bytes is None or about.bytes >= 0
    assert list(await a.engine.migrate()) == [], "an open store is up to date"
