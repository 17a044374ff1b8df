"""Writing foreign conversations as entities, in repeatable commits of bounded size.

How far a conversation has come stands in the target alone: a document beside it says how many
entries were moved, with a digest of them, and is written in the same commit as the entries. So
there is no file to keep; a move that was killed is gone on with; and the rest of a conversation is
never added behind what an agent has written since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from stateward.codec import check_id, decode, encode, to_type
from stateward.errors import InvalidInput
from stateward.ops import (
    Absent,
    Applied,
    Check,
    Commit,
    CommitsAt,
    Entity,
    Entry,
    Fetch,
    Fetched,
    Head,
    Log,
    LogAt,
    Restore,
    Value,
)
from stateward.records import moment
from stateward.transfer.lines import EntityLine
from stateward.transfer.moves.chain import Chain, digest_of_documents
from stateward.transfer.moves.foreign import (
    ForeignItem,
    ForeignStore,
    ForeignThread,
    MovedThread,
    MoveTarget,
)
from stateward.transfer.source import PageSize
from stateward.world import World

IMPORTED = "imported"  # the document that says how far a conversation has come
PART = 1024 * 1024  # bytes in one commit, before its last entry
ENTRIES = 1000  # entries in one commit
BATCH = 2 * 1024 * 1024  # bytes in one round trip
TRIES = 5  # tries for a conversation that someone else is writing to


class ImportMark(Struct, frozen=True):
    """The document `imported`: the source of a conversation, and the number of moved entries."""

    source: str
    entries: int
    digest: str
    documents: str
    commits: int  # `Head.commits` then; a larger one shows that someone has written since


class Standing(NamedTuple):
    """The state of a conversation in the target."""

    head: Head
    reached: ImportMark | None = None

    @property
    def is_untouched(self) -> bool:
        """Return whether only imports have written to the conversation."""
        return self.reached is not None and self.head.commits == self.reached.commits


class Survey(NamedTuple):
    """A conversation of the source, read to its end; a short one stays in memory."""

    entries: int
    bytes: int
    digest: str
    begins: bool  # with the part that was moved before
    documents: dict[str, str]
    kept: list[ForeignItem] | None

    @property
    def items(self) -> int:
        """Return the number of entries, or of documents of a conversation without a log."""
        return self.entries or len(self.documents)

    @property
    def whole(self) -> str:
        """Return a digest of the whole conversation."""
        return self.digest + digest_of_documents(self.documents)

    def is_all_of(self, reached: ImportMark) -> bool:
        """Return whether everything was moved, if the conversation begins with the moved part."""
        documents = digest_of_documents(self.documents)
        return (self.entries, documents) == (reached.entries, reached.documents)


class EntityWriter:
    """Puts the entries and documents of a source into entities of a namespace."""

    def __init__(self, source: ForeignStore, target: MoveTarget) -> None:
        self._source = source
        self._engine = target.engine
        self._terms = target.terms
        self._erasures = target.erasures
        self._world = World()
        self._page = PageSize()
        self._batch: dict[Entity, tuple[int, Commit]] = {}  # with the number of its conversation
        self._size = 0
        self._beaten: set[int] = set()  # conversations whose commits conflicted with another writer

    def move(self, threads: Sequence[ForeignThread], *, dry_run: bool) -> Iterator[MovedThread]:
        outcomes: dict[int, MovedThread] = {}
        waiting = dict(enumerate(threads))
        for _ in range(TRIES):
            self._beaten.clear()
            standings = self._standings(waiting.values())
            for (number, thread), standing in zip(waiting.items(), standings, strict=True):
                outcomes[number] = self._one(number, thread, standing, dry_run)
            self._flush()
            waiting = {number: threads[number] for number in sorted(self._beaten)}
            if not waiting:
                break
        for number in waiting:
            outcomes[number] = MovedThread(
                threads[number], "refused", "another process is writing to it"
            )
        if not dry_run:
            self._read_back(outcomes)
        yield from (outcomes[number] for number in range(len(threads)))

    # --- one conversation -----------------------------------------------------------

    def _one(
        self, number: int, thread: ForeignThread, standing: Standing, dry_run: bool
    ) -> MovedThread:
        why = thread.refused
        try:
            survey = None if why else self._survey(thread, standing)
        except InvalidInput as error:
            survey, why = None, str(error)
        if survey is None:
            return MovedThread(thread, "refused", why)
        moved = MovedThread(thread, "moved", "", survey.items, 0, survey.bytes, survey.whole)
        if not standing.head.exists and self._is_erased(thread):
            return moved._replace(fate="erased")
        if why := self._refusal(standing, survey):
            return moved._replace(fate="refused", why=why)
        reached = standing.reached
        if not survey.whole or (reached is not None and survey.is_all_of(reached)):
            return moved._replace(fate="there")
        if not dry_run:
            self._write(number, thread, standing, survey)
        return moved._replace(added=survey.items - (reached.entries if reached else 0))

    def _survey(self, thread: ForeignThread, standing: Standing) -> Survey:
        """Read a conversation to its end, so that an error shows before anything is written."""
        check_id(thread.id, "the id of a conversation")
        if thread.owner:
            check_id(thread.owner, "a user")
        reached = standing.reached
        chain, size = Chain(), 0
        begins = reached is None or reached.entries == 0
        items: list[ForeignItem] | None = []
        for item in self._source.items(thread):
            size += chain.add(item.body)
            if reached is not None and chain.count == reached.entries:
                begins = chain.digest == reached.digest
            if items is not None:
                items.append(item)
                if size >= PART or len(items) >= ENTRIES:
                    items = None
        documents = dict(self._source.documents(thread))
        size += sum(map(len, documents.values()))
        return Survey(chain.count, size, chain.digest, begins, documents, items)

    def _refusal(self, standing: Standing, survey: Survey) -> str:
        head, reached = standing
        if not head.exists:
            if head.dropped and not self._terms.again:
                at = moment(head.dropped).isoformat(timespec="seconds")
                return f"it was deleted in the target at {at}; --again brings it back"
            return ""
        if reached is None:
            return (
                "the target has another conversation of this id; delete that one, or import into "
                "another --namespace"
            )
        if not survey.begins:
            return (
                f"the source no longer begins with the {reached.entries:,} items that were "
                "imported from it; if it is right, delete the conversation in the target and "
                "import it with --again"
            )
        if standing.is_untouched or survey.is_all_of(reached):
            return ""
        new = survey.entries - reached.entries
        what = f"{new:,} more items, which would come after newer ones" if new else "changed too"
        return f"it has continued in the target since it was imported, and the source has {what}"

    def _is_erased(self, thread: ForeignThread) -> bool:
        """Return whether the user was erased after the conversation began: that stays so."""
        head = Head(True, thread.owner, created=thread.created or 0.0)
        return self._erasures.covers(EntityLine.of(thread.kind, thread.id, head))

    # --- writing --------------------------------------------------------------------

    def _write(self, number: int, thread: ForeignThread, at: Standing, survey: Survey) -> None:
        entity, head, chain = self._entity(thread), at.head, Chain()
        items = self._source.items(thread) if survey.kept is None else iter(survey.kept)
        for item in islice(items, at.reached.entries if at.reached is not None else 0):
            chain.add(item.body)
        checks: tuple[Check, ...] = (LogAt(head.version, head.stamp), CommitsAt(head.commits))
        continued = head.exists
        if not continued:
            checks = (Absent(), CommitsAt(head.commits))
            head = self._new_head(thread, head)
        *parts, rest = _parts(survey.documents)
        for part in parts:
            head = self._grown(head, ())
            write = Restore(head, (), self._documents(head, chain, part, ""), continued)
            self._add(number, Commit(entity, self._world.new_op(), (write,), checks), BATCH)
            if number in self._beaten:
                return
            checks = (LogAt(head.version, head.stamp), CommitsAt(head.commits))
            continued = True
        while True:
            entries = self._entries(thread, items, chain)
            last = chain.count >= survey.entries or not entries
            if last and (chain.count, chain.digest) != (survey.entries, survey.digest):
                self._beaten.add(number)  # the source has changed since it was surveyed
                return
            head = self._grown(head, entries)
            named, digest = (rest, digest_of_documents(survey.documents)) if last else ({}, "")
            documents = self._documents(head, chain, named, digest)
            write = Restore(head, tuple(entries), documents, continued)
            commit = Commit(entity, self._world.new_op(), (write,), checks)
            size = sum(len(entry.body) for entry in entries) + sum(map(len, named.values()))
            self._add(number, commit, size)
            if survey.kept is None:
                self._flush()
            if last or number in self._beaten:
                return
            checks = (LogAt(head.version, head.stamp), CommitsAt(head.commits))
            continued = True

    def _entries(
        self, thread: ForeignThread, items: Iterator[ForeignItem], chain: Chain
    ) -> list[Entry]:
        """Return the entries of the next commit."""
        now, size = self._world.now(), 0
        entries: list[Entry] = []
        for item in items:
            size += chain.add(item.body)
            said_at = item.at if item.at is not None else thread.updated
            at = now if said_at is None else min(said_at, now)
            entries.append(Entry(chain.count, at, item.body, chain.stamp))
            if size >= PART or len(entries) >= ENTRIES:
                break
        return entries

    def _new_head(self, thread: ForeignThread, before: Head) -> Head:
        now = self._world.now()
        created = now if thread.created is None else min(thread.created, now)
        return Head(
            exists=True,
            owner=thread.owner,
            status=thread.status,
            retain=self._terms.retain,
            created=created,
            updated=created if thread.updated is None else min(thread.updated, now),
            commits=before.commits + 1,
        )

    def _grown(self, head: Head, entries: Sequence[Entry]) -> Head:
        expires = None if head.retain is None else self._world.now() + head.retain
        if not entries:
            return replace(head, expires=expires)
        last = entries[-1]
        updated = max(head.updated, last.at)
        return replace(head, version=last.seq, stamp=last.stamp, updated=updated, expires=expires)

    def _documents(
        self, head: Head, chain: Chain, named: Mapping[str, str], digest: str
    ) -> dict[str, Value]:
        """Return a commit's documents with the import mark; the last ones join the last entries."""
        reached = ImportMark(self._source.name, chain.count, chain.digest, digest, head.commits)
        texts = {**named, IMPORTED: encode(to_builtins(reached), "how far it has come")}
        values = {}
        for name, text in texts.items():
            stamp = Chain()
            stamp.add(text)
            values[name] = Value(text, 1, stamp.stamp, head.updated, head.version)
        return values

    def _add(self, number: int, commit: Commit, size: int) -> None:
        """Add a commit to the batch; a batch holds one commit of each entity."""
        if commit.entity in self._batch:
            self._flush()
        self._batch[commit.entity] = number, commit
        self._size += size
        if self._size >= BATCH:
            self._flush()

    def _flush(self) -> None:
        batch, self._batch, self._size = list(self._batch.values()), {}, 0
        if batch:
            outcomes = self._engine.execute([commit for _, commit in batch])
            for (number, _), outcome in zip(batch, outcomes, strict=True):
                if not isinstance(outcome, Applied):
                    self._beaten.add(number)

    # --- reading --------------------------------------------------------------------

    def _entity(self, thread: ForeignThread) -> Entity:
        return Entity(self._terms.namespace, thread.kind, thread.id)

    def _standings(self, threads: Iterable[ForeignThread]) -> list[Standing]:
        reads = [Fetch(self._entity(thread), documents=(IMPORTED,)) for thread in threads]
        outcomes = self._engine.execute(reads) if reads else []
        return [_standing(fetched) for fetched in outcomes if isinstance(fetched, Fetched)]

    def _read_back(self, found: dict[int, MovedThread]) -> None:
        """Read moved conversations back from the target, small ones in one round trip."""
        together: list[int] = []
        size = 0
        for number, moved in list(found.items()):
            if moved.fate not in ("moved", "there") or not moved.digest:
                continue
            if together and size + moved.bytes > BATCH:
                self._read_some(found, together)
                together, size = [], 0
            together.append(number)
            size += moved.bytes
        self._read_some(found, together)

    def _read_some(self, found: dict[int, MovedThread], numbers: Sequence[int]) -> None:
        first = Log(first=self._page.entries, details=True)
        entities = [self._entity(found[number].thread) for number in numbers]
        reads = [Fetch(entity, log=first, all_documents=True) for entity in entities]
        pages = self._engine.execute(reads) if reads else []
        for number, entity, page in zip(numbers, entities, pages, strict=True):
            assert isinstance(page, Fetched)
            found[number] = found[number]._replace(read=self._digest(entity, page))

    def _digest(self, entity: Entity, page: Fetched) -> str:
        """Return the digest of a conversation, or of its moved part if it was continued since."""
        texts = {name: value.json for name, value in page.documents.items()}
        standing = _standing(page)
        if standing.reached is not None and not standing.is_untouched:
            return standing.reached.digest + standing.reached.documents
        texts.pop(IMPORTED, None)
        chain = Chain()
        while page.entries:
            for entry in page.entries:
                chain.add(entry.body)
            self._page.measure(page)
            log = Log(page.entries[-1].seq, first=self._page.entries, details=True)
            if page.entries[-1].seq >= page.head.version:
                break
            (following,) = self._engine.execute((Fetch(entity, log=log),))
            assert isinstance(following, Fetched)
            page = following
        return chain.digest + digest_of_documents(texts)


def _parts(documents: Mapping[str, str]) -> list[dict[str, str]]:
    """Divide documents into commits, in the order of the source; at least one."""
    parts: list[dict[str, str]] = [{}]
    size = 0
    for name, text in documents.items():
        if parts[-1] and (size + len(text) > PART or len(parts[-1]) >= ENTRIES):
            parts.append({})
            size = 0
        parts[-1][name] = text
        size += len(text)
    return parts


def _standing(fetched: Fetched) -> Standing:
    value = fetched.documents.get(IMPORTED)
    if value is None:
        return Standing(fetched.head)
    return Standing(fetched.head, to_type(decode(value.json), ImportMark, "how far it has come"))
