"""Tools of ADK that act: each call is carried out once, whoever continues with the session."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Unpack

from google.adk.tools import BaseTool, FunctionTool, ToolContext
from pydantic_core import to_jsonable_python

from stateward.errors import EffectUnknown
from stateward.integrations.adapter import AnyStore
from stateward.integrations.google_adk.events import note_unknown
from stateward.integrations.google_adk.sessions import StatewardSessionService
from stateward.integrations.tool_effects import EffectToolOptions, ToolEffects


def effect_tool(
    service: StatewardSessionService | AnyStore,
    tool: BaseTool | Callable[..., Any],
    **options: Unpack[EffectToolOptions],
) -> BaseTool:
    """Return the tool with each call carried out once for its session: see `Thread.effect`.

    `LlmAgent(tools=[effect_tool(service, charge)])`. The call is the id of the function call, or
    what `key` makes of its arguments: give one where a run is repeated after a crash by asking the
    same question again, because then the model makes another call. An exception of the tool is
    recorded, and raised again by further calls; what it changes in the state of the session is not.
    `EffectUnknown` ends the run, also with a plugin that has the model try again: a person decides.
    """
    sessions = (
        service
        if isinstance(service, StatewardSessionService)
        else StatewardSessionService(service)
    )
    inner = tool if isinstance(tool, BaseTool) else FunctionTool(tool)
    acts = ToolEffects(inner.name, **options)

    async def acting(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        async def act(**_: Any) -> Any:
            answer = await inner.run_async(args=args, tool_context=tool_context)
            return to_jsonable_python(answer)

        if getattr(inner, "_require_confirmation", False) and not tool_context.tool_confirmation:
            # This call only requests a confirmation.
            return await inner.run_async(args=args, tool_context=tool_context)
        session = tool_context.session
        thread = sessions.thread(session.app_name, session.user_id, session.id)
        call = tool_context.function_call_id
        try:
            return await acts.carry_out(thread.handle, call, act, args)
        except EffectUnknown as error:
            # A plugin or a callback may tell the model to try again. The session service raises
            # the error in place of storing such an answer; with another one the run ends.
            tool_context._invocation_context.end_invocation = True
            note_unknown(session, call, error)
            raise

    outer = copy(inner)
    object.__setattr__(outer, "run_async", acting)
    return outer
