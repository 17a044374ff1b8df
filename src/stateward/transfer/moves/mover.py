"""Importing a whole source into a namespace, and the report of the import.

    from stateward.transfer.moves.mover import import_from

    import_from("openai-agents:sqlite:///conversations.db", "sqlite:///agents.db")

This blocks; from an event loop call it with `asyncio.to_thread`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from hashlib import blake2b
from itertools import islice

from msgspec import Struct, field
from msgspec.structs import replace

from stateward.codec import Retention, check_id, seconds
from stateward.engine import SyncEngine
from stateward.engines.registry import looking, parse
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, SchemaError, StateConflictError
from stateward.kinds import SHARED
from stateward.ops import Fetch, Fetched
from stateward.transfer.backup import Progress, opened
from stateward.transfer.erasures import Erasures, marker
from stateward.transfer.moves.catalogue import open_source
from stateward.transfer.moves.entity_writer import EntityWriter
from stateward.transfer.moves.foreign import (
    ForeignItem,
    ForeignStore,
    ForeignThread,
    MovedThread,
    MoveTarget,
    Terms,
)
from stateward.transfer.source import Source

TOGETHER = 50  # conversations that are read in one round trip
NAMED = 1000  # the most refused conversations that a report names
SAID = 100  # items between two reports of progress


class RefusedThread(Struct, frozen=True):
    """A conversation that was not imported, and the reason."""

    id: str
    why: str


class ImportReport(Struct, frozen=True, kw_only=True):
    """The report of an import, or with `dry_run` of what it would do."""

    source: str
    target: str
    namespace: str
    dry_run: bool
    threads: int = 0  # of the source
    items: int = 0  # of the source, without refused conversations
    bytes: int = 0  # bytes of their JSON text
    moved: int = 0  # conversations that got items
    added: int = 0  # items
    there: int = 0  # conversations that were complete already
    erased: int = 0  # skipped, because the user was erased in the target since
    anonymous: int = 0  # conversations without an owner
    refused: int = 0
    refusals: list[RefusedThread] = field(default_factory=list)  # the first thousand
    lost: tuple[str, ...] = ()  # data of the source that the target cannot hold
    digest: str = ""  # digest of the source
    read: str = ""  # digest of the target; equal to that of the source after a correct import

    @property
    def is_equal(self) -> bool:
        return self.dry_run or self.digest == self.read


class Owners:
    """The owners of conversations for which the source names none."""

    def __init__(self, user: str | None, pattern: str | None) -> None:
        self._user = None if user is None else check_id(user, "a user")
        try:
            self._pattern = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise InvalidInput(f"the user pattern is not a regular expression: {error}") from error
        if self._pattern is not None and self._pattern.groups != 1:
            raise InvalidInput(
                "the user pattern needs one group, which is the user in a conversation's id, e.g. "
                r"'^(u-\d+):'"
            )

    def of(self, thread: ForeignThread) -> ForeignThread:
        if thread.owner or thread.kind == SHARED:
            return thread
        match = None if self._pattern is None else self._pattern.search(thread.id)
        if match is not None and match[1]:
            return replace(thread, owner=match[1])
        if self._user is not None:
            return replace(thread, owner=self._user)
        if self._pattern is not None:
            return replace(thread, refused="its id does not match --user-pattern")
        return thread


def import_from(
    source: str,
    target: str | None,
    *,
    namespace: str = "default",
    user: str | None = None,
    user_pattern: str | None = None,
    retain: Retention = None,
    again: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import all conversations of a source into a namespace, as its adapter would store them.

    What was imported before is not imported again, also if that run was killed; what is new in the
    source is added, unless the conversation was continued in the target: then it is refused, and
    the others continue. `user` is the owner of conversations for which the source names none;
    `user_pattern` finds the user in the id. `retain` is counted from now. `again` also
    imports what was deleted in the target since.
    """
    terms = Terms(check_id(namespace, "a namespace"), seconds(retain), again)
    owners, url = Owners(user, user_pattern), parse(target)
    with closing(open_source(source)) as opened_source, _target(url, dry_run) as engine:
        _refuse_restoring(engine, namespace)
        erasures = Erasures()
        erasures.add_all(Source(engine, namespace).marks(), there=True)
        into = MoveTarget(url, engine, erasures, terms)
        watched = _Watched(opened_source, progress)
        writer = EntityWriter(watched, into)
        tally = _Tally()
        threads = map(owners.of, opened_source.threads())
        while some := tuple(islice(threads, TOGETHER)):
            for moved in writer.move(some, dry_run=dry_run):
                tally.add(moved)
                watched.passed(moved)
        return tally.report(
            source=opened_source.name,
            target=url.safe,
            namespace=namespace,
            dry_run=dry_run,
            lost=opened_source.lost,
        )


@contextmanager
def _target(url: EngineURL, dry_run: bool) -> Iterator[SyncEngine]:
    """Open the target; a dry run creates none, and treats a missing one as empty."""
    with ExitStack() as stack:
        try:
            engine = stack.enter_context(opened(looking(url) if dry_run else url))
        except SchemaError as error:
            if not (dry_run and error.missing):
                raise
            engine = stack.enter_context(opened(parse("memory://")))
        yield engine


def _refuse_restoring(engine: SyncEngine, namespace: str) -> None:
    (fetched,) = engine.execute((Fetch(marker(namespace)),))
    assert isinstance(fetched, Fetched)
    if fetched.head.exists:
        raise StateConflictError(
            f"a restore into the namespace {namespace!r} was not finished: run it again to its "
            "end, or import into another --namespace"
        )


class _Tally:
    """The sums over the outcomes of all conversations."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(("moved", "there", "erased", "refused"), 0)
        self._sums = dict.fromkeys(("threads", "items", "bytes", "added", "anonymous"), 0)
        self._refusals: list[RefusedThread] = []
        self._source, self._target = blake2b(digest_size=16), blake2b(digest_size=16)

    def add(self, moved: MovedThread) -> None:
        self._counts[moved.fate] += 1
        self._sums["threads"] += 1
        if moved.fate == "refused":
            if len(self._refusals) < NAMED:
                self._refusals.append(RefusedThread(moved.thread.id, moved.why))
        elif moved.fate != "erased":
            self._sums["items"] += moved.items
            self._sums["bytes"] += moved.bytes
            self._sums["added"] += moved.added
            self._sums["anonymous"] += not moved.thread.owner
            name = f"{moved.thread.kind}\n{moved.thread.id}\n"
            self._source.update(f"{name}{moved.digest}\n".encode())
            self._target.update(f"{name}{moved.read}\n".encode())

    def report(
        self, *, source: str, target: str, namespace: str, dry_run: bool, lost: tuple[str, ...]
    ) -> ImportReport:
        return ImportReport(
            source=source,
            target=target,
            namespace=namespace,
            dry_run=dry_run,
            lost=lost,
            refusals=self._refusals,
            digest=self._source.hexdigest(),
            read="" if dry_run else self._target.hexdigest(),
            **self._counts,
            **self._sums,
        )


class _Watched:
    """A source that reports the progress of its reader."""

    def __init__(self, source: ForeignStore, progress: Progress | None) -> None:
        self.name = source.name
        self._source = source
        self._progress = progress
        self._total = 0 if progress is None else source.size()
        self._done = 0
        self.size, self.threads, self.close = source.size, source.threads, source.close

    @property
    def lost(self) -> tuple[str, ...]:
        return self._source.lost

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        for number, item in enumerate(self._source.items(thread)):
            if number % SAID == 0:
                self._say(self._done + number)
            yield item

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        return self._source.documents(thread)

    def passed(self, moved: MovedThread) -> None:
        self._done += moved.items
        self._say(self._done)

    def _say(self, done: int) -> None:
        if self._progress is not None:
            self._progress("importing", min(done, self._total), self._total)
