"""A user is erased amid any write of the LangGraph adapters: nothing comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conformance.erasures import (
    NEW,
    SECRET,
    USER,
    Prepare,
    Ready,
    at_url,
    each_of,
    erased_at_every_call,
    in_memory,
)
from integrations.graphs import at, checkpoint, echo
from langchain_core.messages import HumanMessage
from langgraph.store.base import GetOp, PutOp

from stateward.integrations.langgraph import StatewardSaver, StatewardStore


async def begun(saver: StatewardSaver) -> Any:
    """The newest checkpoint of a thread with three, and with what their tasks wrote."""
    config = at("t", user_id=USER)
    values: list[str] = []
    for step in range(3):
        values = [*values, f"{SECRET} {step}"]
        new = checkpoint(step, {"messages": values, "k": SECRET}, {"messages": f"{step + 1}"})
        told: Any = {"source": "loop" if step else "input", "told": SECRET, "run_id": f"r{step}"}
        config = await saver.aput(config, new, told, {"messages": f"{step + 1}"})
        config["configurable"]["user_id"] = USER
        await saver.aput_writes(config, [("messages", f"{SECRET}, too")], f"task {step}")
    return config


def of_saver(call: Callable[[StatewardSaver, Any], Awaitable[Any]], **options: Any) -> Prepare:
    async def prepare(store: Any, other: Any) -> Ready:
        saver = StatewardSaver(store, **options)
        config = await begun(saver if other is store else StatewardSaver(other, **options))
        return lambda: call(saver, config)

    return prepare


async def put(saver: StatewardSaver, config: Any) -> None:
    """What a run knows of the user, it stores again with each checkpoint."""
    values = {"messages": [*(f"{SECRET} {n}" for n in range(3)), NEW], "k": SECRET}
    new = checkpoint(4, values, {"messages": "4", "k": "2"})
    told: Any = {"source": "loop", "run_id": "r4"}
    await saver.aput(config, new, told, {"messages": "4"})


async def put_writes(saver: StatewardSaver, config: Any) -> None:
    await saver.aput_writes(config, [("messages", SECRET), ("k", NEW)], "another")


async def put_much(saver: StatewardSaver, config: Any) -> None:
    await saver.aput_writes(config, [("messages", SECRET * 1000), ("k", NEW)], "another")


async def put_along(saver: StatewardSaver, config: Any) -> None:
    """What a task wrote is taken along by the next checkpoint."""
    await asyncio.gather(put_writes(saver, config), put(saver, config))


async def put_early(saver: StatewardSaver, config: Any) -> None:
    """LangGraph stores checkpoints in the background, so what a task wrote may come first."""
    new = checkpoint(5, {"messages": [NEW]}, {"messages": "4"})
    await saver.aput_writes(at("t", new["id"], user_id=USER), [("messages", NEW)], "early")
    told: Any = {"source": "loop"}
    await saver.aput(config, new, told, {"messages": "4"})


async def run_twice(saver: StatewardSaver, config: Any) -> None:
    for text in (NEW, "harmless"):
        await echo(saver).ainvoke({"messages": [HumanMessage(text)]}, at("t2", user_id=USER))


async def copy_thread(saver: StatewardSaver, config: Any) -> None:
    await saver.acopy_thread("t", "copy")
    await saver.aget_tuple(at("copy"))


async def prune(saver: StatewardSaver, config: Any) -> None:
    await saver.aprune(["t"])


async def delete_for_runs(saver: StatewardSaver, config: Any) -> None:
    await saver.adelete_for_runs(["r2"])


def of_items(call: Callable[[StatewardStore], Awaitable[Any]]) -> Prepare:
    async def prepare(store: Any, other: Any) -> Ready:
        items = StatewardStore(store, user=USER, ttl={"default_ttl": 60, "refresh_on_read": True})
        first = items if other is store else StatewardStore(other, user=USER)
        for key in ("one", "two"):
            await first.aput(("memories",), key, {"said": SECRET}, ttl=60)
        return lambda: call(items)

    return prepare


async def put_items(items: StatewardStore) -> None:
    await items.aput(("memories",), "three", {"said": NEW})
    await items.aput(("memories",), "one", {"said": "harmless"})


async def read_and_put_items(items: StatewardStore) -> None:
    await items.aget(("memories",), "one")
    await items.asearch(("memories",))
    put = PutOp(("memories",), "three", {"said": NEW})
    await items.abatch([GetOp(("memories",), "two"), put])
    await items.aput(("memories",), "four", {"said": "harmless"})


CALLS: dict[str, Prepare] = {
    "put": of_saver(put),
    "put beside others": of_saver(put, on_conflict="fork"),
    "put_writes": of_saver(put_writes),
    "put_writes of much": of_saver(put_much),
    "put_writes along with the next": of_saver(put_along),
    "put_writes before its checkpoint": of_saver(put_early),
    "runs": of_saver(run_twice),
    "copy_thread": of_saver(copy_thread),
    "prune": of_saver(prune),
    "delete_for_runs": of_saver(delete_for_runs),
    "put of items": of_items(put_items),
    "batch of items": of_items(read_and_put_items),
}


@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back(call: str, remembers: bool, anew: bool) -> None:
    await erased_at_every_call(in_memory(), call, CALLS[call], remembers=remembers, anew=anew)


@pytest.mark.soak
@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back_on_any_engine(
    url: str, call: str, remembers: bool, anew: bool
) -> None:
    await erased_at_every_call(at_url(url), call, CALLS[call], remembers=remembers, anew=anew)
