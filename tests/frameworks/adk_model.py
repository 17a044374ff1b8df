"""A model of ADK without a network, and a runner of an agent that can grill."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools import ToolContext
from google.genai import types

APP = "restaurant"


class Scripted(BaseLlm):
    """Says what it was told to, one part a call: a text, or a tool's name and arguments."""

    parts: list[Any]
    seen: list[Any]

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        self.seen.append(llm_request.contents)
        part = self.parts.pop(0)
        if isinstance(part, str):
            content = types.Part(text=part)
        else:
            content = types.Part(function_call=types.FunctionCall(**part))
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=1, candidates_token_count=1
        )
        yield LlmResponse(content=types.Content(role="model", parts=[content]), usage_metadata=used)


def grill(doneness: str, tool_context: ToolContext) -> dict[str, str]:
    """Grill a steak."""
    tool_context.state["ordered"] = doneness
    tool_context.state["user:favourite"] = doneness
    tool_context.state["app:steaks"] = tool_context.state.get("app:steaks", 0) + 1
    tool_context.state["temp:smoke"] = True
    return {"made": f"a {doneness} steak"}


GRILL = {"name": "grill", "args": {"doneness": "medium rare"}}


def waiter(service: Any, *parts: Any, tools: Any = (grill,)) -> Runner:
    model = Scripted(model="scripted", parts=list(parts), seen=[])
    agent = LlmAgent(name="waiter", model=model, tools=list(tools))
    return Runner(app_name=APP, agent=agent, session_service=service)


async def ask(runner: Runner, question: str, session: str = "s-1", user: str = "u-42") -> str:
    """The last text of a run."""
    content = types.Content(role="user", parts=[types.Part(text=question)])
    said = ""
    async for event in runner.run_async(user_id=user, session_id=session, new_message=content):
        if event.content and event.content.parts and event.content.parts[0].text:
            said = event.content.parts[0].text
    return said


def texts(session: Any) -> list[str]:
    """What a session's events say, in short."""
    found = []
    for event in session.events:
        (part,) = event.content.parts
        found.append(part.text or ("call" if part.function_call else "result"))
    return found
