"""Workflows that were written before there were checkpoints: they go on, and are operated."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.steps import Steps
from stateward.ops import Append, Entity, Put, SetHead

OLD_DOCUMENTS = {
    "meta": '{"kind":"refund","input":{"order":7},"machine":{"new":["checked"],"checked":[]}}',
    "state": '{"at":"approval"}',
    "step": '{"at":"checked"}',
}
OLD_ENTRIES = {
    "step:fetch#1": '{"step":"fetch#1","value":{"order":7}}',
    "": (
        '{"step":"pay#1","failed":{"type":"ValueError","message":"no such card","permanent":false,'
        '"classes":["builtins:ValueError","builtins:Exception","builtins:BaseException"]}}'
    ),
    "step:transition checked#1": (
        '{"transition":["new","checked"],"step":"transition checked#1","value":"new"}'
    ),
    "signal:4:news:n1": '{"signal":"news","value":"good"}',
    "begun:sleep#1": '{"begun":"sleep#1"}',
    "wait:sleep#1": '{"wait":"sleep#1","slept":true}',
    "begun:wait news#1": '{"begun":"wait news#1"}',
    "wait:wait news#1": '{"wait":"wait news#1","taken":4,"value":"good"}',
    "begun:wait approval#1": '{"begun":"wait approval#1"}',
    "signal:4:news:n2": '{"signal":"news","value":"more"}',
}


async def write_as_of_old(h: StoreHarness, id: str) -> None:
    """A parked workflow, byte for byte as it was written before there were checkpoints."""
    replica = await h.replica()
    entity = Entity(h.namespace, "workflow", id)
    begin = SetHead(status="active", label="refund")
    puts = [Put(name, text) for name, text in OLD_DOCUMENTS.items()]
    await replica.apply(entity, begin, *puts, owner="u")
    for key, body in OLD_ENTRIES.items():
        await replica.apply(entity, Append((body,), key or None), owner="u")


async def refund(run: Any, steps: Steps) -> list[Any]:
    """The code that wrote it."""
    order = await run.step("fetch", steps.make, "fetch")
    declined = ""
    try:
        await run.step("pay", steps.make, "pay")
    except ValueError as error:
        declined = str(error)
    was = await run.transition("checked")
    await run.sleep(0.0)
    news = await run.wait("news")
    granted = await run.wait("approval", timeout=1e6)
    return [order, declined, was, news, granted, await run.wait("news")]


@case
async def a_workflow_that_was_written_before_checkpoints_goes_on(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await write_as_of_old(h, "w")
        steps = Steps()
        async with store.workflow("w", user="u") as run:
            assert (run.kind, run.input, run.state) == ("refund", {"order": 7}, {"at": "approval"})
            assert (run.at, run.checkpointed, run.has_loose_ends) == ("checked", None, False)
            await refund(run, steps)
        assert run.parked
        assert not await store.workflow("w").signal("news", "good", key="n1")  # it is known
        assert await store.workflow("w").signal("approval", True)
        came_to = [{"order": 7}, "no such card", "new", "good", True, "more"]
        async with other.workflow("w", kind="refund", input={"order": 7}) as run:
            assert await refund(run, steps) == came_to
            await run.checkpoint(came_to)
            await run.step("tell", steps.make, "tell")
            await run.wait("the end")
        async with store.workflow("w") as run:
            assert run.checkpointed == came_to
            assert await run.step("tell", steps.make, "tell again") == "tell made"
        assert (run.status, steps.made) == ("active", ["tell"])
        info = await store.workflow("w").info()
        assert info is not None
        assert (info.status, info.user, info.step) == ("completed", "u", "checked")


@case
async def a_workflow_that_was_written_before_checkpoints_is_operated(h: StoreHarness) -> None:
    async with h.store() as store:
        await write_as_of_old(h, "w")
        await store.workflow("w").fork("wait approval#1", id="f")
        assert await store.workflow("w").cancel("by hand")
        assert await store.workflow("w").retry()
        for id_ in ("w", "f"):
            steps = Steps()
            await store.workflow(id_).signal("approval", id_)
            await store.workflow(id_).signal("news", "later")  # the fork has not got the earlier
            async with store.workflow(id_) as run:
                news = "more" if id_ == "w" else "later"
                assert (await refund(run, steps))[-2:] == [id_, news]
            assert steps.made == []
