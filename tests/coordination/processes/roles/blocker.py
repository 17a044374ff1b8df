"""Makes the store's file unavailable for writing when it is told so, until it is told to let go.

facts: path, effects
"""

from __future__ import annotations

import apsw
from talk import facts, hear, say

connection = apsw.Connection(facts["path"])
connection.set_busy_timeout(60_000)
say(ready=True)
hear()
connection.execute("BEGIN EXCLUSIVE")
say(held=True)
hear()
connection.execute("ROLLBACK")
connection.close()
say(released=True)
