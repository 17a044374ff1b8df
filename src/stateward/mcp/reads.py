"""The table of the tools that only read."""

from __future__ import annotations

from stateward.mcp.conversation_reads import CONVERSATION_READS
from stateward.mcp.document_reads import DOCUMENT_READS
from stateward.mcp.tool import McpTool
from stateward.mcp.why_tool import WHY
from stateward.mcp.work_reads import WORK_READS, HealthAnswer, NoArguments, health

READS = (
    *CONVERSATION_READS,
    *DOCUMENT_READS,
    *WORK_READS,
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
