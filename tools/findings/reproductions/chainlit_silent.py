"""Chainlit: a message that the database refuses is dropped without an error.

SQLAlchemyDataLayer logs every error of the database as a warning and returns None.
"""

import asyncio
import logging
import socket
import sys
import uuid

from chainlit.context import init_http_context
from chainlit.data.sql_alchemy import SQLAlchemyDataLayer

logging.disable()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    nobody = free.getsockname()[1]  # a port at which no server listens


async def main() -> int:
    init_http_context()
    layer = SQLAlchemyDataLayer(f"postgresql+asyncpg://postgres@127.0.0.1:{nobody}/chats")
    thread = str(uuid.uuid4())
    step = {"id": str(uuid.uuid4()), "threadId": thread, "name": "user", "type": "user_message"}
    print("expected: an error, for the write and for the read")
    try:
        await layer.create_step({**step, "output": "My name is Anna.", "streaming": False})
        read = await layer.get_thread(thread)
        print(f"found: the write returns as if done, and the read returns {read}")
    except Exception as error:
        print(f"found: {type(error).__name__}")
        return 0
    return 1


sys.exit(asyncio.run(main()))
