"""The table of the tools that only read."""

from __future__ import annotations

from stateward.actions.table import ACTIONS
from stateward.mcp.action_tools import tools_of
from stateward.mcp.conversation_reads import CONVERSATION_READS
from stateward.mcp.document_reads import DOCUMENT_READS
from stateward.mcp.health import HealthAnswer, NoArguments, health
from stateward.mcp.tool import McpTool
from stateward.mcp.why_tool import WHY

READS = (
    *CONVERSATION_READS,
    *DOCUMENT_READS,
    *tools_of(ACTIONS, reads=True),
    WHY,
    McpTool(
        "health",
        health,
        NoArguments,
        HealthAnswer,
        "Check whether the store answers and how fast, and show how it is configured.",
        one_users=False,
    ),
)
