"""Which threads are known to begin without system messages: most do, and no append changes it."""

from __future__ import annotations

from stateward.ops import Entity, Head

KEPT = 10_000
UNEDITED = (0, "")  # what most threads are, in one object for all of them


class PlainBeginnings:
    """Threads without system messages at their beginning, by what was looked at.

    That is the life and the label: whoever rewrites messages, in whichever process, sets another
    label (`Handle.commit`).
    """

    def __init__(self) -> None:
        self.seen: dict[Entity, tuple[int, str]] = {}
        self.met_unknown_shape = False  # and it was said, for all namespaces of the store

    def remember(self, entity: Entity, head: Head) -> None:
        """This thread, as it is, does not begin with system messages."""
        while len(self.seen) >= KEPT:
            self.seen.pop(next(iter(self.seen)), None)
        found = (head.life, head.label)
        self.seen[entity] = UNEDITED if found == UNEDITED else found
