"""What StatewardSaver promises beyond LangGraph's conformance suite."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import ormsgpack
import pytest
from graphs import at, checkpoint, echo, said, support_agent, tool_call
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

import stateward
from stateward.cli import main
from stateward.integrations.kept.langgraph_segments import records_of
from stateward.integrations.langgraph import StatewardSaver, StatewardStore
from stateward.integrations.langgraph import list_deltas as lists_module
from stateward.integrations.langgraph.serializer import StrictSerializer
from stateward.ops import Commit, Fetch, List, Put

pytestmark = pytest.mark.filterwarnings(
    "ignore::langchain_core._api.beta_decorator.LangChainBetaWarning"
)


async def documents(store: stateward.Store, thread: str, prefix: str = "") -> dict[str, Any]:
    entity = store._scope.entity("langgraph-thread", thread)
    page = List("default", within=entity, prefix=prefix, limit=1000)
    (listed,) = await store._scope.execute((page,))
    return {name: json.loads(value.json) for name, value in listed.documents}  # type: ignore[union-attr]


async def records(store: stateward.Store, thread: str) -> list[dict[str, Any]]:
    """The checkpoints as they are stored, oldest first."""
    templates = await documents(store, thread, "t/")
    by_digest = {name.removeprefix("t/"): template for name, template in templates.items()}
    segments = (await documents(store, thread, "c/")).values()
    return [record for segment in segments for record in records_of(segment, by_digest)]


async def parts(store: stateward.Store, thread: str) -> list[dict[str, Any]]:
    """The new parts of the messages, in checkpoints or by themselves."""
    kept = [record["values"]["messages"] for record in await records(store, thread)]
    alone = (await documents(store, thread, "l/")).values()
    return [*alone, *(each["new"] for each in kept if "new" in each)]


# --- agents -------------------------------------------------------------------------------


async def test_an_agent_calls_a_tool_and_goes_on_after_a_restart(url: str) -> None:
    answers = [tool_call("991"), AIMessage("It is on its way.")]
    async with StatewardSaver.from_url(url) as saver:
        agent = support_agent(saver, answers)
        state = await agent.ainvoke({"messages": [HumanMessage("Where is 991?")]}, at("t"))
    assert said(state)[2:] == ["order 991 is on its way", "It is on its way."]

    async with StatewardSaver.from_url(url) as saver:
        agent = support_agent(saver, [AIMessage("You are welcome.")])
        state = await agent.ainvoke({"messages": [HumanMessage("Thanks")]}, at("t"))
    assert said(state)[0] == "Where is 991?"
    assert said(state)[-1] == "You are welcome."
    assert len(state["messages"]) == 6
    assert state["messages"][1].tool_calls[0]["args"] == {"order": "991"}


def test_the_same_agent_in_blocking_code(url: str) -> None:
    with StatewardSaver.from_url(url) as saver:
        graph = echo(saver)
        graph.invoke({"messages": [HumanMessage("one")]}, at("t"))
        graph.invoke({"messages": [HumanMessage("two")]}, at("t"))
        history = list(graph.get_state_history(at("t")))
        assert said(history[0].values) == ["one", "you said: one", "two", "you said: two"]
        assert len(history) == 6
        old = next(each for each in history if each.metadata["step"] == 1)
        forked = graph.invoke({"messages": [HumanMessage("instead")]}, old.config)
        assert said(forked) == ["one", "you said: one", "instead", "you said: instead"]
        assert said(graph.get_state(at("t")).values) == said(forked)


async def test_blocking_and_async_calls_share_an_async_store(store: stateward.Store) -> None:
    async with StatewardSaver(store) as saver:
        graph = echo(saver)
        await graph.ainvoke({"messages": [HumanMessage("one")]}, at("t"))
        await asyncio.to_thread(graph.invoke, {"messages": [HumanMessage("two")]}, at("t"))
        state = await graph.ainvoke({"messages": [HumanMessage("three")]}, at("t"))
    assert said(state)[::2] == ["one", "two", "three"]
    assert (await store.health()).ok  # it is not the saver's to close


async def test_an_interrupted_run_waits_for_its_answer_in_another_process(url: str) -> None:
    class Approval(TypedDict):
        answer: str

    def ask(state: Approval) -> Approval:
        return {"answer": interrupt("refund 30 €?")}

    def graph(saver: StatewardSaver) -> Any:
        builder = StateGraph(Approval)
        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        return builder.compile(checkpointer=saver)

    async with StatewardSaver.from_url(url) as saver:
        state = await graph(saver).ainvoke({"answer": ""}, at("t"))
        assert state["__interrupt__"][0].value == "refund 30 €?"
    async with StatewardSaver.from_url(url) as saver:
        assert await graph(saver).ainvoke(Command(resume="yes"), at("t")) == {"answer": "yes"}


# --- two replicas -------------------------------------------------------------------------


async def test_of_two_replicas_that_continue_one_checkpoint_the_second_raises(url: str) -> None:
    async with StatewardSaver.from_url(url) as a, StatewardSaver.from_url(url) as b:
        await echo(a).ainvoke({"messages": [HumanMessage("one")]}, at("t"))
        head = await b.aget_tuple(at("t"))
        assert head is not None
        await echo(a).ainvoke({"messages": [HumanMessage("from a")]}, at("t"))
        late = checkpoint(9, {"messages": []}, {"messages": "9"})
        with pytest.raises(stateward.StateConflictError, match="continued by another run"):
            await b.aput(head.config, late, {"source": "input", "step": 2}, {"messages": "9"})
        state = await echo(b).aget_state(at("t"))
        assert said(state.values)[2:] == ["from a", "you said: from a"]
        again = await echo(b).ainvoke({"messages": [HumanMessage("from b")]}, at("t"))
        assert said(again)[2:] == ["from a", "you said: from a", "from b", "you said: from b"]


async def test_racing_turns_are_all_kept_or_raised(url: str) -> None:
    async def turn(name: str) -> str:
        async with StatewardSaver.from_url(url) as saver:
            while True:
                try:
                    await echo(saver).ainvoke({"messages": [HumanMessage(name)]}, at("t"))
                    return name
                except stateward.StateConflictError:
                    continue

    names = await asyncio.gather(*(turn(f"turn {number}") for number in range(4)))
    async with StatewardSaver.from_url(url) as saver:
        state = (await echo(saver).aget_state(at("t"))).values
    for name in names:
        assert said(state).count(name) >= 1  # a turn whose answer conflicted was asked again
        assert f"you said: {name}" in said(state)


async def test_looking_at_the_history_lets_no_other_turn_be_overwritten(url: str) -> None:
    async with StatewardSaver.from_url(url) as a, StatewardSaver.from_url(url) as b:
        await echo(b).ainvoke({"messages": [HumanMessage("one")]}, at("t"))
        under_way = await a.aget_tuple(at("t"))
        assert under_way is not None
        await echo(b).ainvoke({"messages": [HumanMessage("two")]}, at("t"))
        # Somebody else in the same process looks around meanwhile.
        history = [each async for each in echo(a).aget_state_history(at("t"))]
        for each in history:
            await echo(a).aget_state(each.config)
        newest = history[0].config
        assert [each async for each in echo(a).aget_state_history(at("t"), before=newest)]
        late = checkpoint(5, {"messages": []}, {"messages": "9"})
        with pytest.raises(stateward.StateConflictError, match="continued by another run"):
            await a.aput(under_way.config, late, {"source": "loop", "step": 2}, {"messages": "9"})
        assert said((await echo(b).aget_state(at("t"))).values)[2:] == ["two", "you said: two"]


async def test_two_runs_that_begin_the_same_thread_are_not_both_the_first(url: str) -> None:
    async with StatewardSaver.from_url(url) as a, StatewardSaver.from_url(url) as b:
        assert await a.aget_tuple(at("t")) is None
        assert await b.aget_tuple(at("t")) is None
        first = checkpoint(-1, {"k": "a"}, {"k": "1"})
        await a.aput(at("t"), first, {"source": "input", "step": -1}, {"k": "1"})
        second = checkpoint(-1, {"k": "b"}, {"k": "1"})
        with pytest.raises(stateward.StateConflictError):
            await b.aput(at("t"), second, {"source": "input", "step": -1}, {"k": "1"})
        assert [each.checkpoint["id"] async for each in b.alist(at("t"))] == [first["id"]]


def test_an_old_checkpoint_may_be_put_again_behind_its_parent(url: str) -> None:
    with StatewardSaver.from_url(url) as saver:
        echo(saver).invoke({"messages": [("user", "one")]}, at("t"))
        newest, old, oldest = saver.list(at("t"))
        again = saver.get_tuple(old.config)
        assert again is not None
        assert again.parent_config == oldest.config
        again.checkpoint["channel_values"]["messages"] = [HumanMessage("other")]
        saver.put(again.parent_config, again.checkpoint, again.metadata, {})
        changed = saver.get_tuple(old.config)
        assert changed is not None
        assert said(changed.checkpoint["channel_values"]) == ["other"]
        assert newest.config in [each.config for each in saver.list(at("t"))]


async def test_or_both_are_kept_as_forks(url: str) -> None:
    async with (
        StatewardSaver.from_url(url, on_conflict="fork") as a,
        StatewardSaver.from_url(url, on_conflict="fork") as b,
    ):
        await echo(a).ainvoke({"messages": [HumanMessage("one")]}, at("t"))
        base = await b.aget_tuple(at("t"))
        assert base is not None
        values = base.checkpoint["channel_values"]["messages"]
        heads = []
        for saver, name in ((a, "from a"), (b, "from b")):
            new = checkpoint(5, {"messages": [*values, HumanMessage(name)]}, {"messages": name})
            config = await saver.aput(base.config, new, {"source": "loop"}, {"messages": name})
            heads.append(config)
        for config, name in zip(heads, ("from a", "from b"), strict=True):
            found = await a.aget_tuple(config)
            assert found is not None
            assert found.parent_config == base.config
            assert said(found.checkpoint["channel_values"])[-1] == name


async def test_a_run_brings_no_deleted_thread_back(url: str) -> None:
    async with StatewardSaver.from_url(url) as a, StatewardSaver.from_url(url) as b:
        await echo(a).ainvoke({"messages": [HumanMessage("one")]}, at("t"))
        base = await a.aget_tuple(at("t"))
        assert base is not None
        await b.adelete_thread("t")
        new = checkpoint(5, {}, {})
        with pytest.raises(stateward.StateConflictError, match="deleted or pruned"):
            await a.aput(base.config, new, {"source": "loop"}, {})
        assert await b.aget_tuple(at("t")) is None
        await echo(b).ainvoke({"messages": [HumanMessage("anew")]}, at("t"))


async def test_what_a_task_wrote_brings_no_deleted_thread_back(url: str) -> None:
    async with StatewardSaver.from_url(url) as a, StatewardSaver.from_url(url) as b:
        await echo(a).ainvoke({"messages": [HumanMessage("one")]}, at("t"))
        base = await a.aget_tuple(at("t"))
        assert base is not None
        await b.adelete_thread("t")
        writes = [("messages", "their words")]
        with pytest.raises(stateward.StateConflictError, match="deleted or pruned"):
            await a.aput_writes(base.config, writes, "task")
        # Nor one of a checkpoint that is still on its way.
        on_its_way = at("t", checkpoint(5, {}, {})["id"])
        with pytest.raises(stateward.StateConflictError, match="deleted or pruned"):
            await a.aput_writes(on_its_way, writes, "task")
    async with stateward.open(url) as store:
        assert await documents(store, "t") == {}


async def test_a_copy_under_way_brings_no_erased_user_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stateward.open(url) as store, stateward.open(url) as other:
        saver = StatewardSaver(store)
        config = at("t", user_id="u-42")
        await echo(saver).ainvoke({"messages": [HumanMessage("secret")]}, config)
        scope = store.sections["workflows"]
        execute = scope.execute

        async def erasing(ops: Any) -> Any:
            if isinstance(ops[0], Commit):  # all was read
                monkeypatch.undo()
                assert (await other.user("u-42").erase()).removed == {"langgraph-thread": 1}
            return await execute(ops)

        monkeypatch.setattr(scope, "execute", erasing)
        with pytest.raises(stateward.StateConflictError, match="deleted while it was copied"):
            await saver.acopy_thread("t", "copy")
        assert await saver.aget_tuple(at("copy")) is None
        assert (await other.user("u-42").erase()).removed == {}


async def test_what_a_task_wrote_may_come_before_its_checkpoint(url: str) -> None:
    async with StatewardSaver.from_url(url) as a, StatewardSaver.from_url(url) as b:
        assert await a.aget_tuple(at("t")) is None
        new = checkpoint(-1, {"k": "a"}, {"k": "1"})
        await a.aput_writes(at("t", new["id"]), [("k", "first")], "task")
        config = await a.aput(at("t"), new, {"source": "input", "step": -1}, {"k": "1"})
        await b.aput(at("t"), new, {"source": "input", "step": -1}, {"k": "1"})
        await a.aput_writes(config, [("k", "second")], "another")
        found = await b.aget_tuple(at("t"))
        assert found is not None
        assert found.pending_writes is not None
        assert sorted(value for _, _, value in found.pending_writes) == ["first", "second"]


async def test_a_thread_that_was_begun_before_its_user_was_known_can_be_claimed(url: str) -> None:
    async with StatewardSaver.from_url(url) as saver:
        theirs = at("t", user_id="u-42")
        await echo(saver).ainvoke({"messages": [HumanMessage("hello")]}, at("t"))
        with pytest.raises(stateward.NotYoursError):
            await echo(saver).ainvoke({"messages": [HumanMessage("it is me")]}, theirs)
        await saver.aclaim("t", user="u-42")
        await saver.aclaim("t", user="u-42")
        state = await echo(saver).ainvoke({"messages": [HumanMessage("it is me")]}, theirs)
        assert said(state)[0] == "hello"
        with pytest.raises(stateward.NotYoursError):
            await saver.aclaim("t", user="u-7")
        with pytest.raises(stateward.InvalidInput, match="no thread 'none'"):
            await saver.aclaim("none", user="u-42")
        assert await saver.aget_tuple(at("none")) is None
    async with stateward.open(url) as store:
        assert (await store.user("u-42").erase()).removed == {"langgraph-thread": 1}


def test_what_langgraph_stores_is_shown_by_inspect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    with StatewardSaver.from_url(url) as saver, StatewardStore.from_url(url) as items:
        echo(saver).invoke({"messages": [HumanMessage("hello")]}, at("t"))
        items.put(("a",), "k", {"n": 1})
    assert main(["inspect", "--json", url]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    kinds = {row["kind"]: row["entities"] for row in rows}
    assert kinds == {"langgraph-thread": 1, "langgraph-item": 1}


async def test_the_newest_is_the_one_put_last_whatever_a_replicas_clock_says(
    memory: stateward.Store,
) -> None:
    saver = StatewardSaver(memory)
    first = checkpoint(0, {"k": 1}, {"k": "1"}) | {"id": "2-by-a-fast-clock"}
    second = checkpoint(1, {"k": 2}, {"k": "2"}) | {"id": "1-by-a-slow-clock"}
    config = await saver.aput(at("t"), first, {"source": "loop"}, {"k": "1"})
    await saver.aput(config, second, {"source": "loop"}, {"k": "2"})
    found = await saver.aget_tuple(at("t"))
    assert found is not None
    assert found.checkpoint["channel_values"] == {"k": 2}


# --- lists by their new part --------------------------------------------------------------


async def grow(saver: StatewardSaver, config: Any, messages: list[Any], version: str) -> Any:
    new = checkpoint(len(messages), {"messages": messages}, {"messages": version})
    return await saver.aput(config, new, {"source": "loop"}, {"messages": version})


async def read(saver: StatewardSaver, config: Any) -> list[Any]:
    found = await saver.aget_tuple(config)
    assert found is not None
    value: list[Any] = found.checkpoint["channel_values"]["messages"]
    return value


def long(name: str) -> HumanMessage:
    return HumanMessage(name + " " + "x" * 400, id=name)


async def test_a_list_that_grew_is_stored_by_its_new_part(store: stateward.Store) -> None:
    saver, config = StatewardSaver(store), at("t")
    messages: list[Any] = []
    for number in range(30):
        messages = [*messages, long(f"m{number}")]
        config = await grow(saver, config, messages, f"{number:03}")
    assert [len(part["items"]) for part in await parts(store, "t")] == [1] * 30
    assert await read(saver, config) == messages
    assert await read(StatewardSaver(store), at("t")) == messages


async def test_each_old_checkpoint_still_has_its_own_list(store: stateward.Store) -> None:
    saver, config = StatewardSaver(store), at("t")
    states, messages = [], [long("a"), long("b"), long("c")]
    for number, change in enumerate(
        (
            lambda now: now,
            lambda now: [*now, long("d")],
            lambda now: [*now[:-1], long("d, edited"), long("e")],
            lambda now: now[2:],
            lambda now: [],
            lambda now: [long("f")],
        )
    ):
        messages = change(messages)  # type: ignore[no-untyped-call]
        config = await grow(saver, config, messages, f"{number}")
        states.append((config, messages))
    for config, messages in states:
        assert await read(saver, config) == messages
        assert await read(StatewardSaver(store), config) == messages
    listed = [each async for each in saver.alist(at("t"))]
    assert [each.checkpoint["channel_values"]["messages"] for each in listed] == [
        messages for _, messages in reversed(states)
    ]


async def test_a_message_that_was_changed_in_place_is_stored(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    messages = [long("a"), long("b"), long("c")]
    config = await grow(saver, at("t"), messages, "1")
    messages[1].content = "changed by its node"
    messages[2].additional_kwargs["seen"] = True
    config = await grow(saver, config, [*messages, long("d")], "2")
    assert await read(StatewardSaver(store), config) == [*messages, long("d")]


async def test_numbers_that_are_equal_but_not_the_same_are_stored(memory: stateward.Store) -> None:
    saver = StatewardSaver(memory)
    before = [[1, "x" * 300], [0, 2]]
    config = await grow(saver, at("t"), before, "1")
    config = await grow(saver, config, [[True, "x" * 300], [0.0, 2]], "2")
    found = await read(saver, config)
    assert found[0][0] is True
    assert type(found[1][0]) is float


async def test_a_saver_that_remembers_nothing_compares_with_what_is_stored(
    memory: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists_module.KnownLists, "get", lambda *_: None)
    saver, config, messages = StatewardSaver(memory), at("t"), [long("a")]
    for number in range(5):
        messages = [*messages, long(f"m{number}")]
        config = await grow(saver, config, messages, str(number))
    assert [len(part["items"]) for part in await parts(memory, "t")] == [2, 1, 1, 1, 1]
    assert await read(saver, config) == messages


async def test_a_list_that_is_rewritten_again_and_again_does_not_grow_for_ever(
    memory: stateward.Store,
) -> None:
    saver, config = StatewardSaver(memory), at("t")
    for number in range(60):
        config = await grow(saver, config, [long("a"), long(f"b{number}")], f"{number:03}")
    newest = (await records(memory, "t"))[-1]
    assert newest["values"]["messages"]["new"]["stored"] <= 2 * 2 + lists_slack()
    assert await read(saver, config) == [long("a"), long("b59")]


def lists_slack() -> int:
    from stateward.integrations.langgraph.checkpoint_draft import SLACK

    return SLACK


async def test_an_unchanged_value_is_stored_once(memory: stateward.Store) -> None:
    saver, config = StatewardSaver(memory), at("t")
    document = {"text": "x" * 1000}
    for number in range(4):
        new = checkpoint(number, {"doc": document, "n": number}, {"doc": "1", "n": str(number)})
        versions = {"doc": "1", "n": "0"} if number == 0 else {"n": str(number)}
        config = await saver.aput(config, new, {"source": "loop"}, versions)
    assert len(await documents(memory, "t", "v/")) == 1
    found = await saver.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"doc": document, "n": 3}


# --- what is stored, and what is refused ------------------------------------------------------


@dataclass
class Ticket:
    number: int


async def test_messages_are_readable_json(memory: stateward.Store) -> None:
    saver = StatewardSaver(memory)
    messages = [SystemMessage("Be brief. " + "x" * 300), HumanMessage("Grüße", name="kim")]
    config = await grow(saver, at("t"), messages, "1")
    (part,) = await parts(memory, "t")
    assert part["items"][1] == {"$message": "human", "data": {"content": "Grüße", "name": "kim"}}
    assert await read(saver, config) == messages


@pytest.mark.parametrize(
    "value",
    [
        {"$message": "human", "data": {"content": "not one"}},
        {"$typed": "pickle", "data": "gASVBAAAAAAAAABLAS4="},
        {1: "a number as a key"},
        float("inf"),
        b"\x00\xff",
        {"a", "b"},
        [HumanMessage("a"), {"role": "user"}, 3],
        Send("node", {"messages": [HumanMessage("a")]}),
        RemoveMessage(id="m-1"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"n": 1}, "id": "1"}]),
        AIMessage([{"type": "text", "text": "parts"}], response_metadata={"model": "m"}),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_value_comes_back_as_it_was(memory: stateward.Store, value: Any) -> None:
    saver = StatewardSaver(memory)
    new = checkpoint(0, {"k": value}, {"k": "1"})
    config = await saver.aput(at("t"), new, {"source": "loop"}, {"k": "1"})
    await saver.aput_writes(config, [("k", value)], "task")
    found = await StatewardSaver(memory).aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"]["k"] == value
    assert type(found.checkpoint["channel_values"]["k"]) is type(value)
    assert found.pending_writes == [("task", "k", value)]


async def test_a_type_that_is_not_allowed_is_refused_before_anything_is_written(
    memory: stateward.Store,
) -> None:
    new = checkpoint(0, {"k": Ticket(1)}, {"k": "1"})
    with pytest.raises(stateward.InvalidInput, match=r"allow=\[Ticket\]"):
        await StatewardSaver(memory).aput(at("t"), new, {"source": "loop"}, {"k": "1"})
    assert await documents(memory, "t") == {}
    allowing = StatewardSaver(memory, allow=[Ticket])
    config = await allowing.aput(at("t"), new, {"source": "loop"}, {"k": "1"})
    found = await allowing.aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"]["k"] == Ticket(1)


@dataclass
class Order:
    number: int


class Doneness(Enum):
    RARE = "rare"


class Guest(BaseModel):
    name: str


class Seat(NamedTuple):
    row: int


class Opener:
    """No data: it does something when it is made."""

    def __init__(self, x: Any = None) -> None:
        raise AssertionError("constructed")


async def test_a_module_that_is_named_once_allows_its_data_classes(memory: stateward.Store) -> None:
    values = {"order": Order(7), "doneness": [Doneness.RARE], "guest": {"is": Guest(name="Ada")}}
    new = checkpoint(1, values | {"seat": Seat(3)}, dict.fromkeys([*values, "seat"], "1"))
    for allow in (__name__, [__name__], [Ticket, __name__]):
        saver = StatewardSaver(memory, allow=allow)
        config = await saver.aput(at("t"), new, {"source": "loop"}, new["channel_versions"])
        for reading in (saver, StatewardSaver(memory, allow=allow)):
            found = await reading.aget_tuple(config)
            assert found is not None
            assert found.checkpoint["channel_values"]["order"] == Order(7)
            assert found.checkpoint["channel_values"]["doneness"] == [Doneness.RARE]
            assert found.checkpoint["channel_values"]["guest"] == {"is": Guest(name="Ada")}
        await saver.adelete_thread("t")
    both = checkpoint(1, {"k": {"a": Order(7), "b": Guest(name="Ada")}}, {"k": "1"})
    with pytest.raises(stateward.InvalidInput) as refused:
        await StatewardSaver(memory, allow="elsewhere").aput(at("t"), both, {}, {"k": "1"})
    assert f"a {__name__}.Guest, {__name__}.Order cannot be stored" in str(refused.value)
    assert "allow=[Guest, Order]" in str(refused.value)
    assert f"allow=['{__name__}']" in str(refused.value)


def test_of_a_module_that_is_named_nothing_but_data_is_constructed() -> None:
    serde = StrictSerializer(__name__)
    forged = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb([__name__, "Opener", 1])))
    with pytest.raises(stateward.SchemaError, match="Opener is not read"):
        serde.loads_typed(("msgpack", forged))
    elsewhere = ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb([f"{__name__}x", "Order", 1])))
    with pytest.raises(stateward.SchemaError, match="Order is not read"):
        serde.loads_typed(("msgpack", elsewhere))


async def test_a_stored_type_that_is_not_allowed_is_never_constructed(
    memory: stateward.Store,
) -> None:
    new = checkpoint(0, {"k": Ticket(1)}, {"k": "1"})
    config = await StatewardSaver(memory, allow=[Ticket]).aput(
        at("t"), new, {"source": "loop"}, {"k": "1"}
    )
    with pytest.raises(stateward.SchemaError, match=r"Ticket is not read"):
        await StatewardSaver(memory).aget_tuple(config)


@pytest.mark.parametrize(
    "planted",
    [
        {"$typed": "pickle", "data": "gASVBAAAAAAAAABLAS4="},
        {"$typed": "json", "data": "e30="},
        {"$message": "os.system", "data": {"command": "true"}},
    ],
)
async def test_what_somebody_planted_in_the_store_is_refused(
    memory: stateward.Store, planted: Any
) -> None:
    saver = StatewardSaver(memory)
    new = checkpoint(0, {"k": "x" * 1000}, {"k": "1"})
    config = await saver.aput(at("t"), new, {"source": "loop"}, {"k": "1"})
    (name,) = await documents(memory, "t", "v/")
    entity = memory._scope.entity("langgraph-thread", "t")
    await memory._scope.execute((Commit(entity, "1", (Put(name, json.dumps(planted)),)),))
    with pytest.raises(stateward.SchemaError):
        await StatewardSaver(memory).aget_tuple(config)


async def test_a_serializer_of_ones_own_sees_every_value(memory: stateward.Store) -> None:
    class Reversing:
        def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
            return "reversed", json.dumps(obj).encode()[::-1]

        def loads_typed(self, data: tuple[str, bytes]) -> Any:
            assert data[0] == "reversed"
            return json.loads(data[1][::-1])

    saver = StatewardSaver(memory, serde=Reversing())
    new = checkpoint(0, {"k": "secret", "l": ["secret"] * 99}, {"k": "1", "l": "1"})
    config = await saver.aput(at("t"), new, {"source": "secret"}, {"k": "1", "l": "1"})
    await saver.aput_writes(config, [("k", "secret")], "task")
    assert "secret" not in json.dumps(await documents(memory, "t"))
    found = await StatewardSaver(memory, serde=Reversing()).aget_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"k": "secret", "l": ["secret"] * 99}
    assert found.metadata["source"] == "secret"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_conflict": "ignore"}, "'raise' or 'fork'"),
        ({"allow": [Ticket], "serde": object()}, "leave allow= out"),
        ({"retain": -1}, "retain"),
    ],
)
async def test_wrong_options_are_refused(
    memory: stateward.Store, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(stateward.InvalidInput, match=words):
        StatewardSaver(memory, **options)


def test_a_url_in_the_place_of_a_store_is_refused() -> None:
    with pytest.raises(stateward.InvalidInput, match="from_url"):
        StatewardSaver("memory://")  # type: ignore[arg-type]


# --- users ----------------------------------------------------------------------------------


async def test_a_thread_belongs_to_its_user_and_is_erased_with_them(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    mine, other = at("t", user_id="u-42"), at("t2", user_id="u-43")
    await echo(saver).ainvoke({"messages": [HumanMessage("mine")]}, mine)
    await echo(saver).ainvoke({"messages": [HumanMessage("theirs")]}, other)
    with pytest.raises(stateward.NotYoursError):
        await echo(saver).aget_state(at("t", user_id="u-43"))
    assert said((await echo(saver).aget_state(at("t"))).values)[0] == "mine"
    await store.user("u-42").erase()
    assert await saver.aget_tuple(at("t")) is None
    assert await saver.aget_tuple(other) is not None


async def test_a_thread_is_kept_as_long_as_it_was_told(memory: stateward.Store) -> None:
    entity = memory._scope.entity("langgraph-thread", "t")
    told: tuple[tuple[dict[str, Any], float | None], ...] = (
        ({}, memory.retention),
        ({"retain": 60}, 60),
        ({"retain": None}, None),
    )
    assert memory.retention == 30 * 86_400
    for options, span in told:
        saver = StatewardSaver(memory, **options)
        await echo(saver).ainvoke({"messages": [HumanMessage("one")]}, at("t"))
        (fetched,) = await memory._scope.execute((Fetch(entity),))
        assert fetched.head.retain == span  # type: ignore[union-attr]


async def test_an_empty_checkpoint_id_means_the_newest(memory: stateward.Store) -> None:
    saver = StatewardSaver(memory)
    first = await grow(saver, at("t"), [long("a")], "1")
    assert await read(saver, at("t", id="")) == [long("a")]
    assert [each.config async for each in saver.alist(at("t", id=""))] == [first]


async def test_checkpoints_that_form_a_circle_are_walked_once(memory: stateward.Store) -> None:
    saver = StatewardSaver(memory, on_conflict="fork")
    one, two = (checkpoint(step, {}, {}) | {"id": f"{step}"} for step in (1, 2))
    await saver.aput(at("t", id="2"), one, {"source": "loop"}, {})  # which is not there yet
    config = await saver.aput(at("t", id="1"), two, {"source": "loop"}, {})
    found = await saver.aget_delta_channel_history(config=config, channels=["log"])
    assert found == {"log": {"writes": []}}
    await saver.aprune(["t"])
    assert await saver.aget_tuple(config) is not None


async def test_metadata_is_found_by_name_and_by_path(memory: stateward.Store) -> None:
    saver = StatewardSaver(memory)
    metadata: Any = {"source": "loop", "user": {"plan": "free"}, "writes": {"a": 1}}
    await saver.aput(at("t"), checkpoint(0, {}, {}), metadata, {})
    for filter, count in (({"user.plan": "free"}, 1), ({"user.plan": "paid"}, 0), ({"x": 1}, 0)):
        found = [each async for each in saver.alist(at("t"), filter=filter)]
        assert len(found) == count
        assert all(each.metadata == metadata for each in found)


# --- upkeep ---------------------------------------------------------------------------------


async def test_pruning_keeps_what_the_newest_checkpoint_consists_of(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    for number in range(3):
        await echo(saver).ainvoke({"messages": [long(f"m{number}")]}, at("t"))
    before = (await echo(saver).aget_state(at("t"))).values
    await saver.aprune(["t"])
    assert len(await records(store, "t")) == 1
    fresh = StatewardSaver(store)
    assert (await echo(fresh).aget_state(at("t"))).values == before
    after = await echo(fresh).ainvoke({"messages": [long("more")]}, at("t"))
    assert said(after)[:-2] == said(before)


async def test_pruning_a_fork_removes_the_other_branch(memory: stateward.Store) -> None:
    saver = StatewardSaver(memory)
    base = await grow(saver, at("t"), [long("a")], "1")
    await grow(saver, base, [long("a"), long("lost")], "2")
    addressed = await saver.aget_tuple(base)
    assert addressed is not None
    kept = await grow(saver, addressed.config, [long("a"), long("kept")], "3")
    await saver.aprune(["t"])
    assert await read(StatewardSaver(memory), kept) == [long("a"), long("kept")]
    assert "lost" not in json.dumps(await documents(memory, "t"))


async def test_deleting_a_run_goes_back_to_the_checkpoint_before_it(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    first = await grow(saver, at("t"), [long("a")], "1")
    new = checkpoint(2, {"messages": [long("a"), long("b")]}, {"messages": "2"})
    await saver.aput(first, new, {"source": "loop", "run_id": "r-2"}, {"messages": "2"})
    await saver.adelete_for_runs(["r-2"])
    found = await StatewardSaver(store).aget_tuple(at("t"))
    assert found is not None
    assert found.config == first
    assert list(await documents(store, "t", "r/")) == []
    assert len(await parts(store, "t")) == 1
    assert long("b").content not in json.dumps(await documents(store, "t"))


async def test_a_copy_goes_its_own_way(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    await echo(saver).ainvoke({"messages": [long("one")]}, at("t", user_id="u-42"))
    await saver.acopy_thread("t", "copy")
    await echo(saver).ainvoke({"messages": [long("two")]}, at("copy", user_id="u-42"))
    assert len((await echo(saver).aget_state(at("t"))).values["messages"]) == 2
    assert len((await echo(saver).aget_state(at("copy"))).values["messages"]) == 4


def concat(state: list[Any], writes: Any) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


async def test_a_delta_channel_is_rebuilt_also_after_pruning(store: stateward.Store) -> None:
    class State(TypedDict):
        log: Annotated[list[str], DeltaChannel(concat, snapshot_frequency=4)]

    builder = StateGraph(State)
    builder.add_node("note", lambda state: {"log": [f"seen {len(state['log'])}"]})
    builder.add_edge(START, "note")
    saver = StatewardSaver(store)
    graph = builder.compile(checkpointer=saver)
    for number in range(7):
        await graph.ainvoke({"log": [f"turn {number}"]}, at("t"))
    before = (await graph.aget_state(at("t"))).values
    assert len(before["log"]) == 14
    fresh = builder.compile(checkpointer=StatewardSaver(store))
    assert (await fresh.aget_state(at("t"))).values == before
    await saver.aprune(["t"])
    assert len(await records(store, "t")) < 14
    pruned = builder.compile(checkpointer=StatewardSaver(store))
    assert (await pruned.aget_state(at("t"))).values == before


async def test_everything_but_json_of_a_namespace_is_data(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    spaces = ["", "a", "a/b", "a|b:1", "%", "é" * 300, "c/" * 200]
    for number, ns in enumerate(spaces):
        new = checkpoint(number, {"k": number}, {"k": "1"})
        config = await saver.aput(at("t", ns=ns), new, {"source": "loop"}, {"k": "1"})
        await saver.aput_writes(config, [("k", number)], "task/1")
    for number, ns in enumerate(spaces):
        found = [each async for each in saver.alist(at("t", ns=ns))]
        assert [each.checkpoint["channel_values"]["k"] for each in found] == [number]
        assert found[0].config["configurable"]["checkpoint_ns"] == ns
        assert found[0].pending_writes == [("task/1", "k", number)]
    assert len([each async for each in saver.alist({"configurable": {"thread_id": "t"}})]) == 7


@pytest.mark.parametrize("seed", range(6))
async def test_a_write_is_known_by_its_task_and_number_whatever_path_the_task_has(
    store: stateward.Store, seed: int
) -> None:
    draw = random.Random(seed)
    for round in range(4):
        theirs, ours = InMemorySaver(), [StatewardSaver(store) for _ in range(2)]
        config: Any = at(f"thread {seed} {round}")
        stored = checkpoint(0, {}, {})
        loop: Any = {"source": "loop"}
        expected = await theirs.aput(config, stored, loop, {})
        written = await ours[0].aput(config, stored, loop, {})
        for value in range(draw.randint(2, 5)):  # run, changed by hand, run again elsewhere
            channels = draw.choice([["k"], ["k", "l"], [ERROR]])
            writes = [(channel, value) for channel in channels]
            task, path = draw.choice(["t1", "t2"]), draw.choice(["", "~pull, a", "~pull, b"])
            await theirs.aput_writes(expected, writes, task, path)
            await draw.choice(ours).aput_writes(written, writes, task, path)
        own = await theirs.aget_tuple(expected)
        assert own is not None
        for saver in (*ours, StatewardSaver(store)):
            read = await saver.aget_tuple(written)
            assert read is not None
            assert sorted(read.pending_writes or [], key=str) == sorted(
                own.pending_writes or [], key=str
            )
