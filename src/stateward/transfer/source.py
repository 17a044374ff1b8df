"""Reading a store as the lines of a backup, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile, gettempdir

import msgspec
from msgspec.structs import replace

from stateward.engine import SyncReader
from stateward.errors import DiskProblem, StateConflictError
from stateward.kinds import ERASED, ERASED_ALL, HEARTBEAT, RESTORING
from stateward.ops import Entity, Fetch, Fetched, Found, Head, List, Listed, Log
from stateward.transfer.erasures import Mark
from stateward.transfer.lines import Content, DocumentLine, EntityLine, EntryLine

LISTED = 200  # entities on a page
TOGETHER = 50  # entities read in one round trip
FEWEST, FIRST, MOST = 1, 100, 1000  # entries in one round trip
SMALL, LARGE = 512 * 1024, 4 * 1024 * 1024  # bytes: pages grow below, shrink above

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Content).decode


class PageSize:
    """The number of entries on a page, adapted to their size to bound the memory."""

    def __init__(self) -> None:
        self.entries = FIRST

    def measure(self, page: Fetched) -> None:
        """Make the next page smaller after a large one, and larger after a full and small one."""
        size = bytes_of(page)
        if size > LARGE:
            self.entries = max(FEWEST, self.entries // 2)
        elif size < SMALL and len(page.entries) >= self.entries:
            self.entries = min(MOST, self.entries * 2)


def bytes_of(page: Fetched) -> int:
    """Return the approximate size of a page in bytes."""
    documents = sum(len(value.json) for value in page.documents.values())
    return documents + sum(len(entry.body) for entry in page.entries)


class Source:
    """A reader of a namespace for a backup.

    `one_moment` says that the reader shows the whole store as of one moment. Without it, an entity
    that changes between two of its pages is read again, in larger ones: each is consistent in
    itself, however busy it is.
    """

    def __init__(self, reader: SyncReader, namespace: str, *, one_moment: bool = False) -> None:
        self._reader = reader
        self._namespace = namespace
        self._one_moment = one_moment
        self._page = PageSize()

    def size(self) -> int:
        """Return the number of entities and entries together, to report progress."""
        return sum(1 + entity.head.live for entity in self.entities())

    def marks(self) -> Iterator[Mark]:
        """Yield the marks of erased users."""
        for listed in self.entities(ERASED, (ERASED, ERASED_ALL)):
            if ERASED in listed.documents:
                yield Mark(listed.entity.id, listed.head, dict(listed.documents))

    def entities(self, kind: str | None = None, documents: tuple[str, ...] = ()) -> Iterator[Found]:
        """Yield all entities, sorted by kind and id."""
        listing = List(self._namespace, kind=kind, documents=documents, limit=LISTED)
        while True:
            (listed,) = self._reader.execute((listing,))
            assert isinstance(listed, Listed)
            yield from listed.entities
            if listed.next is None:
                return
            listing = replace(listing, after=listed.next)

    def has(self, entities: Sequence[Entity]) -> list[bool]:
        """Return whether each of the entities exists."""
        return [head.exists for head in self.heads(entities)]

    def heads(self, entities: Sequence[Entity]) -> list[Head]:
        """Return the heads of these entities."""
        fetched = self._reader.execute([Fetch(entity) for entity in entities])
        return [outcome.head for outcome in fetched if isinstance(outcome, Fetched)]

    def lines(self) -> Iterator[Content]:
        """Yield the lines of all entities, one entity after the other."""
        return self.lines_of(self.entities())

    def lines_of(self, listed: Iterable[Found]) -> Iterator[Content]:
        """Yield the lines of those of the entities that still exist."""
        together: list[Found] = []
        entries = 0
        for each in listed:
            if each.entity.kind == RESTORING:
                raise StateConflictError(
                    f"a restore into the namespace {self._namespace!r} was not finished: run it "
                    "again to its end, then make the backup"
                )
            if each.entity.kind == HEARTBEAT:
                continue  # the list of live processes belongs to no backup
            entries += min(each.head.live, self._page.entries)
            if together and (entries > self._page.entries or len(together) == TOGETHER):
                yield from self._several([item.entity for item in together])
                together, entries = [], min(each.head.live, self._page.entries)
            together.append(each)
        yield from self._several([item.entity for item in together])

    def _several(self, entities: Sequence[Entity]) -> Iterator[Content]:
        """Yield the lines of several entities; small ones are read in one round trip."""
        size = self._page.entries
        log = Log(first=size, whole=True)
        reads = [Fetch(entity, log=log, all_documents=True) for entity in entities]
        for entity, fetched in zip(entities, self._reader.execute(reads), strict=True):
            assert isinstance(fetched, Fetched)
            if fetched.head.exists:  # the entity may have been deleted since it was listed
                yield from self._one(entity, fetched, size)

    def _one(self, entity: Entity, page: Fetched, size: int) -> Iterator[Content]:
        """Yield the lines of an entity as of one moment; none if it is deleted meanwhile."""
        if self._one_moment or len(page.entries) < size:
            yield from self._pages(entity, page, size)
            return
        least = FEWEST
        while page.head.exists:
            with _Kept() as waiting:  # a yielded line cannot be revoked
                try:
                    waiting.write(self._pages(entity, page, size, least))
                except _Changed:  # read a busy entity in larger pages, at last in one
                    least = size = 2 * size
                    page = self._first_page(entity, size)
                    continue
                yield from waiting.lines()
                return

    def _first_page(self, entity: Entity, size: int) -> Fetched:
        read = Fetch(entity, log=Log(first=size, whole=True), all_documents=True)
        (page,) = self._reader.execute((read,))
        assert isinstance(page, Fetched)
        return page

    def _pages(
        self, entity: Entity, page: Fetched, size: int, least: int = FEWEST
    ) -> Iterator[Content]:
        """Yield the lines of an entity from its first page on; `_Changed` if the entity changes."""
        head = page.head
        yield EntityLine.of(entity.kind, entity.id, head)
        yield from (DocumentLine.of(name, value) for name, value in page.documents.items())
        while True:
            yield from map(EntryLine.of, page.entries)
            if len(page.entries) < size:
                return
            self._page.measure(page)
            size = max(self._page.entries, least)
            log = Log(page.entries[-1].seq, head.version, first=size, whole=True)
            (following,) = self._reader.execute((Fetch(entity, log=log),))
            assert isinstance(following, Fetched)
            if not self._one_moment and following.head.commits != head.commits:
                raise _Changed
            page = following


class _Changed(Exception):
    """The entity was written to, or deleted, while it was read."""


class _Kept:
    """Lines that wait until their entity is complete; many lines are stored on disk."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=LARGE)  # noqa: SIM115  # closed by `__exit__`

    def __enter__(self) -> _Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, lines: Iterable[Content]) -> None:
        try:
            self._file.writelines(_encode(line) + b"\n" for line in lines)
        except OSError as error:
            raise DiskProblem(
                f"a long entity could not be buffered in {gettempdir()}: {error.strerror}; free "
                "space there, or set TMPDIR, then start again"
            ) from error

    def lines(self) -> Iterator[Content]:
        self._file.seek(0)
        return map(_decode, self._file)
