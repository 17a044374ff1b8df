"""What a task wrote is stored with the checkpoint after it, or by itself: never not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from graphs import at, checkpoint, echo
from langchain_core.messages import HumanMessage

import stateward
from stateward.errors import StateConflictError, StoreUnavailable
from stateward.integrations.langgraph import StatewardSaver, waiting_writes
from stateward.ops import Commit

LOOP: Any = {"source": "loop"}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever waits is taken along, however slow this machine is."""
    monkeypatch.setattr(waiting_writes, "MOMENT", 5.0)


def counted(store: stateward.Store, monkeypatch: pytest.MonkeyPatch) -> list[Commit]:
    """The commits that the store is asked for from now on."""
    commits: list[Commit] = []
    scope = store.sections["workflows"]
    execute = scope.execute

    async def note(ops: Any) -> Any:
        commits.extend(op for op in ops if isinstance(op, Commit))
        return await execute(ops)

    monkeypatch.setattr(scope, "execute", note)
    return commits


async def stored_of(store: stateward.Store, config: Any) -> list[tuple[str, str, Any]]:
    found = await StatewardSaver(store).aget_tuple(config)
    assert found is not None
    return found.pending_writes or []


async def two_steps(saver: StatewardSaver) -> tuple[Any, Any]:
    """A stored checkpoint, and what comes after it."""
    config = await saver.aput(at("t"), checkpoint(0, {}, {}), LOOP, {})
    return config, checkpoint(1, {}, {})


async def waiting(saver: StatewardSaver, config: Any, *values: Any) -> list[asyncio.Task[None]]:
    tasks = [
        asyncio.create_task(saver.aput_writes(config, [("k", value)], f"task {value}"))
        for value in values
    ]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    return tasks


@pytest.mark.usefixtures("patient")
async def test_a_turn_is_a_commit_for_each_checkpoint(
    store: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = echo(StatewardSaver(store))
    await graph.ainvoke({"messages": [HumanMessage("one")]}, at("t"))
    commits = counted(store, monkeypatch)
    await graph.ainvoke({"messages": [HumanMessage("two")]}, at("t"))
    assert len(commits) == 3
    history = [each async for each in echo(StatewardSaver(store)).aget_state_history(at("t"))]
    assert [len(each.tasks) for each in history] == [0, 1, 1, 0, 1, 1]
    assert all(task.result for each in history for task in each.tasks)


@pytest.mark.usefixtures("patient")
async def test_all_tasks_of_a_step_are_taken_along(
    store: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = StatewardSaver(store)
    config, after = await two_steps(saver)
    tasks = await waiting(saver, config, 1, 2, 3)
    commits = counted(store, monkeypatch)
    await saver.aput(config, after, LOOP, {})
    await asyncio.gather(*tasks)
    assert len(commits) == 1
    assert [value for *_, value in await stored_of(store, config)] == [1, 2, 3]


async def test_what_no_checkpoint_follows_is_stored_by_itself(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    config, _ = await two_steps(saver)
    await asyncio.gather(*(await waiting(saver, config, 1, 2)))
    assert [value for *_, value in await stored_of(store, config)] == [1, 2]


@pytest.mark.usefixtures("patient")
async def test_a_checkpoint_that_is_refused_loses_nothing(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    config, after = await two_steps(saver)
    tasks = await waiting(saver, config, 1)
    other = StatewardSaver(store)
    await other.aget_tuple(config)
    await other.aput(config, checkpoint(1, {}, {}), LOOP, {})
    with pytest.raises(StateConflictError):
        await saver.aput(config, after, LOOP, {})
    await asyncio.gather(*tasks)
    assert [value for *_, value in await stored_of(store, config)] == [1]


@pytest.mark.usefixtures("patient")
async def test_what_a_task_stored_first_stays(store: stateward.Store) -> None:
    saver, other = StatewardSaver(store), StatewardSaver(store)
    config, after = await two_steps(saver)
    assert await other.aget_tuple(config) is not None
    again = asyncio.create_task(saver.aput_writes(config, [("k", "second")], "task"))
    await asyncio.sleep(0)
    await asyncio.to_thread(other.put_writes, config, [("k", "first")], "task")
    await saver.aput(config, after, LOOP, {})
    await again
    assert await stored_of(store, config) == [("task", "k", "first")]


@pytest.mark.usefixtures("patient")
async def test_a_store_that_fails_the_checkpoint_may_take_the_writes(
    store: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = StatewardSaver(store)
    config, after = await two_steps(saver)
    tasks = await waiting(saver, config, 1)
    with monkeypatch.context() as patch:

        async def fail(_: Any) -> Any:
            raise StoreUnavailable("not now")

        patch.setattr(store.sections["workflows"], "execute", fail)
        with pytest.raises(StoreUnavailable):
            await saver.aput(config, after, LOOP, {})
    await asyncio.gather(*tasks)
    assert [value for *_, value in await stored_of(store, config)] == [1]


@pytest.mark.usefixtures("patient")
async def test_a_caller_that_is_cancelled_waits_no_more(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    config, after = await two_steps(saver)
    (task,) = await waiting(saver, config, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await saver.aput(config, after, LOOP, {})
    assert await stored_of(store, config) == []
    assert not saver._memory.waiting._waiting
    assert not saver._memory.waiting._under_way


@pytest.mark.usefixtures("patient")
async def test_what_comes_before_its_checkpoint_goes_with_it(
    store: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = StatewardSaver(store)
    config, after = await two_steps(saver)
    tasks = await waiting(saver, at("t", after["id"]), 1)
    commits = counted(store, monkeypatch)
    put = await saver.aput(config, after, LOOP, {})
    await asyncio.gather(*tasks)
    assert len(commits) == 1
    assert [value for *_, value in await stored_of(store, put)] == [1]
