"""mem0: of a batch of messages the oldest ten are kept, not the newest.

All messages of a batch get one time stamp, by which alone the newest ten are chosen.
"""

import sys

from mem0.memory.storage import SQLiteManager

db = SQLiteManager("history.db")
db.save_messages([{"role": "user", "content": f"{n}"} for n in range(1, 13)], "user-1")

found = [message["content"] for message in db.get_last_messages("user-1", limit=10)]
wanted = [f"{n}" for n in range(3, 13)]
print("expected: the newest ten of twelve,", " ".join(wanted))
print("found:", " ".join(found))
sys.exit(found != wanted)
