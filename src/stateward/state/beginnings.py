"""Threads known to begin without system messages: most do, and no append changes it."""

from __future__ import annotations

from stateward.ops import Entity, Head

KEPT = 10_000
UNEDITED = (0, "")  # most threads; one object for all of them


class PlainBeginnings:
    """Threads without system messages at their beginning, with the life and label when read.

    Every commit that rewrites messages, in whichever process, sets another label: `Handle.commit`.
    """

    def __init__(self) -> None:
        self.seen: dict[Entity, tuple[int, str]] = {}
        self.met_unknown_shape = False  # and that was logged; for all namespaces of the store

    def remember(self, entity: Entity, head: Head) -> None:
        """Note that this thread, as it is now, does not begin with system messages."""
        while len(self.seen) >= KEPT:
            self.seen.pop(next(iter(self.seen)), None)
        state = (head.life, head.label)
        self.seen[entity] = UNEDITED if state == UNEDITED else state
