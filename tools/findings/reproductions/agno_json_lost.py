"""Agno: processes that share a JsonDb lose each other's sessions.

Each write reads the file of all sessions, changes it and replaces it, without a lock.
"""

import multiprocessing
import sys
import time
from typing import Any

from agno.db.base import SessionType
from agno.db.json import JsonDb
from agno.session.agent import AgentSession

ROUNDS = 100


def request_of(user: str, at_once: Any) -> None:
    db = JsonDb(db_path="agno")
    for number in range(ROUNDS):
        session = AgentSession(
            session_id=f"{user}-{number}", session_data={}, created_at=int(time.time())
        )
        at_once.wait()
        db.upsert_session(session)


if __name__ == "__main__":
    users, at_once = ("anna", "ben"), multiprocessing.Barrier(2)
    both = [multiprocessing.Process(target=request_of, args=(user, at_once)) for user in users]
    for each in both:
        each.start()
    for each in both:
        each.join()
    db, ids = JsonDb(db_path="agno"), [f"{user}-{n}" for user in users for n in range(ROUNDS)]
    there = [id for id in ids if db.get_session(id, SessionType.AGENT) is not None]
    print(f"expected: {len(ids)} sessions, {ROUNDS} of each of two users")
    print(f"found: {len(there)} sessions")
    sys.exit(len(there) < len(ids))
