"""Cursors with which a listing by recency continues after any of its entities. No I/O."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated

import msgspec

from stateward.codec import shown
from stateward.engine import MINUTE
from stateward.errors import InvalidInput
from stateward.ops import Found


class PageCursor(msgspec.Struct, frozen=True, array_like=True):
    """The position after an entity of a listing.

    Pages are ordered by minute, and the entities within a page by time, so within a page the
    engine's own cursor is not enough. `page` is the beginning of the entity's page, or of the next
    one. The page is read again in its `size`, as a larger one would sort other entities in between.
    Entities that were listed before are skipped: those of a later minute, and those of the same
    minute that are not below `lowest`, the page's last id in it, and not before `updated`.
    """

    page: str | None
    minute: float | None = None
    lowest: str = ""
    updated: float = 0.0
    id: str = ""
    size: Annotated[int, msgspec.Meta(ge=0)] = 0

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def of(cls, text: str) -> PageCursor:
        """Return the cursor that a listing returned as text."""
        try:
            padded = text.encode() + b"=" * (-len(text) % 4)
            return msgspec.json.decode(urlsafe_b64decode(padded), type=cls)
        except (ValueError, AttributeError, msgspec.MsgspecError) as error:
            raise InvalidInput(
                f"{shown(text)} is not a cursor of a listing; pass that of the last item listed"
            ) from error

    def was_shown(self, listed: Found) -> bool:
        """Return whether the entity was listed before this position."""
        if self.minute is None:
            return False
        minute = listed.head.updated // MINUTE
        if minute != self.minute or listed.entity.id < self.lowest:
            return minute > self.minute
        return (listed.head.updated, listed.entity.id) >= (self.updated, self.id)


def cursors(
    page: Sequence[Found], began: str | None, next: str | None, size: int
) -> list[PageCursor]:
    """Return the cursor after each entity of a page."""
    lowest: dict[float, str] = {}
    for listed in page:
        id, minute = listed.entity.id, listed.head.updated // MINUTE
        lowest[minute] = min(id, lowest.get(minute, id))
    after = []
    for listed in page:
        minute = listed.head.updated // MINUTE
        at = (minute, lowest[minute], listed.head.updated, listed.entity.id)
        after.append(PageCursor(began, *at, size))
    if next is not None and after:
        after[-1] = PageCursor(next)
    return after
