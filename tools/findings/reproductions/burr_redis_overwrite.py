"""Burr: two replicas may both save the same sequence id to Redis; one of the two is gone.

`save` asks whether the key exists, and writes it in a second call. SQLite refuses the second.
"""

import os
import sys
import threading
import uuid

from burr.core import State
from burr.integrations.persisters.b_redis import RedisBasePersister
from redis import Redis

ROUNDS = 200
app, barrier = f"app-{uuid.uuid4()}", threading.Barrier(2)
accepted: list[int] = []


def replica(name: str) -> None:
    persister = RedisBasePersister(Redis.from_url(os.environ["REDIS_URL"]))
    for number in range(1, ROUNDS + 1):
        barrier.wait()
        try:
            persister.save("user-1", app, number, "reply", State({"by": name}), "completed")
            accepted.append(number)
        except ValueError:
            pass  # "already exists": the other one was first, and this one knows


replicas = [threading.Thread(target=replica, args=(name,)) for name in ("one", "two")]
for each in replicas:
    each.start()
for each in replicas:
    each.join()
print(f"expected: {ROUNDS} saves are accepted, one for each sequence id")
print(f"found: {len(accepted)} are accepted; {len(accepted) - ROUNDS} of them were overwritten")
sys.exit(len(accepted) > ROUNDS)
