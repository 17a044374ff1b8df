"""Which threads are known to begin without system messages: most do, and no append changes it."""

from __future__ import annotations

from stateward.ops import Entity

KEPT = 10_000


class PlainBeginnings:
    """Threads without system messages at their beginning, by the life that was looked at."""

    def __init__(self) -> None:
        self.lives: dict[Entity, int] = {}

    def remember(self, entity: Entity, life: int) -> None:
        """This thread, in this life, does not begin with system messages."""
        while len(self.lives) >= KEPT:
            self.lives.pop(next(iter(self.lives)), None)
        self.lives[entity] = life

    def forget(self, entity: Entity) -> None:
        """Its messages were rewritten."""
        self.lives.pop(entity, None)
