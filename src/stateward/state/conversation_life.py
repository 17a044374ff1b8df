"""The life of a conversation: what was begun in one is stored in that one, or not at all.

A conversation that was deleted may begin again under its id. A turn that was being answered
meanwhile must not put its messages there: they may repeat what was deleted. No I/O.
"""

from __future__ import annotations

from math import inf, nextafter

from msgspec import Struct

from stateward.ops import Applied, Head, NotDroppedSince


class Life(Struct, frozen=True, eq=False):
    """A life of a conversation, as a read has seen it."""

    existed: bool
    dropped: float  # when the life before this one ended by a deletion
    read: float  # by this machine's monotonic clock
    created: float = 0.0  # by the engine's clock; numbers of lives are counted anew after a while
    version: int = 0
    until: float = inf  # when it will expire, as far as was known then

    def __eq__(self, other: object) -> bool:
        """Return whether the reads agree, whenever they took place."""
        if not isinstance(other, Life):
            return NotImplemented
        return (self.existed, self.dropped) == (other.existed, other.dropped)

    def __hash__(self) -> int:
        return hash((self.existed, self.dropped))

    @classmethod
    def of(cls, head: Head, read: float) -> Life:
        """Return the life that a read has seen.

        A conversation without messages has not begun: a lease on it may have made it, and its
        release ends it.
        """
        begun = head.exists and head.version > 0
        return cls(begun, head.dropped, read, head.created, head.version, head.expires or inf)

    @property
    def check(self) -> NotDroppedSince:
        """The check that the conversation was not deleted since it was read."""
        return NotDroppedSince(nextafter(self.dropped, inf))

    def is_over(self, head: Head) -> bool:
        """Return whether the conversation was deleted, or has expired, since it was read."""
        ended = not head.exists or head.created != self.created
        return head.dropped > self.dropped or (self.existed and ended)

    def may_be_over(self, new: Applied, n: int) -> bool:
        """Return whether a commit of so many messages may belong to a later life.

        A life that expired leaves no time that a check could name. But when it would expire was
        read with it, and a later life counts its messages anew.
        """
        return self.existed <= new.created or new.version - n < self.version or new.at >= self.until
