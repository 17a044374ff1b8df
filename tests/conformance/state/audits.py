"""The reports of audits, kept in a store."""

from __future__ import annotations

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.errors import InvalidInput, TooLarge
from stateward.kinds import AUDIT
from stateward.ops import Put
from stateward.records import AuditInfo
from stateward.state.audits import LARGEST, PIECE
from stateward.testing.conformance.harness import raises


@case
async def an_audit_is_kept_and_read_byte_for_byte(h: StoreHarness) -> None:
    async with h.store(heartbeat=None) as store:
        assert await store.audits.list() == []
        long = b"".join(h.world.new_id().encode() for _ in range(PIECE // 10))  # several pieces
        for day, report in (("01", b"{}"), ("03", long), ("02", b"\x00\xff\n")):
            info = AuditInfo(f"202611{day}", title="mine", answers={"pass": 3}, seed=int(day))
            await store.audits.keep(info, report)
            kept = await store.audits.get(info.id)
            assert kept is not None
            assert kept.report == report
            assert kept.info.bytes == len(report)
        found = await store.audits.list()
        assert [info.seed for info in found] == [3, 2, 1]  # the newest first
        assert found[0].kept_at is not None
        assert (found[0].title, found[0].answers) == ("mine", {"pass": 3})
        assert [info.seed for info in await store.audits.list(1)] == [3]
        assert await store.audits.get("20261104") is None
        assert await store.counts() == {}  # it is nobody's state


@case
async def an_audit_is_kept_once_and_nobody_elses_is_seen(h: StoreHarness) -> None:
    async with h.store(heartbeat=None) as store:
        await store.audits.keep(AuditInfo("a", title="first"), b"1")
        await store.audits.keep(AuditInfo("a", title="second"), b"2")
        kept = await store.audits.get("a")
        assert kept is not None
        assert (kept.info.title, kept.report) == ("first", b"1")
        assert await store.within(h.new_id()).audits.list() == []


@case
async def what_cannot_be_kept_or_read_is_said(h: StoreHarness) -> None:
    async with h.store(heartbeat=None) as store:
        with raises(TooLarge):
            await store.audits.keep(AuditInfo("a"), bytes(LARGEST + 1))
        with raises(InvalidInput):
            await store.audits.keep(AuditInfo(""), b"")
        replica = await h.replica()
        await replica.commit(h.entity("new", AUDIT), Put(AUDIT, '{"id":7}'))
        assert [info.id for info in await store.audits.list()] == ["new"]
        assert await store.audits.get("new") is None
