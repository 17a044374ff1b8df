"""CrewAI: of two requests that resume one flow, one's turn is lost.

Each saves the whole state that it loaded, the last one stands, and nothing compares versions.
"""

import asyncio
import sys

from crewai.flow.flow import Flow, start
from crewai.flow.persistence import SQLiteFlowPersistence, persist

persistence, both_have_loaded = SQLiteFlowPersistence("flows.db"), asyncio.Barrier(2)


@persist(persistence)
class Chat(Flow):
    @start()
    async def reply(self) -> None:
        said = self.state.get("said", [])
        await both_have_loaded.wait()
        self.state["said"] = [*said, self.state["question"]]


async def main() -> int:
    persistence.save_state("chat-1", "begin", {"id": "chat-1", "said": []})
    turns = [{"id": "chat-1", "question": text} for text in ("first", "second")]
    await asyncio.gather(*(Chat().kickoff_async(turn) for turn in turns))
    found = persistence.load_state("chat-1")["said"]
    print("expected: both turns, or an error for one")
    print("found:", found)
    return len(found) != 2


sys.exit(asyncio.run(main()))
