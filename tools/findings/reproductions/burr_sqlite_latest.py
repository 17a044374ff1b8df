"""Burr: SQLitePersister's `load` without an app_id does not give the last thing written.

It orders by a time stamp of whole seconds, so anything saved within the same second may come.
"""

import sys

from burr.core import State
from burr.core.persistence import SQLitePersister

persister = SQLitePersister.from_values("burr.db", table_name="state")
persister.initialize()
for number in range(1, 6):
    state = State({"step": number})
    persister.save("user-1", "app-1", number, "step", state, "completed")

found = persister.load("user-1", None)["state"]["step"]
print("expected: the last thing written, step 5")
print(f"found: step {found}")
sys.exit(found != 5)
