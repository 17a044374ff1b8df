"""Tools of LangGraph that act: each call is carried out once, whoever resumes the graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Unpack

from langchain_core.messages import ToolMessage, message_to_dict, messages_from_dict
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp

from stateward.codec import encode
from stateward.errors import EffectUnknown, InvalidInput
from stateward.integrations.adapter import AnyStore
from stateward.integrations.bridge import Bridge
from stateward.integrations.kept.langgraph_names import KIND
from stateward.integrations.langgraph.saver import StatewardSaver
from stateward.integrations.tool_effects import EffectToolOptions, ToolEffects
from stateward.ops import Entity

T = TypeVar("T", bound=BaseTool)


def effect_tool(
    store: AnyStore | StatewardSaver, tool: T, **options: Unpack[EffectToolOptions]
) -> T:
    """Return the tool with each call carried out once for its thread: see `Thread.effect`.

    `ToolNode([effect_tool(saver, charge)])`. The thread is the graph's `thread_id`, the call the
    id of the tool call, or what `key` makes of its arguments. An exception of the tool is recorded,
    and raised again by further calls. What it returns must be JSON, or a message whose parts are.
    `EffectUnknown` ends the run, also with `handle_tool_errors`: a person is to decide.
    """
    bridge = store._bridge if isinstance(store, StatewardSaver) else Bridge(store)
    acts = ToolEffects(tool.name, **options)
    acting = tool.model_copy()
    acting.__class__ = type(type(tool).__name__, (_ToolOnce, type(tool)), {"__module__": __name__})
    object.__setattr__(acting, "_acting", (bridge, acts))
    return acting


class _ToolOnce:
    """The methods of an effect tool that differ from the original's."""

    def run(
        self, tool_input: Any, *args: Any, config: Any = None, tool_call_id: Any = None, **more: Any
    ) -> Any:
        bridge, acts = self._acting  # type: ignore[attr-defined]
        options: dict[str, Any] = {"config": config, "tool_call_id": tool_call_id, **more}

        def act(**_: Any) -> Any:
            return _record(super(_ToolOnce, self).run(tool_input, *args, **options))  # type: ignore[misc]

        whose = bridge.blocking_handle(_thread(bridge, config))
        with _let_through():
            record = acts.carry_out_here(whose, tool_call_id, act, _arguments(tool_input))
        return _output(record, tool_call_id, acts.name)

    async def arun(
        self, tool_input: Any, *args: Any, config: Any = None, tool_call_id: Any = None, **more: Any
    ) -> Any:
        bridge, acts = self._acting  # type: ignore[attr-defined]
        options: dict[str, Any] = {"config": config, "tool_call_id": tool_call_id, **more}

        async def act(**_: Any) -> Any:
            return _record(await super(_ToolOnce, self).arun(tool_input, *args, **options))  # type: ignore[misc]

        whose = bridge.handle(_thread(bridge, config))
        with _let_through():
            record = await acts.carry_out(whose, tool_call_id, act, _arguments(tool_input))
        return _output(record, tool_call_id, acts.name)


class GraphEffectUnknown(EffectUnknown, GraphBubbleUp):
    """`EffectUnknown` that ends a run of a graph: `ToolNode` reports it to no model."""


@contextmanager
def _let_through() -> Iterator[None]:
    try:
        yield
    except EffectUnknown as error:
        raise GraphEffectUnknown(str(error), effect=error.effect, key=error.key) from error


def _thread(bridge: Bridge, config: Any) -> Entity:
    thread = ((config or {}).get("configurable") or {}).get("thread_id")
    if thread is None:
        raise InvalidInput(
            "a tool that acts belongs to a thread: run the graph with "
            "{'configurable': {'thread_id': ...}}"
        )
    return Entity(bridge.namespace, KIND, str(thread))


def _arguments(tool_input: Any) -> dict[str, Any]:
    return tool_input if isinstance(tool_input, dict) else {"input": tool_input}


def _record(output: Any) -> Any:
    """Return a tool's result as it is recorded; recording refuses what is no JSON."""
    return {"message": message_to_dict(output)} if isinstance(output, ToolMessage) else [output]


def _output(record: Any, call: str | None, name: str) -> Any:
    """Return a recorded result, of the tool or of a person, as an answer to this call."""
    if isinstance(record, list) and len(record) == 1:
        return record[0]
    if isinstance(record, dict) and record.keys() == {"message"}:
        (message,) = messages_from_dict([record["message"]])
        return message.model_copy(update={"tool_call_id": call})
    content = record if isinstance(record, str) else encode(record, "the result")
    return content if call is None else ToolMessage(content, tool_call_id=call, name=name)
