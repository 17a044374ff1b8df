"""Tools of Strands that act: each call is carried out once, whoever continues with the session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Unpack

from strands.types._events import ToolResultEvent
from strands.types.tools import AgentTool, ToolSpec, ToolUse

from stateward.errors import EffectUnknown
from stateward.integrations.strands.manager import StatewardSessionManager
from stateward.integrations.tool_effects import EffectToolOptions, ToolEffects
from stateward.state.threads import Thread
from stateward.sync.state.threads import Thread as BlockingThread


def effect_tool(
    session: StatewardSessionManager | Thread | BlockingThread,
    tool: AgentTool,
    **options: Unpack[EffectToolOptions],
) -> AgentTool:
    """Return the tool with each call carried out once for a session: see `Thread.effect`.

    `Agent(tools=[effect_tool(manager, charge)], session_manager=manager)`. The call is the id of
    the tool use, or what `key` makes of its input. An exception of the tool is recorded, and
    reported to the model again. An effect whose outcome is unknown is reported to the model and
    ends the invocation: a person has to decide.
    """
    acts = ToolEffects(tool.tool_name, **options)
    return _EffectTool(session.handle, tool, acts)


class _EffectTool(AgentTool):
    def __init__(self, whose: Any, tool: AgentTool, acts: ToolEffects) -> None:
        super().__init__()
        self._whose, self._tool, self._acts = whose, tool, acts

    @property
    def tool_name(self) -> str:
        return str(self._tool.tool_name)

    @property
    def tool_spec(self) -> ToolSpec:
        return self._tool.tool_spec

    @property
    def tool_type(self) -> str:
        return str(self._tool.tool_type)

    async def stream(
        self, tool_use: ToolUse, invocation_state: dict[str, Any], **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Yield what the tool streams, then its result; of an earlier call, only the result."""
        events: list[Any] = []

        async def act(**_: Any) -> Any:
            async for event in self._tool.stream(tool_use, invocation_state, **kwargs):
                if not isinstance(event, ToolResultEvent):
                    events.append(event)
                    continue
                if isinstance(event.exception, Exception):
                    raise event.exception
                return event.tool_result
            return events.pop() if events else None

        id = str(tool_use["toolUseId"])
        error: Exception | None = None
        try:
            result = await self._acts.carry_out(self._whose, id, act, dict(tool_use["input"]))
        except Exception as failed:
            if isinstance(failed, EffectUnknown):
                invocation_state["agent"].cancel(after_current_tools=True)
            error, result = failed, {"status": "error", "content": [{"text": f"Error: {failed}"}]}
        for event in events:
            yield event
        yield ToolResultEvent({**_recorded_result(result), "toolUseId": id}, exception=error)


def _recorded_result(result: Any) -> dict[str, Any]:
    """Return the result of a tool or of a person in Strands' form."""
    if isinstance(result, dict) and "content" in result:
        return {"status": "success", **result}
    text = {"text": result} if isinstance(result, str) else {"json": result}
    return {"status": "success", "content": [text]}
