"""Microsoft Agent Framework: a turn that repeats the one before it is not stored.

What a caller gives to `save_messages` is compared with the end of the history, and what is alike
is taken for a replay. A user who says the same thing again, and gets the same answer, is lost.
"""

import asyncio
import os
import sys
import uuid

from agent_framework import Message
from agent_framework_redis import RedisHistoryProvider


async def main() -> int:
    provider = RedisHistoryProvider(
        "history", redis_url=os.environ["REDIS_URL"], application_id="shop"
    )
    session = f"session-{uuid.uuid4()}"
    for _ in range(3):
        turn = [Message("user", ["add one to my basket"]), Message("assistant", ["Done."])]
        await provider.save_messages(session, turn)
    found = await provider.get_messages(session)
    await provider.aclose()
    print("expected: 6 messages, of three turns")
    print(f"found: {len(found)} messages")
    return len(found) != 6


sys.exit(asyncio.run(main()))
