"""Tools of each framework as effects: what they give, fail with, and leave unknown."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stateward
from effects.cashiers import AGENTS, FRAMEWORKS, key
from effects.deaths import Death
from stateward import sync
from stateward.integrations.faststream import effect


class Service(Death):
    """A service in this process that does what it is told."""

    def __init__(self, *ends: Exception | str) -> None:
        self.asked: list[str] = []
        self._ends = list(ends)

    def charge(self, order: str, key: str) -> str:
        self.asked.append(key)
        end = self._ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


async def deliver(framework: str, url: str, service: Service, **options: Any) -> str:
    """One turn, as the harness has it; a failure by its name."""
    agent: Callable[..., Any] = AGENTS[framework]
    try:
        if inspect.iscoroutinefunction(agent):
            return str(await agent(url, "o-1", service, options))
        return str(await asyncio.to_thread(agent, url, "o-1", service, options))
    except Exception as error:
        known = (error, error.__cause__)
        unknown = any(isinstance(each, stateward.EffectUnknown) for each in known)
        return "EffectUnknown" if unknown else type(error).__name__


def effects(url: str) -> list[stateward.EffectInfo]:
    with sync.open(url, heartbeat=None) as store:
        return list(store.effects())


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_tool_is_called_once_however_often_it_is_asked_for(
    framework: str, tmp_path: Path
) -> None:
    url, service = f"sqlite:///{tmp_path}/store.db", Service("paid")
    assert await deliver(framework, url, service) == "charged"
    (info,) = effects(url)
    assert (info.status, info.tries) == ("done", 1)
    assert info.key == service.asked[0]
    if framework != "langgraph":  # where a second turn is another call, unless a key says otherwise
        assert await deliver(framework, url, service) == "charged"
        assert len(service.asked) == len(effects(url)) == 1


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_tool_that_does_not_hear_from_its_service_is_unknown_until_somebody_decides(
    framework: str, tmp_path: Path
) -> None:
    url, service = f"sqlite:///{tmp_path}/store.db", Service(TimeoutError("slow"))
    first = await deliver(framework, url, service)
    assert first == ("" if framework == "strands" else "EffectUnknown")
    assert await deliver(framework, url, service) == first
    assert len(service.asked) == 1
    (info,) = effects(url)
    assert info.status == "unknown"
    with sync.open(url, heartbeat=None) as store:
        store.effect(info.id).resolve("done", result={"id": "ch_7"})  # as a person would say it
    assert await deliver(framework, url, service) == "charged"
    assert len(service.asked) == 1


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_a_tool_that_failed_is_not_called_again(framework: str, tmp_path: Path) -> None:
    url, service = f"sqlite:///{tmp_path}/store.db", Service(ValueError("declined"))
    first = await deliver(framework, url, service)
    # Some frameworks tell the model, which then answers; some raise.
    assert first == ("charged" if framework in ("openai", "strands") else "ValueError")
    assert await deliver(framework, url, service) == first
    assert len(service.asked) == 1
    (info,) = effects(url)
    assert (info.status, info.error) == ("failed", "ValueError: declined")


async def test_a_service_that_can_be_asked_decides(tmp_path: Path) -> None:
    url, service = f"sqlite:///{tmp_path}/store.db", Service(TimeoutError("slow"))

    async def look(info: stateward.EffectInfo) -> stateward.Done:
        assert info.kwargs == {"order_id": "o-1"}
        return stateward.Done("paid")

    # Over a blocking store: the tool and `look` run on the agent's own loop all the same.
    assert await deliver("strands", url, service, reconcile=look) == "charged"
    (info,) = effects(url)
    assert (info.status, info.decided) == ("done", "reconcile")


async def test_a_blocking_graph_has_tools_that_act(tmp_path: Path) -> None:
    from langchain_core.tools import tool

    from stateward.integrations.langgraph import StatewardSaver, effect_tool

    asked: list[str] = []

    @tool
    def charge(order_id: str) -> str:
        """Charge an order."""
        asked.append(stateward.idempotency_key())
        return f"paid {order_id}"

    async with (
        stateward.open(f"sqlite:///{tmp_path}/store.db") as store,
        StatewardSaver(store) as saver,  # closes what blocking calls have opened
    ):
        acting = effect_tool(saver, charge)
        call: Any = {"name": "charge", "args": {"order_id": "1"}, "id": "c-1", "type": "tool_call"}
        config: Any = {"configurable": {"thread_id": "t"}}
        said = [acting.invoke(call, config), await acting.ainvoke(call, config)]
        assert [message.content for message in said] == ["paid 1", "paid 1"]
        assert {message.tool_call_id for message in said} == {"c-1"}
        assert len(asked) == 1
        with pytest.raises(stateward.InvalidInput, match="thread_id"):
            acting.invoke(call)
        with pytest.raises(stateward.InvalidInput, match="key="):
            acting.invoke({"order_id": "1"}, config)


async def test_an_effect_of_a_message_needs_a_message() -> None:
    with pytest.raises(stateward.StoreMisused):
        await effect("charge", key, {"order_id": "1"})
