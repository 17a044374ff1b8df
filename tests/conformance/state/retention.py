"""How long a thread is kept, said after it was begun; and pins."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.threads import numbered
from stateward.errors import InvalidInput, NotYoursError
from stateward.testing.conformance.harness import raises


async def kept(h: StoreHarness, id: str = "t") -> float | None:
    """The retention that is stored."""
    return (await (await h.replica()).head(h.entity(id, "thread"))).retain


@case
async def a_retention_can_be_said_later(h: StoreHarness) -> None:
    async with h.store(retain=1000.0) as store, h.store() as other:
        assert store.retention == 1000.0
        thread = store.thread("t", user="u")
        await thread.append({"n": 1})
        await other.thread("t", user="u").retain(timedelta(seconds=500))
        assert await kept(h) == 500.0
        await thread.append({"n": 2})
        assert await kept(h) == 500.0, "appending leaves it as it was said"
        await thread.retain(None)
        assert await kept(h) is None
        info = await anext(store.threads())
        assert info.expires_at is None
        await thread.retain(60)
        info = await anext(store.threads())
        assert info.expires_at is not None
        assert info.expires_at - info.updated_at == timedelta(seconds=60)
        assert (await thread.load()).messages == numbered(1, 2)


@case
async def a_retention_counts_from_when_it_is_said(h: StoreHarness) -> None:
    async with h.store(retain=h.span) as store:
        thread = store.thread("t")
        await thread.append({"n": 1})
        await h.pass_time(h.span * 0.6)
        await thread.retain(h.span)
        await h.pass_time(h.span * 0.6)
        assert (await thread.load()).exists
        await h.pass_time(h.span * 0.6)
        assert not (await thread.load()).exists


@case
async def a_pinned_thread_is_kept_until_it_is_unpinned(h: StoreHarness) -> None:
    async with h.store(retain=h.span) as store, h.store() as other:
        thread = store.thread("t", user="u")
        await thread.append({"n": 1})
        await other.thread("t", user="u").pin()
        await thread.pin()
        await h.pass_time(h.span * 2)
        assert (await thread.load()).messages == numbered(1)
        said = other.thread("t", user="u", retain=h.span)
        await said.append({"n": 2}, key="k")
        assert (await said.append({"n": 2}, key="k")).status == "duplicate"
        await said.append({"n": 3}, expect=2, vars={"topic": "steak"})
        assert await kept(h) is None, "a handle that says otherwise does not unpin"
        assert (await thread.load()).messages == numbered(1, 2, 3)
        await thread.unpin()
        await thread.unpin()
        assert await kept(h) == h.span
        await h.pass_time(h.span * 0.6)
        assert (await thread.load()).exists, "its time begins when it is unpinned"
        await h.pass_time(h.span * 0.6)
        assert not (await thread.load()).exists


@case
async def what_is_said_of_a_pinned_thread_counts_when_it_is_unpinned(h: StoreHarness) -> None:
    async with h.store(retain=1000.0) as store:
        thread = store.thread("t")
        await thread.append({"n": 1})
        spans: tuple[Any, ...] = (500.0, None)
        for span in spans:
            await thread.pin()
            await thread.retain(span)
            assert await kept(h) is None
            await thread.unpin()
            assert await kept(h) == span


@case
async def what_does_not_exist_is_not_begun_by_keeping_it(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("theirs", user="u").append({"n": 1})
        for call in ("retain", "pin", "unpin"):
            arguments = (60.0,) if call == "retain" else ()
            with raises(InvalidInput):
                await getattr(store.thread("none"), call)(*arguments)
            for stranger in ("v", None):
                with raises(NotYoursError):
                    await getattr(store.thread("theirs", user=stranger), call)(*arguments)
        assert [info.id async for info in store.threads()] == ["theirs"]


@case
async def pins_and_archives_do_not_undo_each_other(h: StoreHarness) -> None:
    """Drawn sequences: kept for ever if pinned or archived, else for the retention set last."""
    async with h.store(retain=1000.0) as store, h.store(retain=1000.0) as other:
        for seed in range(3, 7):
            chance, id = Random(seed), f"t{seed}"
            pinned = archived = False
            retain = 1000.0
            await store.thread(id, user="u").append({"n": 1})
            for step in range(12):
                thread = chance.choice((store, other)).thread(id, user="u")
                match chance.choice(("pin", "unpin", "archive", "unarchive", "retain", "append")):
                    case "pin":
                        pinned = True
                        await thread.pin()
                    case "unpin":
                        pinned = False
                        await thread.unpin()
                    case "archive":
                        archived = True
                        await thread.archive()
                    case "unarchive":
                        archived = False
                        await thread.unarchive()
                    case "retain":
                        retain = float(1000 + step)
                        await thread.retain(retain)
                    case _:
                        await thread.append({"n": step})
                expected = None if pinned or archived else retain
                assert await kept(h, id) == expected, (seed, step, pinned, archived)
            shown = [info.id async for info in store.threads(user="u", archived=True)]
            assert (id in shown) == archived
