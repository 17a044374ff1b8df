"""Which processes have a store open: they say so in the store, and any other can ask."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import severable, until
from stateward.errors import InvalidInput
from stateward.kinds import HEARTBEAT
from stateward.ops import Put, SetHead
from stateward.state.replica_record import RETAIN, Beat, beating
from stateward.store import Store
from stateward.testing.conformance.harness import raises

SOON = 0.1  # seconds: the shortest there is


async def shown(h: StoreHarness, store: Store, **wanted: Any) -> str:
    """Wait until a process with these counts shows; its id."""
    found: list[str] = []

    async def is_there() -> bool:
        found[:] = [
            info.id
            for info in await store.replicas()
            if all(getattr(info.counts, name) >= count for name, count in wanted.items())
        ]
        return bool(found)

    await until(h, is_there)
    return found[0]


@case
async def a_process_shows_in_the_store_with_what_it_has_counted(h: StoreHarness) -> None:
    async with h.store(heartbeat=SOON) as store, h.store(heartbeat=None) as other:
        await store.thread("t").append({"n": 1}, key="k")
        await store.thread("t").append({"n": 1}, key="k")
        await store.thread("t").load()
        await shown(h, other, writes=2, reads=1)
        (info,) = await other.replicas()
        assert [info.id] == [its.id for its in await store.replicas()]
        assert info.id.startswith(f"{info.host}:{info.pid}:")
        assert f"{info.host}:{info.pid}" == h.world.name()
        assert (info.namespace, info.every) == (h.namespace, SOON)
        assert info.engine == (store.sections["threads"].capabilities.system or "other")
        assert (info.counts.failures, info.counts.lost, info.counts.alarms) == (0, 0, ())
        assert info.version
        await store.thread("t").load()
        await shown(h, other, reads=2)  # another beat


@case
async def tenants_share_one_heartbeat_and_it_is_nobodys_state(h: StoreHarness) -> None:
    async with h.store(heartbeat=SOON) as store:
        tenant = store.within(h.new_id())
        id = await shown(h, tenant)
        assert [info.id for info in await store.replicas()] == [id]
        for each in (store, tenant):
            assert await each.counts() == {}
            assert [user async for user in each.users()] == []
        listed = await (await h.replica()).listing(tenant.sections["threads"].namespace)
        assert listed.entities == ()
        assert store.metrics().value("stateward_operations_total", operation="commit") == 0


@case
async def who_closes_the_store_says_so(h: StoreHarness) -> None:
    async with h.store(heartbeat=None) as other:
        async with h.store(heartbeat=SOON) as store:
            id = await shown(h, other)
            await store.thread("t").append({"n": 1})
        (info,) = await other.replicas()
        assert (info.id, info.status, info.alive) == (id, "closed", False)
        assert info.counts.writes == 1


@case
async def one_that_is_switched_off_writes_nothing(h: StoreHarness) -> None:
    async with (
        h.store(heartbeat=None) as store,
        h.store(heartbeat=0) as also,
        h.store(heartbeat=SOON) as third,
    ):
        for each in (store, also, third):
            await each.thread("t").load()
        id = await shown(h, store, reads=1)
        await third.thread("t").load()
        await shown(h, store, reads=2)
        assert [info.id for info in await also.replicas()] == [id]
    for wrong in (-1, 0.05, 601, True, "10", float("nan")):
        with raises(InvalidInput):
            h.store(heartbeat=wrong)


@case
async def one_that_never_beat_leaves_nothing(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        assert await store.replicas() == []
    async with h.store() as store:
        assert await store.replicas() == []


@clock_case
async def one_that_stops_is_gone_by_the_stores_clock_and_then_forgotten(h: StoreHarness) -> None:
    async with h.store(heartbeat=None) as store:
        replica = await h.replica()
        dead, alive = (h.entity(name, HEARTBEAT) for name in ("host:1:a", "host:2:b"))
        said = Beat(host="host", pid=1, version="9", every=10.0, started=h.world.now())
        await replica.execute(beating(dead, h.new_id(), said))
        await replica.execute(beating(alive, h.new_id(), said))
        assert [info.status for info in await store.replicas()] == ["alive", "alive"]
        await h.pass_time(29)
        await replica.execute(beating(alive, h.new_id(), said))
        assert [info.status for info in await store.replicas()] == ["alive", "alive"]
        await h.pass_time(2)
        found = [(info.id, info.status) for info in await store.replicas()]
        assert found == [(alive.id, "alive"), (dead.id, "gone")]
        await replica.execute(beating(dead, h.new_id(), said))
        assert [info.status for info in await store.replicas()] == ["alive", "alive"]
        await h.pass_time(RETAIN + 1)
        assert await store.replicas() == []


@case
async def what_another_release_writes_is_shown_as_far_as_it_is_known(h: StoreHarness) -> None:
    async with h.store(heartbeat=None) as store:
        replica = await h.replica()
        new = '{"host":"h","pid":7,"version":"2.0","more":[1],"counts":{"reads":3,"odd":{}}}'
        for id, text in (("new", new), ("odd", '{"host":7,"counts":"many"}')):
            writes = (Put(HEARTBEAT, text), SetHead(due_in=100))
            await replica.commit(h.entity(id, HEARTBEAT), *writes)
        found = {info.id: info for info in await store.replicas()}
        assert found["new"].alive
        assert (found["new"].host, found["new"].pid, found["new"].counts.reads) == ("h", 7, 3)
        assert found["odd"].alive


@case
async def after_an_outage_the_beats_go_on(h: StoreHarness) -> None:
    async with (
        severable(h, heartbeat=SOON, breaker_seconds=0.05) as store,
        h.store(heartbeat=None) as other,
    ):
        await shown(h, other)
        with store.faults.unavailable():
            await until(h, lambda: store.counters.heartbeats_failed > 1)
        failed = store.counters.heartbeats_failed
        assert store.metrics().value("stateward_heartbeats_failed_total") >= failed
        read = (await other.replicas())[0].counts.reads

        async def is_well() -> bool:
            return (await store.health()).ok

        await until(h, is_well)
        await shown(h, other, reads=read + 1)
        assert len(await other.replicas()) == 1


@case
async def closing_while_the_store_is_down_asks_it_nothing(h: StoreHarness) -> None:
    async with h.store(heartbeat=None) as other:
        async with severable(h, heartbeat=SOON) as store:
            await shown(h, other)
            outage = store.faults.unavailable()
            await until(h, lambda: store.counters.heartbeats_failed > 0)
            asked = outage.fired
        assert outage.fired <= asked + 1  # one that was under way
        assert (await other.replicas())[0].status != "closed"
