"""`StatewardCheckpointStorage` under workflows of Microsoft's Agent Framework."""

from __future__ import annotations

import base64
import json
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    AgentResponse,
    CheckpointStorage,
    Content,
    Message,
    WorkflowCheckpoint,
    WorkflowCheckpointException,
    WorkflowEvent,
    WorkflowMessage,
    WorkflowRunState,
    register_checkpoint_type,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from servers.redis import RedisServer

import stateward
from frameworks.agent_framework_model import kitchen
from frameworks.conftest import Start
from stateward.integrations.agent_framework import StatewardCheckpointStorage
from stateward.integrations.agent_framework.checkpoint_values import CheckpointValues
from stateward.integrations.kept import kept_state
from stateward.ops import Applied, Commit, Fetch, Head, Put

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Plate:
    """A type of the application's own."""

    steak: str


@dataclass
class Registered:
    """One that the application has told the framework of."""

    steak: str


register_checkpoint_type(Registered)


def at(minute: int, **fields: Any) -> WorkflowCheckpoint:
    time = (NOON + timedelta(minutes=minute)).isoformat()
    named = {"workflow_name": "kitchen", "checkpoint_id": f"at {minute}", **fields}
    return WorkflowCheckpoint(graph_signature_hash="graph", timestamp=time, **named)


async def test_a_workflow_that_was_killed_goes_on_in_another_process(
    url: str, start: Start
) -> None:
    killed = start("agent_framework_workflow", url, "order-17", "die")
    killed.until_said("grilling")
    killed.kill()
    second = start("agent_framework_workflow", url, "order-17", "go on")
    assert second.report() == {"from": 1, "said": ["steak order grill serve"]}
    async with stateward.open(url) as store:
        storage = StatewardCheckpointStorage(store, "order-17", user="u-42")
        newest = await storage.get_latest(workflow_name="kitchen")
        assert newest is not None
        assert newest.state["log"] == ["order", "grill", "serve"]
        asked = newest.state["_executor_state"]
        assert {name: state["asked"] for name, state in asked.items()} == {
            **{"order": 1, "grill": 1, "serve": 1}
        }


async def test_checkpoints_come_back_as_they_were_saved(url: str) -> None:
    async with stateward.open(url) as store:
        storage = StatewardCheckpointStorage(store, "run-1", allow=[Plate])
        typed: CheckpointStorage = storage
        state = {"plate": Plate("rare"), "also": Registered("done"), "at": NOON, "set": {1, 2}}
        saved = at(1, state=state, metadata={"n": [1.5, None, "🥩"]})
        assert await typed.save(saved) == "at 1"
        state["plate"] = Plate("changed since")
        loaded = await typed.load("at 1")
        assert loaded.state["plate"] == Plate("rare")
        assert loaded == at(1, state={**state, "plate": Plate("rare")}, metadata=saved.metadata)
        with pytest.raises(WorkflowCheckpointException, match="at 2"):
            await typed.load("at 2")
        strict = StatewardCheckpointStorage(store, "run-1")
        with pytest.raises(WorkflowCheckpointException):  # now, not when it is to go on
            await strict.save(at(2, state=state))
        assert await strict.list_checkpoint_ids(workflow_name="kitchen") == ["at 1"]


async def test_the_latest_is_that_of_the_latest_time(url: str) -> None:
    async with stateward.open(url) as store:
        storage = StatewardCheckpointStorage(store, "run-1")
        assert await storage.get_latest(workflow_name="kitchen") is None
        for minute in (3, 1, 2):
            await storage.save(at(minute))
        await storage.save(at(9, workflow_name="kitchen/2"))
        await storage.save(at(9, workflow_name="bar", checkpoint_id="x" * 400))
        without_zone = (NOON + timedelta(minutes=2.5)).isoformat().replace("+00:00", "")
        naive = at(0, checkpoint_id="no zone")
        naive.timestamp = without_zone
        await storage.save(naive)
        newest = await storage.get_latest(workflow_name="kitchen")
        assert newest is not None
        assert newest.checkpoint_id == "at 3"
        ids = await storage.list_checkpoint_ids(workflow_name="kitchen")
        assert ids == ["at 1", "at 2", "no zone", "at 3"]
        listed = await storage.list_checkpoints(workflow_name="kitchen")
        assert [checkpoint.checkpoint_id for checkpoint in listed] == ids
        assert await storage.list_checkpoint_ids(workflow_name="bar") == ["x" * 400]
        assert await storage.delete("at 3")
        assert not await storage.delete("at 3")
        newest = await storage.get_latest(workflow_name="kitchen")
        assert newest is not None
        assert newest.checkpoint_id == "no zone"
        other = StatewardCheckpointStorage(store, "run-2")
        assert await other.list_checkpoints(workflow_name="kitchen") == []


async def test_many_checkpoints_are_listed_page_by_page(file: str) -> None:
    async with stateward.open(file) as store:
        storage = StatewardCheckpointStorage(store, "run-1")
        for minute in range(250):
            await storage.save(at(minute))
        ids = await storage.list_checkpoint_ids(workflow_name="kitchen")
        assert ids == [f"at {minute}" for minute in range(250)]
        assert len(await storage.list_checkpoints(workflow_name="kitchen")) == 250


async def test_a_store_that_is_down_raises_and_the_run_goes_on_later(mortal: RedisServer) -> None:
    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    async with stateward.open(mortal.url, policy=policy, spill=False) as store:
        storage = StatewardCheckpointStorage(store, "run-1")
        await kitchen().run("steak", checkpoint_storage=storage)
        mortal.kill()
        with pytest.raises(stateward.StoreUnavailable):
            await storage.save(at(1))
        with pytest.raises(stateward.StoreUnavailable):
            await storage.get_latest(workflow_name="kitchen")
        mortal.start()
        first = (await storage.list_checkpoints(workflow_name="kitchen"))[0]
        again = await kitchen().run(checkpoint_id=first.checkpoint_id, checkpoint_storage=storage)
        assert again.get_outputs() == ["steak order grill serve"]


async def test_export_and_erase_find_the_checkpoints_of_a_user(url: str, tmp_path: Path) -> None:
    async with stateward.open(url) as store:
        storage = StatewardCheckpointStorage(store, "run-1", user="u-42")
        await storage.save(at(1, state={"wish": "my secret"}))
        theirs = StatewardCheckpointStorage(store, "run-1", user="u-7")
        for refused in (
            theirs.load("at 1"),
            theirs.save(at(2)),
            theirs.delete("at 1"),
            theirs.get_latest(workflow_name="kitchen"),
            theirs.list_checkpoint_ids(workflow_name="kitchen"),
        ):
            with pytest.raises(stateward.NotYoursError):
                await refused
        await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        assert "my secret" in (tmp_path / "export.jsonl").read_text()
        assert (await store.user("u-42").erase()).removed == {"agent-framework-run": 1}
        assert await storage.get_latest(workflow_name="kitchen") is None


async def test_what_is_kept_has_words(file: str) -> None:
    async with stateward.open(file) as store:
        storage = StatewardCheckpointStorage(store, "order 17/b")
        await storage.save(at(1, workflow_name="a/b"))
        scope = store.sections["workflows"]
        entity = scope.entity("agent-framework-run", "order 17/b")
        fetched = await stateward.state.handle.Handle(scope, entity).fetch(all_documents=True)
        kept = kept_state(entity, Head())
        assert kept is not None
        assert "order 17/b" in kept.entity(entity, Head())
        assert {kept.document(name) for name in fetched.documents} == {
            "checkpoint at 1",
            "checkpoint at 1 of the workflow a/b, by its time",
        }
        assert kept.document("x") is None


async def test_a_storage_from_a_url_closes_its_own_store(file: str) -> None:
    storage = StatewardCheckpointStorage.from_url(file, "run-1", retain=60)
    await storage.save(at(1))
    await storage.aclose()
    with pytest.raises(stateward.StoreMisused):
        await storage.load("at 1")
    async with stateward.open(file) as store:
        assert await StatewardCheckpointStorage(store, "run-1").load("at 1") == at(1)


class Menu(BaseModel):
    """A Pydantic model of the application's own."""

    dishes: list[str]
    note: str | None = None


VALUES = CheckpointValues([Plate, Menu])
SPOKEN = Message("assistant", [Content.from_text("done")], author_name="cook")
LEAVES = st.sampled_from(
    [
        *(NOON, NOON.date(), timedelta(1, 2, 3), Decimal("1.50"), b"bytes", bytearray(b"more")),
        *(1 + 2j, range(3), frozenset({"a"}), {1, 2}, WorkflowRunState.IDLE, int, Plate),
        *(Plate("rare"), Registered("done"), Menu(dishes=["soup"]), Counter("aab")),
        *(SPOKEN, AgentResponse(messages=[SPOKEN]), WorkflowMessage(Plate("x"), "a", "b")),
        *(WorkflowEvent.status(WorkflowRunState.IDLE), defaultdict(list, a=[1])),
        *(OrderedDict(b=1, a=2), {1: "a", "1": "b"}, {"$type": "x"}, {"__pickled__": "x"}),
    ]
)
STATES = st.recursive(
    LEAVES | st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Plate, inner)
        | st.lists(inner, max_size=2).map(deque)
    ),
    max_leaves=8,
)


def shown(value: Any) -> Any:
    """A value as text with its types: the framework's own classes compare by identity."""
    if isinstance(value, list | tuple | deque):
        return type(value), [shown(each) for each in value]
    if isinstance(value, dict):
        return type(value), [(key, shown(held)) for key, held in value.items()]
    fields = getattr(value, "__dict__", None)
    if isinstance(value, type) or not fields or isinstance(value, WorkflowRunState):
        return type(value), repr(value)
    return type(value), {name: shown(held) for name, held in fields.items()}


@settings(max_examples=150, deadline=None)
@given(STATES)
def test_a_value_comes_back_with_its_type_and_without_a_pickle(value: Any) -> None:
    text = json.dumps(VALUES.to_json(value))
    assert shown(VALUES.from_json(json.loads(text))) == shown(value)


class Payload:
    """An object whose pickle calls a function when it is read."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("/dev/null"),)


PICKLED = base64.b64encode(pickle.dumps(Payload())).decode()
HOSTILE: list[Any] = [
    {"__pickled__": PICKLED, "__type__": "pathlib:Path"},
    {"__pickled__": PICKLED, "__type__": "builtins:NoneType"},
    *(
        {"$type": name, "value": value}
        for name in (
            "os:system",
            "builtins:eval",
            "subprocess:Popen",
            "agent_framework:FunctionTool",
        )
        for value in ("true", {}, ["true"])
    ),
    {"$type": "agent_framework._workflows._checkpoint:FileCheckpointStorage", "value": {}},
    {"$type": "agent_framework._types:base64.b64decode", "value": {}},
    {"$type": "collections:defaultdict", "value": [{"$type": "builtins:type"}, []]},
    {"$type": "builtins:type", "value": "subprocess:Popen"},
    {"$type": "builtins:range", "value": ["a"]},
    {"$type": ["builtins:tuple"], "value": []},
    {"$type": "builtins:str", "value": {"a": 1}},
    {"$type": "builtins:tuple"},
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: str(each)[:50])
async def test_what_another_wrote_into_a_checkpoint_is_refused_and_runs_nothing(
    hostile: Any, file: str
) -> None:
    async with stateward.open(file) as store:
        storage = StatewardCheckpointStorage(store, "run-1")
        await storage.save(at(1, state={"n": {}}))
        handle, names = store.thread("x").handle, "c/at%201"
        entity = storage._entity
        fetch = Fetch(entity, documents=(names,))
        (read,) = await handle.scope.execute((fetch,))
        text = read.documents[names].json.replace('"n":{}', f'"n":{json.dumps(hostile)}')  # type: ignore[union-attr]
        (done,) = await handle.scope.execute((Commit(entity, "op", (Put(names, text),)),))
        assert isinstance(done, Applied)
        with pytest.raises(WorkflowCheckpointException, match="checkpoint"):
            await storage.load("at 1")
