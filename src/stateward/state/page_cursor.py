"""Where a listing of what is recent goes on: after any entity that it has shown. No I/O here."""

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
    """After an entity that was shown.

    Pages follow the minutes, and each page in itself the moments: so within a page the engine's own
    cursor is not enough. `page` is where that entity's page began, or the next one begins. Of
    that page all is passed over that was shown before: what was touched in a later minute, and of
    the same minute what is not below `lowest`, which the page ended with, and not before `updated`.
    It is read again in its `size`: in a larger one others would stand between those.
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
        """The cursor that a listing has told."""
        try:
            padded = text.encode() + b"=" * (-len(text) % 4)
            return msgspec.json.decode(urlsafe_b64decode(padded), type=cls)
        except (ValueError, AttributeError, msgspec.MsgspecError) as error:
            raise InvalidInput(
                f"{shown(text)} is not a cursor of a listing; pass that of the last item listed"
            ) from error

    def was_shown(self, found: Found) -> bool:
        """Whether this one came before it."""
        if self.minute is None:
            return False
        minute = found.head.updated // MINUTE
        if minute != self.minute or found.entity.id < self.lowest:
            return minute > self.minute
        return (found.head.updated, found.entity.id) >= (self.updated, self.id)


def cursors(
    page: Sequence[Found], began: str | None, next: str | None, size: int
) -> list[PageCursor]:
    """The cursor after each entity of a page."""
    lowest: dict[float, str] = {}
    for found in page:
        minute = found.head.updated // MINUTE
        lowest[minute] = min(found.entity.id, lowest.get(minute, found.entity.id))
    after = []
    for found in page:
        minute = found.head.updated // MINUTE
        at = (minute, lowest[minute], found.head.updated, found.entity.id)
        after.append(PageCursor(began, *at, size))
    if next is not None and after:
        after[-1] = PageCursor(next)
    return after
