"""A redelivered append: whether its key was used before, and whether for the same messages.

Engines compare text; a message that is built again may have its names in another order.
"""

from __future__ import annotations

from stateward.codec import canonical, decode
from stateward.ops import (
    NOWHERE,
    Append,
    Applied,
    Commit,
    Duplicate,
    Entity,
    Fetched,
    KeyReused,
    Log,
    SetHead,
)

NO_MESSAGE = '""'  # a message is an object: no append is the same as this


def search_for(key: str, entity: Entity, owner: str | None, op: str) -> Commit:
    """Return a commit that looks for a key and writes nothing: `KeyReused` is yes, `Conflict` no.

    An engine looks at keys before it looks at anything else that a commit checks.
    """
    asked = (SetHead(), Append((NO_MESSAGE,), key))
    return Commit(entity, op, asked, (NOWHERE,), owner)


def log_of(refused: KeyReused, append: Append) -> Log:
    """Return the part of the log that `duplicate_of` has to see."""
    first = refused.version - len(append.bodies)
    return Log(max(0, first - 1), refused.version, details=True)


def duplicate_of(refused: KeyReused, append: Append, fetched: Fetched) -> Duplicate | None:
    """Return the append with this key, if it has the same messages with names in any order.

    None also if it was edited or trimmed since: its messages are no longer there to compare.
    """
    there = [entry for entry in fetched.entries if entry.stamp == fetched.entries[-1].stamp]
    if not there or (there[-1].seq, there[-1].key) != (refused.version, refused.key):
        return None
    if [*map(_canonical, append.bodies)] != [_canonical(entry.body) for entry in there]:
        return None
    first = Applied(refused.version, there[-1].stamp, there[-1].at)
    return Duplicate(first, own=False, head=fetched.head)


def _canonical(body: str) -> str:
    return canonical(decode(body), "the message")
