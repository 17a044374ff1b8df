"""A copy that is kept up to date: changes of a namespace are brought to another store.

The feed of changes (`state/change_feed.py`) reports touched entities, but no deleted ones,
so both sides are compared from time to time, and at the end. An entity is brought as a whole, as of
one moment. The target stays marked as a copy in the making: nothing else is ever overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from stateward.codec import check_id, check_span
from stateward.engine import SyncEngine
from stateward.engines.registry import looking, parse, refuse_missing
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.kinds import KINDS
from stateward.ops import Entity, Found, Head, List, Listed
from stateward.state.change_feed import KindFeed, cursor_text, cursors_of
from stateward.transfer.backup import MANY, opened
from stateward.transfer.erasures import Erasures
from stateward.transfer.source import Source
from stateward.transfer.target import OWN_KINDS, RestoreTarget
from stateward.world import World

POLL = 0.5  # seconds between two reads of the feed
COMPARE = 300.0  # seconds between two comparisons
AGAIN = 1.0  # seconds until a failed store is tried again


class FollowReport(Struct):
    """The progress of a copy."""

    namespace: str
    brought: int = 0  # entities, counted at every copy
    removed: int = 0
    compared: int = 0  # comparisons of both sides
    behind: int = 0  # entities known to be waiting
    more: bool = False  # more entities may be waiting behind the known ones
    seconds: float = 0.0  # seconds since the first waiting entity was touched
    cursor: str | None = None  # to continue from
    problem: str | None = None  # the reason why nothing can be copied right now


class Follower:
    """One namespace, followed into another store."""

    def __init__(
        self,
        source: SyncEngine,
        target: SyncEngine,
        names: tuple[str, str],
        what: str,
        report: FollowReport,
        progress: Callable[[FollowReport], None],
    ) -> None:
        self._engine = source
        self._namespace, self._into = names
        self._source = Source(source, self._namespace)
        self._copy = Source(target, self._into)
        self._target = RestoreTarget(target, self._into, what, what, "--to", follows=True)
        self._report = report
        self._progress = progress
        self._feeds: dict[str, KindFeed] = {}
        self._marks = Erasures()

    def begin(self) -> None:
        """Mark the target, or continue a marked one, and list the kinds of entities."""
        self._target.begin()
        cursors = cursors_of(self._report.cursor)
        (listed,) = self._engine.execute((List(self._namespace, tally="kind"),))
        assert isinstance(listed, Listed)
        for kind in sorted({*KINDS, *listed.tally} - {*OWN_KINDS}):
            self._feeds[kind] = KindFeed(self._namespace, kind, cursors.get(kind))
        self._learn_erasures()

    def look(self) -> None:
        """Copy the entities that were touched since the last read of the feed."""
        for feed in self._feeds.values():
            feed.look()
        self.catch_up()

    def catch_up(self) -> None:
        """Copy the entities of the remaining pages of the feed."""
        report = self._report
        while feeds := [feed for feed in self._feeds.values() if feed.looking]:
            fresh: list[Found] = []
            settled = 0.0
            asked = [feed.listing() for feed in feeds]
            for feed, listed in zip(feeds, self._engine.execute(asked), strict=True):
                assert isinstance(listed, Listed)
                fresh += feed.take(listed)
                settled = max(settled, listed.settled)
            fresh.sort(key=lambda found: found.head.updated)
            report.more = any(feed.looking for feed in feeds)
            for at in range(0, len(fresh), MANY):
                report.behind = len(fresh) - at
                report.seconds = max(0.0, settled - fresh[at].head.updated)
                self._progress(report)
                self._bring(fresh[at : at + MANY])
            cursors = {kind: feed.cursor for kind, feed in self._feeds.items()}
            report.cursor = cursor_text(cursors)
        report.behind, report.seconds, report.more = 0, 0.0, False
        self._target.keep()
        self._progress(report)

    def compare(self) -> None:
        """Copy the entities that differ, and drop those that the source no longer has."""
        self._learn_erasures()
        for some in _in_batches(self._source.entities()):
            self._bring(some)
        for some in _in_batches(self._copy.entities()):
            there = self._source.heads([self._theirs(listed.entity) for listed in some])
            gone = [f.entity for f, head in zip(some, there, strict=True) if not head.exists]
            self._target.drop(gone)
            self._report.removed += len(gone)
        self._report.compared += 1
        self._target.keep()
        self._progress(self._report)

    def finish(self) -> None:
        """Mark the copy as complete, so that it may be used."""
        self._target.finish()

    def leave(self) -> None:
        """Release the target, so that another process may continue the copy."""
        self._target.leave()

    def _learn_erasures(self) -> None:
        self._marks.add_all(self._copy.marks(), there=True)
        self._marks.add_all(self._source.marks(), source=True)
        self._target.put_marks(self._marks)

    def _bring(self, some: list[Found]) -> None:
        """Copy the entities whose copies are missing or outdated."""
        heads = self._copy.heads([self._ours(listed.entity) for listed in some])
        differ = [f for f, head in zip(some, heads, strict=True) if _state(f.head) != _state(head)]
        if differ:
            self._target.put(self._source.lines_of(differ), self._marks)
            self._report.brought += len(differ)

    def _ours(self, entity: Entity) -> Entity:
        return entity._replace(namespace=self._into)

    def _theirs(self, entity: Entity) -> Entity:
        return entity._replace(namespace=self._namespace)


def follow(
    source_url: str | None,
    target_url: str,
    *,
    namespace: str = "default",
    to: str | None = None,
    after: str | None = None,
    compare: float = COMPARE,
    finish: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[FollowReport], None] = lambda report: None,
) -> FollowReport:
    """Copy a namespace into an empty one, and keep the copy up to date until `stopped`.

    `after` continues where an earlier run stopped; without it everything is compared again. If a
    store fails, it waits. With `finish` it ends when the copy is complete and may be used.
    """
    into = to or namespace
    check_id(namespace, "a namespace")
    check_id(into, "a namespace")
    check_span(compare, "compare")
    cursors_of(after)
    origin, other = parse(source_url), parse(target_url)
    if origin.text == other.text and into == namespace:
        raise InvalidInput("source and target are the same namespace of the same store")
    refuse_missing(origin)
    world = World()
    report = FollowReport(into, cursor=after)
    what = f"a copy of the namespace {namespace!r} of {origin.safe}"
    with opened(looking(origin)) as source, opened(other) as target:
        while True:
            follower = Follower(source, target, (namespace, into), what, report, progress)
            try:
                follower.begin()
                report.problem = None
                follower.catch_up()
                compared = world.monotonic()
                while not finish and not stopped():
                    world.block(POLL)
                    follower.look()
                    if world.monotonic() - compared >= compare:
                        follower.compare()
                        compared = world.monotonic()
                follower.look()
                follower.compare()
                if finish:
                    follower.finish()
                else:
                    follower.leave()
                return report
            except StoreUnavailable as error:
                if finish or stopped():
                    raise
                report.problem = str(error)
                progress(report)
                world.block(AGAIN)


def _state(head: Head) -> tuple[object, ...]:
    """Return the part of a head that a copy has in common with its source."""
    return head.exists, head.commits, head.version, head.stamp, head.updated


def _in_batches(listed: Iterable[Found]) -> Iterator[list[Found]]:
    some: list[Found] = []
    for entry in listed:
        if entry.entity.kind not in OWN_KINDS:
            some.append(entry)
        if len(some) >= MANY:
            yield some
            some = []
    if some:
        yield some
