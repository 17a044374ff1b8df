"""Writing the lines of a backup to a store, in commits of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.codec import decode, encode
from stateward.engine import SyncEngine
from stateward.errors import StateConflictError
from stateward.kinds import ERASED, HEARTBEAT, OPERATIONS, RESTORING
from stateward.ops import (
    Absent,
    Applied,
    Check,
    Commit,
    CommitsAt,
    Conflict,
    Drop,
    Entity,
    Entry,
    Fetch,
    Fetched,
    Head,
    LogAt,
    NotDroppedSince,
    Put,
    Restore,
    Value,
    Write,
)
from stateward.transfer.engine_lease import EngineLease
from stateward.transfer.erasures import Erasures, marker
from stateward.transfer.lines import Content, DocumentLine, EntityLine
from stateward.transfer.source import Source
from stateward.world import World

PART = 1024 * 1024  # bytes in one commit, before its last entry
ENTRIES = 1000  # entries in one commit
BATCH = 2 * 1024 * 1024  # bytes in one round trip
TOGETHER = 100  # commits in one round trip
LEASE = 10.0  # seconds after which a restore that was killed can be run again
CLOCKS_DIFFER = 60.0  # seconds
OWN_KINDS = (ERASED, RESTORING, HEARTBEAT)  # kinds of entities that an empty namespace may hold


class Part:
    """The part of an entity that was read last."""

    def __init__(self, line: EntityLine) -> None:
        self.line = line
        self.head = line.head()
        self.entries: list[Entry] = []
        self.documents: dict[str, Value] = {}
        self.size = 0
        self.stored: Head | None = None  # the head after the parts before this one

    def add(self, line: Content) -> None:
        if isinstance(line, DocumentLine):
            self.documents[line.name] = line.stored()
            self.size += len(line.value)
        elif not isinstance(line, EntityLine):
            self.entries.append(line.stored())
            self.size += len(line.body)

    def is_full(self) -> bool:
        return self.size >= PART or len(self.entries) >= ENTRIES

    def restore(self, *, last: bool) -> Restore:
        """Return the part as a write: an incomplete log ends with the last entry read so far."""
        head = self.head if last else self._so_far()
        entries, documents = tuple(self.entries), dict(self.documents)
        write = Restore(head, entries, documents, continued=self.stored is not None)
        self.stored = head
        self.entries.clear()
        self.documents.clear()
        self.size = 0
        return write

    def _so_far(self) -> Head:
        head = self.head
        version, stamp = head.base, head.base_stamp
        if self.stored is not None:
            version, stamp = self.stored.version, self.stored.stamp
        if self.entries and self.entries[-1].seq > head.base:
            version, stamp = self.entries[-1].seq, self.entries[-1].stamp
        return replace(head, version=version, stamp=stamp)


class RestoreTarget:
    """An empty namespace that a backup is restored into.

    A marker in the namespace holds until the end which `source` is being restored (`what` says it
    to people), so that an interrupted restore can be run again, and nothing else can be restored
    on top of it.
    """

    def __init__(
        self,
        engine: SyncEngine,
        namespace: str,
        source: str,
        what: str,
        option: str = "--namespace",
        *,
        follows: bool = False,
    ) -> None:
        """`option` is what names another namespace, to whoever named one that is in use.

        `follows`: what is put may be there already, or may have been dropped by this very process.
        """
        self._engine = engine
        self._namespace = namespace
        self._source = {"source": source, "what": what}
        self._option = option
        self._follows = follows
        self._world = World()
        self._together: list[tuple[Entity, Write]] = []
        self._size = 0
        self._marker = marker(namespace)
        self._lease = EngineLease(
            engine, self._marker, self._world, ttl=LEASE, holder=self._world.name()
        )
        self.resumed = False
        self.erased = 0
        self._keeps_log = False  # whether an operations log is there, which is not overwritten

    # --- beginning and end ----------------------------------------------------------

    def begin(self) -> None:
        """Refuse a namespace that is in use; mark it as being restored."""
        if (marker := self._read_marker()) is None:
            self._refuse_used()
            marked = {**self._source, "keeps_log": self._keeps_log}
            put = Put(RESTORING, encode(marked, "the marker"))
            commit = Commit(self._marker, self._world.new_id(), (put,), (Absent(),))
            (outcome,) = self._engine.execute((commit,))
            marker = self._source if isinstance(outcome, Applied) else self._read_marker()
        else:
            self.resumed = True
            self._keeps_log = bool(marker.get("keeps_log"))
        if marker is None or marker.get("source") != self._source["source"]:
            what = "something else" if marker is None else marker.get("what", "something else")
            raise StateConflictError(
                f"{what} is being restored into the namespace {self._namespace!r}: finish that "
                "first (run it again), or use another namespace"
            )
        # Admit one process: a second one would overwrite later writes of agents.
        if not self._lease.take(1.5 * LEASE):
            raise StateConflictError(
                f"another process is restoring into the namespace {self._namespace!r} right now; "
                "wait for it, or stop it and run this again"
            )

    def _read_marker(self) -> dict[str, Any] | None:
        (fetched,) = self._engine.execute((Fetch(self._marker, documents=(RESTORING,)),))
        assert isinstance(fetched, Fetched)
        value = fetched.documents.get(RESTORING)
        return None if value is None else dict(decode(value.json))

    def _refuse_used(self) -> None:
        for listed in Source(self._engine, self._namespace).entities():
            if listed.entity.kind == OPERATIONS and not self._follows:
                self._keeps_log = True
            elif listed.entity.kind not in OWN_KINDS:
                raise StateConflictError(
                    f"the namespace {self._namespace!r} is not empty (it has the "
                    f"{listed.entity.kind} {listed.entity.id!r}): use another one with "
                    f"{self._option}, or an empty store"
                )

    def finish(self) -> None:
        """Mark the restore as complete, so that the namespace may be used."""
        self._flush()
        drop = Commit(self._marker, self._world.new_id(), (Drop(),), (self._lease.fence,))
        self._send([drop])

    def leave(self) -> None:
        """Let another process continue; the namespace stays marked."""
        self._lease.release()

    def keep(self) -> None:
        """Renew the lease; call this every few seconds while there is nothing to put."""
        self._keep()

    def drop(self, entities: Iterable[Entity]) -> None:
        for entity in entities:
            self._add(entity, Drop(), 0)
        if self._follows:
            self._flush()

    # --- restoring ------------------------------------------------------------------

    def put_marks(self, erasures: Erasures) -> None:
        """Put the marks of erased users first, so that a half-restored namespace has them."""
        for entity, write in erasures.restores(self._namespace):
            self._add(entity, write, 0)
        self._flush()

    def put(self, lines: Iterable[Content], erasures: Erasures) -> None:
        """Put all lines, without the entities of users who have been erased since."""
        part: Part | None = None
        for line in lines:
            if isinstance(line, EntityLine):
                if part is not None:
                    self._close(part)
                part = None if self._leaves_out(line.kind) else Part(line)
                if part is not None and erasures.covers(line):
                    self.erased += 1
                    part = None
            elif part is not None:
                part.add(line)
                if part.is_full() and not self._put_part(part):
                    part = None
        if part is not None:
            self._close(part)
        self._flush()

    def _leaves_out(self, kind: str) -> bool:
        return kind in OWN_KINDS or (kind == OPERATIONS and self._keeps_log)

    def _close(self, part: Part) -> None:
        if part.stored is not None:
            self._put_part(part, last=True)
            return
        size = part.size
        self._add(self._entity(part), part.restore(last=True), size)

    def _put_part(self, part: Part, *, last: bool = False) -> bool:
        """Put the next part of a large entity; False if the entity has expired meanwhile."""
        self._flush()
        before, entity = part.stored, self._entity(part)
        checks: tuple[Check, ...]
        if before is None:
            (checks,) = self._untouched((entity,))
        else:
            self._keep()
            checks = (LogAt(before.version, before.stamp), CommitsAt(before.commits))
        commit = Commit(entity, self._world.new_id(), (part.restore(last=last),), checks)
        (outcome,) = self._engine.execute((commit,))
        if isinstance(outcome, Conflict) and not outcome.head.exists and self._has_expired(part):
            return False
        _must_be_applied(outcome, entity)
        return True

    def _keep(self) -> None:
        """Renew the lease; raises if this process was paused for too long."""
        if not self._lease.keep():
            raise _changed(self._marker)

    def _untouched(self, entities: Sequence[Entity]) -> list[tuple[Check, ...]]:
        """Return checks that each entity is still as it was while this process held the lease.

        A commit cannot check the lease of another entity: a commit that is on its way while
        this process is frozen arrives after someone else has finished the restore, and must not
        overwrite what agents have written since.
        """
        absent = (Absent(), NotDroppedSince(self._lease.granted))
        if not self.resumed and not self._follows and entities[0].kind != ERASED:
            self._keep()
            return [absent] * len(entities)
        heads = self._engine.execute([Fetch(entity) for entity in entities])
        if not self._lease.renew():  # the reads count only if the lease was held at that time
            raise _changed(self._marker)
        checks: list[tuple[Check, ...]] = []
        for fetched in heads:
            assert isinstance(fetched, Fetched)
            existed = fetched.head.exists or self._follows
            checks.append((CommitsAt(fetched.head.commits),) if existed else absent)
        return checks

    def _has_expired(self, part: Part) -> bool:
        """Return whether an entity has expired by our clock, which may be behind the engine's."""
        expires = part.head.expires
        return expires is not None and expires < self._world.now() + CLOCKS_DIFFER

    def _entity(self, part: Part) -> Entity:
        return Entity(self._namespace, part.line.kind, part.line.id)

    def _add(self, entity: Entity, write: Write, size: int) -> None:
        self._together.append((entity, write))
        self._size += size
        if self._size >= BATCH or len(self._together) >= TOGETHER:
            self._flush()

    def _flush(self) -> None:
        together, self._together, self._size = self._together, [], 0
        if together:
            all_checks = self._untouched([entity for entity, _ in together])
            self._send(
                [
                    Commit(entity, self._world.new_id(), (write,), checks)
                    for (entity, write), checks in zip(together, all_checks, strict=True)
                ]
            )

    def _send(self, commits: list[Commit]) -> None:
        for commit, outcome in zip(commits, self._engine.execute(commits), strict=True):
            _must_be_applied(outcome, commit.entity)


def _must_be_applied(outcome: object, entity: Entity) -> None:
    if not isinstance(outcome, Applied):
        raise _changed(entity)


def _changed(entity: Entity) -> StateConflictError:
    return StateConflictError(
        f"{entity.kind} {entity.id!r} was changed while it was being restored: stop everything "
        f"that uses the namespace {entity.namespace!r}, then run the restore again"
    )
