"""How the checkpoints of a run share a document."""

from __future__ import annotations

import asyncio
import json
from hashlib import blake2b
from typing import Any

import pytest
from graphs import at, checkpoint, echo, said
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import START, MessagesState, StateGraph

import stateward
from stateward.integrations.kept import langgraph, langgraph_segments
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import (
    CheckpointSegment,
    records_of,
    use_of_template,
    use_of_writes,
)
from stateward.integrations.langgraph import StatewardSaver
from stateward.ops import Fetch, List


async def documents(store: stateward.Store, thread: str, prefix: str = "") -> dict[str, str]:
    entity = store._scope.entity("langgraph-thread", thread)
    page = List("default", within=entity, prefix=prefix, limit=1000)
    (listed,) = await store._scope.execute((page,))
    return {name: value.json for name, value in listed.documents}  # type: ignore[union-attr]


def answering(saver: Any, answer: str) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda _: {"messages": [AIMessage(answer)]})
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


# --- what a turn stores ---------------------------------------------------------------------


async def test_each_text_of_a_turn_is_stored_once(store: stateward.Store) -> None:
    graph = answering(StatewardSaver(store), "an answer " + "y" * 490)
    for number in range(5):
        question = f"question {number} " + "x" * 489
        await graph.ainvoke({"messages": [HumanMessage(question)]}, at("t"))
    kept = "".join((await documents(store, "t")).values())
    for number in range(5):
        assert kept.count(f"question {number} ") == 1
    assert kept.count("an answer ") == 5


async def test_a_turn_of_one_kilobyte_stores_less_than_two(store: stateward.Store) -> None:
    graph = answering(StatewardSaver(store), "y" * 500)
    sizes = []
    for number in range(42):
        await graph.ainvoke({"messages": [HumanMessage("x" * 500)]}, at("t"))
        if number in (1, 21, 41):
            kept = await documents(store, "t")
            sizes.append(sum(len(name) + len(value) for name, value in kept.items()))
    early, late = (sizes[1] - sizes[0]) / 20, (sizes[2] - sizes[1]) / 20
    assert late < 1_900
    assert late < 1.02 * early  # numbers get longer, nothing else


async def test_every_checkpoint_shows_what_its_tasks_wrote(store: stateward.Store) -> None:
    graph = answering(StatewardSaver(store), "y" * 500)
    for _ in range(2):
        await graph.ainvoke({"messages": [HumanMessage("x" * 500)]}, at("t"))
    assert not await documents(store, "t", "w/")
    fresh = answering(StatewardSaver(store), "")
    history = [each async for each in fresh.aget_state_history(at("t"))]
    results = [task.result for each in reversed(history) for task in each.tasks]
    assert [result["messages"][0].content[0] for result in results] == ["x", "y", "x", "y"]
    lengths = [len(each.values.get("messages", ())) for each in reversed(history)]
    assert lengths == [0, 1, 2, 2, 3, 4]


async def test_a_run_goes_on_from_the_middle_of_another(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    await echo(saver).ainvoke({"messages": [HumanMessage("one")]}, at("t"))
    await echo(saver).ainvoke({"messages": [HumanMessage("two")]}, at("t"))
    fresh = echo(StatewardSaver(store))
    middle = [each async for each in fresh.aget_state_history(at("t"))][-2]
    assert said(middle.values) == ["one"]
    state = await fresh.ainvoke(None, middle.config)
    assert said(state) == ["one", "you said: one"]
    assert len([each async for each in fresh.aget_state_history(at("t"))]) > 6


async def test_tasks_that_end_at_once_keep_all_that_they_wrote(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    config = await saver.aput(at("t"), checkpoint(0, {}, {}), {"source": "loop"}, {})
    tasks = [f"task {number}" for number in range(20)]
    await asyncio.gather(
        *(saver.aput_writes(config, [("k", [task, "x" * 300])], task) for task in tasks)
    )
    for again in (saver, StatewardSaver(store)):
        found = await again.aget_tuple(config)
        assert found is not None
        assert [value[0] for _, _, value in found.pending_writes or ()] == sorted(tasks)


async def test_a_task_that_is_run_again_elsewhere_changes_nothing(store: stateward.Store) -> None:
    first, second = StatewardSaver(store), StatewardSaver(store)
    config = await first.aput(at("t"), checkpoint(0, {}, {}), {"source": "loop"}, {})
    assert await second.aget_tuple(config) is not None
    await first.aput_writes(config, [("k", "first")], "task")
    await second.aput_writes(config, [("k", "second")], "task")
    await first.aput_writes(config, [("k", "third")], "task")
    found = await StatewardSaver(store).aget_tuple(config)
    assert found is not None
    assert found.pending_writes == [("task", "k", "first")]


async def test_a_task_that_writes_more_later_keeps_all_of_it(store: stateward.Store) -> None:
    """As LangGraph does for updates that come with a resume: each call brings all of them."""
    saver = StatewardSaver(store)
    config = await saver.aput(at("t"), checkpoint(0, {}, {}), {"source": "loop"}, {})
    writes = [("k", "first"), ("k", "second"), ("k", "third")]
    await saver.aput_writes(config, writes[:1], "task")
    await saver.aput_writes(config, [("k", "other"), *writes[1:2]], "task")
    other = StatewardSaver(store)
    assert await other.aget_tuple(config) is not None
    await asyncio.to_thread(other.put_writes, config, writes, "task")
    found = await StatewardSaver(store).aget_tuple(config)
    assert found is not None
    assert found.pending_writes == [("task", *write) for write in writes]
    # The same while a checkpoint is waited for, and before there is one.
    after = checkpoint(1, {}, {})
    early = at("t", after["id"])
    tasks = [
        asyncio.create_task(saver.aput_writes(place, writes[:count], "another"))
        for place in (config, early)
        for count in (1, 3)
    ]
    await asyncio.sleep(0)
    await saver.aput(config, after, {"source": "loop"}, {})
    await asyncio.gather(*tasks)
    for place in (config, early):
        found = await StatewardSaver(store).aget_tuple(place)
        assert found is not None
        kept = [each for each in found.pending_writes or () if each[0] == "another"]
        assert kept == [("another", *write) for write in writes]


async def test_what_came_early_in_two_calls_moves_once(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    first = await saver.aput(at("t"), checkpoint(0, {}, {}), {"source": "loop"}, {})
    after = checkpoint(1, {}, {})
    writes = [("k", "first"), ("k", "second")]
    await saver.aput_writes(at("t", after["id"]), writes[:1], "task")
    await saver.aput_writes(at("t", after["id"]), writes, "task")
    assert len(await documents(store, "t", "w/")) == 2
    config = await saver.aput(first, after, {"source": "loop"}, {})
    assert await documents(store, "t", "w/") == {}
    found = await StatewardSaver(store).aget_tuple(config)
    assert found is not None
    assert found.pending_writes == [("task", *write) for write in writes]


async def test_a_checkpoint_that_is_put_again_leaves_its_neighbours(store: stateward.Store) -> None:
    saver = StatewardSaver(store)
    new = [checkpoint(step, {"k": step}, {"k": str(step)}) for step in range(3)]
    configs = [at("t")]
    for each in new:
        version = each["channel_versions"]
        configs.append(await saver.aput(configs[-1], each, {"source": "loop"}, version))
    assert len(await documents(store, "t", "c/")) == 1
    await saver.aput_writes(configs[1], [("k", 7)], "task")
    other = StatewardSaver(store, on_conflict="fork")
    again = new[0] | {"channel_values": {"k": "again"}}
    await other.aput(at("t"), again, {"source": "loop"}, {"k": "0"})
    fresh = StatewardSaver(store)
    found = [await fresh.aget_tuple(config) for config in configs[1:]]
    assert [each and each.checkpoint["channel_values"]["k"] for each in found] == ["again", 1, 2]
    assert found[0] is not None
    assert found[0].pending_writes == [("task", "k", 7)]
    assert len([each async for each in fresh.alist(at("t"))]) == 3


async def test_of_a_checkpoint_that_is_put_again_the_new_values_count(
    store: stateward.Store,
) -> None:
    saver = StatewardSaver(store)
    new = [checkpoint(step, {"k": step} if step == 0 else {}, {}) for step in range(4)]
    configs = [at("t")]
    for each in new:
        configs.append(await saver.aput(configs[-1], each, {"source": "loop"}, {}))
    other = StatewardSaver(store, on_conflict="fork")
    again = new[1] | {"channel_values": {"k": "again"}}
    await other.aput(configs[1], again, {"source": "loop"}, {})
    for reader in (saver, StatewardSaver(store)):
        found = await reader.aget_delta_channel_history(config=configs[4], channels=["k"])
        assert found["k"].get("seed") == "again"


async def test_a_thread_that_was_deleted_and_begun_anew_is_whole(store: stateward.Store) -> None:
    first, second = StatewardSaver(store), StatewardSaver(store)
    await answering(first, "y" * 500).ainvoke({"messages": [HumanMessage("x" * 500)]}, at("t"))
    await second.adelete_thread("t")
    new = checkpoint(0, {}, {}) | {"versions_seen": {}}
    config = await second.aput(at("t"), new, {"source": "loop", "step": 0}, {})
    assert await first.aget_tuple(config) is not None
    await answering(first, "y" * 500).ainvoke({"messages": [HumanMessage("x" * 500)]}, at("t"))
    found = await StatewardSaver(store).aget_tuple(at("t"))
    assert found is not None
    assert len(found.checkpoint["channel_values"]["messages"]) == 2


async def test_checkpoints_are_found_whatever_their_ids(memory: stateward.Store) -> None:
    saver = StatewardSaver(memory)
    timed = [checkpoint(step, {}, {})["id"] for step in range(3)]
    ids = [timed[0], "9abc", timed[1], "zzz", "0005", timed[2], timed[2][:-4] + "ffff"]
    config = at("t")
    for step, id in enumerate(ids):
        new = checkpoint(step, {"k": step}, {"k": str(step)}) | {"id": id}
        config = await saver.aput(config, new, {"source": "loop"}, {"k": str(step)})
    fresh = StatewardSaver(memory)
    for step, id in enumerate(ids):
        found = await fresh.aget_tuple(at("t", id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"k": step}
    assert len([each async for each in fresh.alist(at("t"))]) == len(ids)


def test_names_of_segments_sort_by_time_and_say_it() -> None:
    ids = [str(uuid6()) for _ in range(50)]
    found = [names.segment(id) for id in ids]
    assert found == sorted(found)
    assert len(set(found)) == 50
    id = "1f1e2e7e-1979-63c2-8146-b2e10e5b35b5"
    assert names.segment(id) == names.segment(id[:-1] + "6") != names.segment("x")
    assert names.beginning(names.segment(id)) == "2026-11-18 00:34:57.532614+00:00"
    assert names.beginning(names.segment("x")) == "x"


# --- segments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {"$": 0},
        {"a": {"$=": 1}, "$": [{"$": 5}]},
        "#u is no id",
        "#7.89abcdef",
        "000000000007.89abcdef",
        "0000000000070.9abcdef",
        "2026-11-18T00:34:57.532595+00:00",
        "1826-11-18T00:34:57.532595+00:00",
        "2026-13-45T99:34:57.532595+00:00",
        "1f1e2e7e-1979-63c2-8146-b2e10e5b35b5",
        ["x" * 30, "x" * 30, 1, 1.0, True, None],
    ],
)
def test_whatever_fills_a_template_comes_back(value: Any) -> None:
    record = {"versions": {}, "metadata": {"a": value, "b": [value]}, "values": {}, "checkpoint": 1}
    segment, templates = CheckpointSegment("", "first"), {}
    for number, id in enumerate(("1f1e2e7e-1979-63c2-8146-b2e10e5b35b5", "plain")):
        use = use_of_template(record)
        templates[use.digest] = use.template
        segment = segment.with_checkpoint(id, None, use, number == 0)
        writes = use_of_writes("$", [("$", value), ("k", [value])])
        templates[writes.digest] = writes.template
        segment = segment.with_writes(id, "task", writes, number == 1)
    for found in records_of(json.loads(segment.text), json.loads(json.dumps(templates))):
        assert json.dumps(found["metadata"]) == json.dumps(record["metadata"])
        assert [(each.channel, each.value) for each in found["writes"]] == [
            ("$", value),
            ("k", [value]),
        ]


async def test_a_thousand_different_metadata_leave_few_templates(memory: stateward.Store) -> None:
    saver, config = StatewardSaver(memory), at("t")
    for number in range(150):
        said: Any = {"source": "loop", f"key {number}": 1}
        config = await saver.aput(config, checkpoint(number, {}, {}), said, {})
    assert len(await documents(memory, "t", "t/")) <= 64
    found = [each async for each in StatewardSaver(memory).alist(at("t"))]
    assert [f"key {149 - number}" in each.metadata for number, each in enumerate(found)] == [
        True
    ] * 150


async def test_two_templates_with_one_digest_are_kept_apart(
    memory: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(langgraph_segments, "blake2b", lambda *_, **__: blake2b(b"", digest_size=6))
    graph = answering(StatewardSaver(memory), "y" * 500)
    for _ in range(2):
        await graph.ainvoke({"messages": [HumanMessage("x" * 500)]}, at("t"))
    assert len(await documents(memory, "t", "t/")) == 1
    fresh = answering(StatewardSaver(memory), "")
    history = [each async for each in fresh.aget_state_history(at("t"))]
    assert len(history[0].values["messages"]) == 4
    assert len(history) == 6


async def test_the_command_line_reads_segments(store: stateward.Store) -> None:
    for text in ("one", "two", "z" * 400):
        await echo(StatewardSaver(store)).ainvoke({"messages": [HumanMessage(text)]}, at("t"))
    entity = store._scope.entity("langgraph-thread", "t")
    (fetched,) = await store._scope.execute((Fetch(entity, all_documents=True),))
    values = fetched.documents  # type: ignore[union-attr]
    total, found = langgraph.messages(
        lambda *names: {n: values[n] for n in names if n in values}, 5
    )
    assert total == 6
    assert [each.number for each in found] == [2, 3, 4, 5, 6]
    assert found[-1].message["data"]["content"] == "you said: " + "z" * 400
    assert len([*langgraph.checkpoints(values)]) == 9
    assert names.head("") in values
