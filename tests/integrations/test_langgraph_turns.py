"""One run at a time in a thread, without anything but the saver."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from graphs import at, echo, said
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

import stateward
from stateward.integrations.langgraph import StatewardSaver
from stateward.integrations.turns import AgentRun, RunTurn
from stateward.ops import Entity, Lease
from stateward.world import World


def waiting_agent(saver: StatewardSaver, entered: Any, go_on: Any) -> Any:
    """A graph whose model is asked, and answers when it is told to."""

    async def answer(state: MessagesState) -> Any:
        entered.set()
        await go_on.wait()
        return {"messages": [AIMessage(f"heard {len(state['messages'])}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


async def test_a_run_waits_for_another_and_who_only_looks_does_not(url: str) -> None:
    async with StatewardSaver.from_url(url) as a, StatewardSaver.from_url(url) as b:
        entered, go_on = asyncio.Event(), asyncio.Event()
        slow = waiting_agent(a, entered, go_on)
        first = asyncio.create_task(slow.ainvoke({"messages": [("user", "a")]}, at("t")))
        await entered.wait()
        impatient = StatewardSaver(b._bridge, wait=0)
        while not (await echo(b).aget_state(at("t"))).next:  # noqa: ASYNC110 - nobody waits here
            await asyncio.sleep(0)
        with pytest.raises(stateward.LeaseHeld):
            await echo(impatient).ainvoke({"messages": [("user", "b")]}, at("t"))
        second = asyncio.create_task(echo(b).ainvoke({"messages": [("user", "b")]}, at("t")))
        go_on.set()
        await first
        assert said(await second) == ["a", "heard 1", "b", "you said: b"]


def test_a_blocking_run_waits_for_another(url: str) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def answer(state: MessagesState) -> Any:
        entered.set()
        assert go_on.wait(30)
        return {"messages": [AIMessage("at last")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    with (
        StatewardSaver.from_url(url) as a,
        StatewardSaver.from_url(url) as b,
        ThreadPoolExecutor() as threads,
    ):
        slow = builder.compile(checkpointer=a)
        asked = {"messages": [("user", "a")]}
        first = threads.submit(slow.invoke, asked, at("t"), durability="sync")
        assert entered.wait(30)
        second = threads.submit(echo(b).invoke, {"messages": [("user", "b")]}, at("t"))
        with pytest.raises(stateward.LeaseHeld):
            impatient = StatewardSaver(b._bridge, wait=0)
            echo(impatient).invoke({"messages": [("user", "c")]}, at("t"))
        go_on.set()
        first.result()
        assert said(second.result()) == ["a", "at last", "b", "you said: b"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_run_that_failed_or_was_interrupted_holds_up_nobody(
    url: str, durability: Any
) -> None:
    def answer(state: MessagesState) -> Any:
        if state["messages"][-1].content == "fail":
            raise ValueError("no model")
        return {"messages": [AIMessage(interrupt("may I?"))]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    async with StatewardSaver.from_url(url) as a, StatewardSaver.from_url(url, wait=0) as b:
        kept = []
        try:
            asked = {"messages": [("user", "fail")]}
            await builder.compile(checkpointer=a).ainvoke(asked, at("t"), durability=durability)
        except ValueError as error:
            kept.append(error)  # and with it all that was part of the run
        asked = {"messages": [("user", "ask")]}
        await builder.compile(checkpointer=b).ainvoke(asked, at("t"), durability=durability)
        resumed = builder.compile(checkpointer=StatewardSaver(a._bridge, wait=0))
        state = await resumed.ainvoke(Command(resume="yes"), at("t"))
        assert said(state) == ["fail", "ask", "yes"][-len(said(state)) :]


@pytest.mark.parametrize("where", ["interrupt_before", "interrupt_after"])
def test_a_run_that_was_to_stop_at_a_node_holds_up_nobody_in_its_process(
    url: str, where: str
) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [AIMessage("hi")]})
    builder.add_edge(START, "answer")
    with StatewardSaver.from_url(url, wait=0) as saver:
        graph = builder.compile(checkpointer=saver, **{where: ["answer"]})
        for question in ("a", "b"):
            graph.invoke({"messages": [("user", question)]}, at("t"))
        graph.invoke(None, at("t"))


def test_a_turn_is_not_renewed_for_a_run_that_only_an_exception_keeps() -> None:
    class Runs:
        itself: Any = None

    runs = Runs()
    runs.itself = runs  # as an exception keeps the frames that it came through
    turn = RunTurn(Entity("n", "k", "i"), AgentRun(1, runs), Lease(1, "n", "h", 0.0, 1.0), World())
    assert turn.is_alive()
    gc.disable()
    try:
        del runs
        assert turn.is_alive()
        turn.renewed(0.0)
        assert not turn.is_alive()
    finally:
        gc.enable()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_run_from_within_a_run_of_its_thread_does_not_wait_for_it(
    url: str, durability: Any
) -> None:
    async with StatewardSaver.from_url(url) as saver:
        inner = echo(StatewardSaver(saver._bridge, wait=0))

        async def ask(state: MessagesState) -> Any:
            asked = {"messages": [("user", "inside")]}
            state = await inner.ainvoke(asked, at("t"), durability=durability)
            return {"messages": [AIMessage(said(state)[-1])]}

        builder = StateGraph(MessagesState)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        outer = builder.compile(checkpointer=saver)
        # The inner one has continued the thread, which is told to the outer one.
        with pytest.raises(stateward.StateConflictError):
            await outer.ainvoke({"messages": [("user", "a")]}, at("t"), durability="sync")
        kept = said((await inner.aget_state(at("t"))).values)
        assert kept == ["a", "inside", "you said: inside"]
        await inner.ainvoke({"messages": [("user", "b")]}, at("t"))


def test_a_blocking_run_from_within_a_run_of_its_thread_does_not_wait_for_it(url: str) -> None:
    with StatewardSaver.from_url(url) as saver:
        inner = echo(StatewardSaver(saver._bridge, wait=0))

        def ask(state: MessagesState) -> Any:
            inner.invoke({"messages": [("user", "inside")]}, at("t"))

        builder = StateGraph(MessagesState)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        outer = builder.compile(checkpointer=saver)
        with pytest.raises(stateward.StateConflictError):
            outer.invoke({"messages": [("user", "a")]}, at("t"), durability="sync")
        kept = said(inner.get_state(at("t")).values)
        assert kept == ["a", "inside", "you said: inside"]


def test_who_is_in_the_middle_of_a_stream_does_not_wait_for_itself(url: str) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [AIMessage("hi")]})
    builder.add_edge(START, "answer")
    with StatewardSaver.from_url(url, wait=0) as saver:
        graph = builder.compile(checkpointer=saver, interrupt_before=["answer"])
        stream = graph.stream({"messages": [("user", "a")]}, at("t"), durability="sync")
        assert next(stream) == {"__interrupt__": ()}
        assert said(graph.invoke(None, at("t"))) == ["a", "hi"]
        assert list(stream) == []
