"""LangGraph on Holdfast: `graph.compile(checkpointer=HoldfastSaver(…), store=HoldfastStore(…))`."""

from __future__ import annotations

try:
    import langgraph.checkpoint.base  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "LangGraph is not installed: pip install 'holdfast[langgraph]'", name=error.name
    ) from error

from holdfast.integrations.langgraph.saver import HoldfastSaver
from holdfast.integrations.langgraph.store import HoldfastStore

__all__ = ["HoldfastSaver", "HoldfastStore"]
