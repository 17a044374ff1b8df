"""CAMEL: without its server, RedisStorage accepts every write and says that nothing was said."""

import asyncio
import logging
import socket
import sys

from camel.storages.key_value_storages import RedisStorage

logging.disable()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    nobody = free.getsockname()[1]  # a port at which no server listens

storage = RedisStorage("chat", f"redis://127.0.0.1:{nobody}", loop=asyncio.new_event_loop())
print("expected: an error, for the write and for the read")
try:
    storage.save([{"content": "My name is Anna."}])
    print(f"found: the write returns as if done, and the read returns {storage.load()}")
except Exception as error:
    print(f"found: {type(error).__name__}")
else:
    sys.exit(1)
