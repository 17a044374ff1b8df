"""The table of tools: first those that only read."""

from __future__ import annotations

import stateward.mcp.why_tool  # noqa: F401  adds its row to those of conversations
from stateward.actions.table import ACTIONS
from stateward.mcp.action_tools import tools_of
from stateward.mcp.conversation_reads import CONVERSATIONS, FIND
from stateward.mcp.health import HEALTH

ROWS = (*ACTIONS, *CONVERSATIONS)
READS = (FIND, *tools_of(ROWS, reads=True), HEALTH)
WRITES = tools_of(ROWS, reads=False)
TOOLS = (*READS, *WRITES)
