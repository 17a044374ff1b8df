"""A turn of Claude's SDK in a process of its own: url, user, folder, question, session or ""."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

import stateward
from stateward.integrations.claude_agent_sdk import StatewardSessionStore

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from frameworks.claude_cli import command


async def main(url: str, user: str, folder: str, question: str, session: str) -> None:
    own = Path(folder)  # of this process: a local transcript is nowhere else
    work = own.parent / "work"
    work.mkdir(exist_ok=True)
    async with stateward.open(url) as store:
        options = ClaudeAgentOptions(
            session_store=StatewardSessionStore(store, user=user),
            resume=session or None,
            cli_path=command(own),
            cwd=work,
            env={"CLAUDE_CONFIG_DIR": str(own), "HOME": str(own)},
        )
        async for message in query(prompt=question, options=options):
            if isinstance(message, ResultMessage):
                print(json.dumps({"session": message.session_id, "said": message.result}))


asyncio.run(main(*sys.argv[1:]))
