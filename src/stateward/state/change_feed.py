"""The position of a change feed: which minutes it has read, and what it has reported. No I/O.

Engines index entities by the minute of their last touch (`List.recent`). A look reads that index
upwards to its end. The next look begins `OVERLAP` before that end, because commits in progress
meanwhile may be indexed below it; the end is the last minute that was read or, if that is earlier,
`Listed.settled`. The clock of this process is not used.
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

PAGE = 50  # of each kind in one answer; also the most entities that a resumed feed reports twice
MOST = 10_000  # reported heads that are remembered before the irrelevant ones are dropped
STATE = tuple(name for name, kind in KINDS.items() if not kind.internal)


class KindCursor(msgspec.Struct, frozen=True, array_like=True):
    """How far one kind was read: the minute to begin with and, within a look, the page."""

    since: int = 0
    page: str | None = None


def cursor_text(cursors: Mapping[str, KindCursor]) -> str:
    """Return the cursors of all kinds as one word."""
    started = {kind: cursor for kind, cursor in cursors.items() if cursor != KindCursor()}
    return urlsafe_b64encode(msgspec.json.encode(started)).decode().rstrip("=")


def cursors_of(text: str | None) -> dict[str, KindCursor]:
    """Return the cursors in such a word; none for None: from the beginning."""
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
    """Return the requested kinds; for None, all kinds that hold state of users."""
    if kinds is None:
        return STATE
    chosen = (kinds,) if isinstance(kinds, str) else tuple(dict.fromkeys(kinds))
    unknown = [kind for kind in chosen if kind not in STATE]
    if unknown or not chosen:
        problem = f"no kind of state is called {shown(unknown[0])}" if unknown else "kinds is empty"
        raise InvalidInput(f"{problem}; use one of: {', '.join(STATE)}")
    return chosen


def section_of(kind: str) -> str:
    """Return the section of a layered store in which entities of a kind are stored."""
    return {THREAD: "threads", USER: "users"}.get(kind, "workflows")


class KindFeed:
    """The entities of one kind that were touched, look by look."""

    def __init__(self, namespace: str, kind: str, cursor: KindCursor | None = None) -> None:
        cursor = cursor or KindCursor()
        self._namespace = namespace
        self._kind = kind
        self._since = cursor.since  # the minute that a whole look begins with
        self._page = cursor.page  # where the current look continues
        self._last = 0  # the last minute that is certain to have begun
        self._newest = 0  # the last minute that this look has read
        self._whole = True
        self._now = self._looked = 0  # the engine's minute, and that of the last whole look
        self._reported: dict[str, tuple[int, tuple[object, ...]]] = {}  # minute and state, by id
        self._most = MOST
        self.looking = True

    @property
    def cursor(self) -> KindCursor:
        """The position from which a feed reports everything new, and perhaps repeats some."""
        return KindCursor(self._since, self._page if self._whole else None)

    def look(self) -> None:
        """Begin another look. Only one a minute is whole: the others skip most of the overlap."""
        self._whole = not self._now or self._now != self._looked
        self._page, self._newest, self.looking = None, 0, True

    def listing(self) -> List:
        """The listing to request next."""
        after = self._page
        begin = self._since if self._whole else max(0, self._last - 1)
        if after is None and begin:
            after = encode([begin, self._kind, ""], "a cursor")
        return List(self._namespace, self._kind, recent=True, reverse=True, after=after, limit=PAGE)

    def take(self, listed: Listed) -> list[Found]:
        """Return the entities of a page that have changed since they were last reported."""
        fresh = []
        for touched in listed.entities:
            id, head = touched.entity.id, touched.head
            minute, state = int(head.updated // MINUTE), _state_of(head)
            if self._reported.get(id, (0, ()))[1] != state:
                fresh.append(touched)
            self._reported[id] = minute, state
            self._newest = max(self._newest, minute)
        self._page = listed.next
        if listed.next is None:
            self._end(listed.settled)
        elif len(self._reported) > self._most:  # a look at everything need not remember everything
            self._forget(self._newest - OVERLAP)
        return fresh

    def _end(self, settled: float) -> None:
        """End the look. The next whole one begins before the first minute that can still change."""
        self.looking = False
        # Without any entity the end stays where it was, unless the engine's clock was set back.
        before = self._last if self._last else self._since + OVERLAP if self._since else 0
        last = max(self._newest, before) if not self._whole else self._newest or before
        self._now = int(settled // MINUTE)
        self._last = min(last, self._now) if settled else last
        if self._whole:
            self._looked = self._now
            self._since = max(0, self._last - OVERLAP)
            self._forget(self._since)

    def _forget(self, before: int) -> None:
        self._reported = {id: last for id, last in self._reported.items() if last[0] >= before}
        self._most = max(MOST, 2 * len(self._reported))


def _state_of(head: Head) -> tuple[object, ...]:
    return head.life, head.commits, head.version, head.stamp
