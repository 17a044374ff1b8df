"""Which minutes a feed of what was touched has read, and what it has told of them. No I/O here.

Engines index entities by the minute of their last touch (`List.recent`). A look reads that index
upwards to its end, and the next look begins anew before the end: what was under way meanwhile may
stand below what was seen already. How far before says `OVERLAP`, counted from the last minute that
was seen or, if that is earlier, from `Listed.settled`. No clock of this process is asked.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping

import msgspec

from stateward.codec import encode, listing_mark, shown
from stateward.engine import MINUTE, OVERLAP
from stateward.errors import InvalidInput
from stateward.kinds import KINDS, THREAD, USER
from stateward.ops import Found, Head, List, Listed

PAGE = 50  # of each kind: all kinds together are one answer; it is what may be told twice, too
MOST = 10_000  # heads that are remembered before it is asked which of them matter
STATE = tuple(name for name, kind in KINDS.items() if not kind.internal)


class KindCursor(msgspec.Struct, frozen=True, array_like=True):
    """How far one kind was read: the minute to begin with or, amid a look, the page."""

    since: int = 0
    page: str | None = None


def cursor_text(cursors: Mapping[str, KindCursor]) -> str:
    """The cursors of all kinds as one word."""
    told = {kind: cursor for kind, cursor in cursors.items() if cursor != KindCursor()}
    return urlsafe_b64encode(msgspec.json.encode(told)).decode().rstrip("=")


def cursors_of(text: str | None) -> dict[str, KindCursor]:
    """The cursors that a word holds; none: from the beginning."""
    if text is None:
        return {}
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        cursors = msgspec.json.decode(urlsafe_b64decode(padded), type=dict[str, KindCursor])
        for page in (cursor.page for cursor in cursors.values()):
            if page is not None:
                listing_mark(page)
        return cursors
    except (ValueError, AttributeError, msgspec.MsgspecError, InvalidInput) as error:
        raise InvalidInput(
            f"{shown(text)} is not a cursor of a change feed; pass the cursor of the last change "
            "that you have processed"
        ) from error


def chosen_kinds(kinds: str | Iterable[str] | None) -> tuple[str, ...]:
    """The kinds that are asked for; None: all that are somebody's state."""
    if kinds is None:
        return STATE
    chosen = (kinds,) if isinstance(kinds, str) else tuple(dict.fromkeys(kinds))
    unknown = [kind for kind in chosen if kind not in STATE]
    if unknown or not chosen:
        what = f"no kind of state is called {shown(unknown[0])}" if unknown else "kinds is empty"
        raise InvalidInput(f"{what}; use one of: {', '.join(STATE)}")
    return chosen


def section_of(kind: str) -> str:
    """Where entities of a kind live in a layered store."""
    return {THREAD: "threads", USER: "users"}.get(kind, "workflows")


class KindFeed:
    """What was touched of one kind, look by look."""

    def __init__(self, namespace: str, kind: str, cursor: KindCursor | None = None) -> None:
        cursor = cursor or KindCursor()
        self._namespace = namespace
        self._kind = kind
        self._since = cursor.since  # the minute that a whole look begins with
        self._page = cursor.page  # where the look that is under way goes on
        self._last = 0  # the last minute that is certain to have begun
        self._seen = 0  # the last minute that this look has seen
        self._whole = True
        self._now = self._looked = 0  # the engine's minute, and that of the last whole look
        self._told: dict[str, tuple[int, tuple[object, ...]]] = {}  # minute and head, by id
        self._most = MOST
        self.looking = True

    @property
    def cursor(self) -> KindCursor:
        """From here on everything is told that was not told before, and perhaps more."""
        return KindCursor(self._since, self._page if self._whole else None)

    def look(self) -> None:
        """Begin another look. Only one a minute is whole: others leave most of the overlap out."""
        self._whole = not self._now or self._now != self._looked
        self._page, self._seen, self.looking = None, 0, True

    def listing(self) -> List:
        """What to ask for next."""
        after = self._page
        begin = self._since if self._whole else max(0, self._last - 1)
        if after is None and begin:
            after = encode([begin, self._kind, ""], "a cursor")
        return List(self._namespace, self._kind, recent=True, reverse=True, after=after, limit=PAGE)

    def take(self, listed: Listed) -> list[Found]:
        """Those of a page that are not as they were told last."""
        fresh = []
        for found in listed.entities:
            minute, said = int(found.head.updated // MINUTE), _state_of(found.head)
            if self._told.get(found.entity.id, (0, ()))[1] != said:
                fresh.append(found)
            self._told[found.entity.id] = minute, said
            self._seen = max(self._seen, minute)
        self._page = listed.next
        if listed.next is None:
            self._end(listed.settled)
        elif len(self._told) > self._most:  # a look at everything needs no memory of everything
            self._forget(self._seen - OVERLAP)
        return fresh

    def _end(self, settled: float) -> None:
        """The look has come to its end; the next begins where nothing can come late any more."""
        self.looking = False
        # None was met: it stays where it was, unless the engine's clock was set back.
        before = self._last if self._last else self._since + OVERLAP if self._since else 0
        last = max(self._seen, before) if not self._whole else self._seen or before
        self._now = int(settled // MINUTE)
        self._last = min(last, self._now) if settled else last
        if self._whole:
            self._looked = self._now
            self._since = max(0, self._last - OVERLAP)
            self._forget(self._since)

    def _forget(self, before: int) -> None:
        told = self._told.items()
        self._told = {id: said for id, said in told if said[0] >= before}
        self._most = max(MOST, 2 * len(self._told))


def _state_of(head: Head) -> tuple[object, ...]:
    return head.life, head.commits, head.version, head.stamp
