"""The import sources by the word before the colon: `openai-agents:sqlite:///old.db`."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from stateward.engines.url import did_you_mean
from stateward.errors import InvalidInput
from stateward.transfer.moves.foreign import ForeignStore

# The modules whose `open_source` opens the address after the colon.
SOURCES = {
    "adk": "adk",
    "claude": "claude_transcripts",
    "jsonl": "json_lines",
    "langgraph": "langgraph",
    "openai-agents": "openai_agents",
    "strands": "strands",
}


def open_source(text: str) -> ForeignStore:
    """Open a source; the package of a framework is imported only for its own sources."""
    scheme, _, rest = text.partition(":")
    if scheme not in SOURCES or not rest:
        raise InvalidInput(
            f"there is nothing to import from {scheme!r}{did_you_mean(scheme, SOURCES)}: a source "
            f"begins with one of {', '.join(f'{name}:' for name in SOURCES)}"
        )
    module = import_module(f"stateward.transfer.moves.{SOURCES[scheme]}")
    return cast(ForeignStore, module.open_source(rest))
