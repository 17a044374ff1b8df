"""A model of Strands without a network, and an agent of it that can grill."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.models import Model


class Scripted(Model):
    """Says what it was told to, one block a call: a text, or a dict that is a tool's use."""

    def __init__(self, *blocks: str | dict[str, Any]) -> None:
        self.blocks = list(blocks)
        self.seen: list[list[dict[str, Any]]] = []

    def get_config(self) -> Any:
        return {}

    def update_config(self, **config: Any) -> None:
        raise NotImplementedError

    async def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.seen.append(list(messages))
        block = self.blocks.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(block, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": block}}}
        else:
            use = {"name": block["name"], "toolUseId": block["toolUseId"]}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            given = json.dumps(block["input"])
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": given}}}}
        yield {"contentBlockStop": {}}
        reason = "end_turn" if isinstance(block, str) else "tool_use"
        yield {"messageStop": {"stopReason": reason}}


@tool
def grill(doneness: str) -> str:
    """Grill a steak."""
    return f"a {doneness} steak"


GRILL = {"name": "grill", "toolUseId": "use-1", "input": {"doneness": "medium rare"}}


def waiter(manager: Any, *blocks: str | dict[str, Any], **options: Any) -> Agent:
    return Agent(
        model=Scripted(*blocks),
        agent_id="waiter",
        session_manager=manager,
        tools=[grill],
        callback_handler=None,
        **options,
    )
