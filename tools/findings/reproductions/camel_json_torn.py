"""CAMEL: one write that was cut short makes a whole JsonStorage unreadable.

The disk is full here; a kill during a long record does the same. The torn line stays in the
file, the next record is written onto it, and `load` fails for all of them.
"""

import resource
import sys
from pathlib import Path

from camel.storages.key_value_storages import JsonStorage

storage = JsonStorage(Path("chat.json"))
storage.save([{"content": f"message {number}"} for number in range(100)])

size = Path("chat.json").stat().st_size
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))  # 10 bytes more: the disk is full
try:
    storage.save([{"content": "one more"}])
except OSError as error:
    print("the new record is refused, as it should be:", error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))  # there is room again

print("expected: the 100 records of before")
try:
    found = f"{len(storage.load())} records"
except ValueError as error:
    found = f"none: {type(error).__name__}: {error}"
print("found:", found)
sys.exit(found != "100 records")
