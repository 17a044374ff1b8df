"""Follows what changes, and keeps each change and then its cursor, until it is killed.

python consumer.py URL FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from talk import say

from stateward import Policy, sync

url, folder = sys.argv[1], Path(sys.argv[2])
cursor = (folder / "cursor").read_text() if (folder / "cursor").exists() else None
PATIENT = Policy(threads="raise", write_timeout=60.0, read_timeout=60.0)

with (
    sync.open(url, spill=False, heartbeat=None, policy=PATIENT) as store,
    (folder / "changes").open("a") as changes,
):
    for change in store.changes(("thread", "user"), after=cursor, poll=0.02):
        said = [change.kind, change.id, change.commits, change.version]
        changes.write(json.dumps(said) + "\n")
        changes.flush()
        (folder / "new").write_text(change.cursor)
        os.replace(folder / "new", folder / "cursor")
        say("told")
