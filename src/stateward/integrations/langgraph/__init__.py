"""LangGraph: `graph.compile(checkpointer=StatewardSaver(…), store=StatewardStore(…))`."""

from __future__ import annotations

try:
    import langgraph.checkpoint.base  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "LangGraph is not installed: pip install 'stateward[langgraph]'", name=error.name
    ) from error

from stateward.integrations.langgraph.saver import StatewardSaver
from stateward.integrations.langgraph.store import StatewardStore
from stateward.integrations.langgraph.tools import effect_tool

__all__ = ["StatewardSaver", "StatewardStore", "effect_tool"]
