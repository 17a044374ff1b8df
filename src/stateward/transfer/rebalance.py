"""Moving state between the replicas' own volumes after their list has changed.

At every moment exactly one volume has the right to an entity, and says so:

1.  While this runs every volume is marked "being rebalanced", so no replica serves anything; and it
    does not begin while a replica is in use. A run that was killed leaves the marks, and so
    does a run that found something to decide: run it again.
2.  Before entities are copied to a volume it notes which, and from where. The copy counts only
    when the original has been dropped: a later run removes the copies of noted entities whose
    original is still there, and begins them again.
3.  The original goes only after the copy has been read back and compared, and only if nothing
    was written to it in the meantime.
4.  What replicas kept locally, because their store could not take it, is stored when everything is
    where it belongs, and before anything is served again.
5.  Every write says what it expects, so that a run which was paused for long, and has a successor
    by now, can not do harm when it continues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from stateward.engine import SyncEngine
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.kinds import ERASED, LAYOUT, routed_by
from stateward.ops import Absent, Check, CommitsAt, Entity, Fetched, Head, Restore, Write
from stateward.transfer.source import SMALL, PageSize, bytes_of
from stateward.transfer.volume import TTL, Volume
from stateward.volumes.route import route
from stateward.world import World

BATCH = 50  # entities that are moved together


class SpilledTurns(Protocol):
    """The turns that replicas stored locally because their stores did not accept them."""

    def take(self) -> None:
        """Acquire the turns for this process, or raise `StoreUnavailable`."""

    def replay(
        self,
        volumes: Mapping[str, SyncEngine],
        home: Callable[[Entity], str],
        keep: Callable[[], float],
    ) -> int:
        """Store every turn on its volume, and return their number; `keep` returns the deadline."""

    def close(self) -> None:
        """Leave the remaining turns to the next run."""


class Moved(Struct, frozen=True):
    """The report of a run, or with `dry_run` its plan."""

    replicas: list[str]
    moves: dict[str, dict[str, int]]  # from → to → entities
    undecided: list[str]  # entities that two volumes have, described in words
    dry_run: bool
    replayed: int = 0  # turns that replicas had stored locally

    @property
    def entities(self) -> int:
        return sum(sum(to.values()) for to in self.moves.values())


class Rebalancing:
    """One run over the volumes of all replicas, those that leave included.

    `volumes` are engines by the name of the replica, to be opened before anything is asked; `names`
    are the replicas that are to be. `kept` is what the replicas kept locally.
    """

    def __init__(
        self,
        volumes: Mapping[str, SyncEngine],
        names: Iterable[str],
        *,
        namespace: str,
        world: World,
        progress: Callable[[int], None] = lambda moved: None,
        kept: SpilledTurns | None = None,
    ) -> None:
        self._world = world
        self._engines = volumes
        self._kept = kept
        self._replayed = 0
        self._progress = progress
        self._layout = Entity(namespace, LAYOUT, LAYOUT)
        self._volumes = {
            name: Volume(name, engine, self._layout, world) for name, engine in volumes.items()
        }
        self._names = tuple(sorted(names))
        if not self._names:
            raise InvalidInput("every replica is leaving: name at least one that stays")
        for name, engine in volumes.items():
            if engine.capabilities.networked:
                raise InvalidInput(
                    f"the store of {name!r} is a server that all replicas reach: there is nothing "
                    "to rebalance; name the stores on the replicas' own volumes"
                )
        self._page = PageSize()
        self._moves: dict[str, Counter[str]] = {}
        self._undecided: list[str] = []

    def plan(self) -> Moved:
        """Return the plan of a run. Changes nothing."""
        self._refuse_forgotten()
        for source in self._volumes.values():
            for listed in source.everything():
                self._note(source.name, self._home(listed.entity))
        return self._result(dry_run=True)

    def run(self, wait: float) -> Moved:
        """Move everything to its volume, after waiting so many seconds for replicas to stop.

        If it fails or is killed, run it again with the same stores.
        """
        self._refuse_forgotten()
        held: list[Volume] = []
        try:
            for volume in self._volumes.values():
                volume.take(wait)
                held.append(volume)
            for volume in held:
                volume.refuse_present(wait)
            if self._kept is not None:
                self._kept.take()
            for volume in held:
                volume.record({"for": list(self._names)})
            self._undo_unconfirmed()
            self._spread_erasures()
            for volume in held:
                self._empty(volume)
            if not self._undecided:
                if self._kept is not None:
                    self._replayed = self._kept.replay(self._engines, self._home, self._keep)
                for volume in held:
                    volume.record(list(self._names))
        finally:
            if self._kept is not None:
                self._kept.close()
            for volume in held:
                volume.release()
        return self._result(dry_run=False)

    def _result(self, *, dry_run: bool) -> Moved:
        moves = {source: dict(to) for source, to in self._moves.items()}
        return Moved(list(self._names), moves, self._undecided, dry_run, self._replayed)

    def _home(self, entity: Entity) -> str:
        return route(routed_by(entity), self._names)

    def _note(self, source: str, home: str) -> None:
        if source != home:
            self._moves.setdefault(source, Counter())[home] += 1

    def _refuse_forgotten(self) -> None:
        """Refuse to run if a volume names a replica whose own store was not given."""
        for volume in self._volumes.values():
            recorded = volume.recorded()
            before = recorded["for"] if isinstance(recorded, dict) else recorded or []
            arriving = volume.arriving()
            for name in [*before, *([arriving[0]] if arriving and arriving[1] else [])]:
                if name not in self._volumes:
                    raise InvalidInput(
                        f"the store of {volume.name!r} was laid out for a replica {name!r} that is "
                        f"not named here: add {name}=URL, with --leaving if it goes"
                    )

    # --- the steps ------------------------------------------------------------------

    def _undo_unconfirmed(self) -> None:
        """Remove the copies of an earlier run whose originals are still there."""
        for volume in self._volumes.values():
            source, noted = volume.arriving() or ("", [])
            for entity in noted:
                copy = volume.heads([entity])[entity]
                if self._volumes[source].take_back(entity) and copy.exists:
                    volume.apply([(entity, _moved(copy), CommitsAt(copy.commits))])
            if noted:
                volume.note(source, [])

    def _spread_erasures(self) -> None:
        """Record every erasure on all volumes, because a restore asks only its own volume."""
        for source in self._volumes.values():
            for marks in source.everything(ERASED):
                whole = source.whole(marks.entity)
                for volume in self._volumes.values():
                    head = volume.heads([marks.entity])[marks.entity]
                    if head.updated < whole.head.updated:
                        check = CommitsAt(head.commits)
                        volume.apply([(marks.entity, _restore(whole), check)])

    def _empty(self, source: Volume) -> None:
        """Move the entities that belong to other volumes, batch by batch."""
        waiting: dict[str, list[Entity]] = {}
        for listed in source.everything():
            home = self._home(listed.entity)
            if home == source.name:
                continue
            waiting.setdefault(home, []).append(listed.entity)
            if len(waiting[home]) == BATCH:
                self._move(source, self._volumes[home], waiting.pop(home))
        for home, entities in waiting.items():
            self._move(source, self._volumes[home], entities)

    def _move(self, source: Volume, home: Volume, entities: list[Entity]) -> None:
        taken = {entity for entity, head in home.heads(entities).items() if head.exists}
        self._undecided += [
            f"the {entity.kind} {entity.id!r} is with {source.name} and with {home.name}"
            for entity in entities
            if entity in taken
        ]
        free = [entity for entity in entities if entity not in taken]
        home.note(source.name, free)
        heads = self._copy(source, home, free)
        for entity in heads:
            self._compare(source, home, entity)
        source.apply(
            [(item, _moved(head), CommitsAt(head.commits)) for item, head in heads.items()]
        )
        home.note(source.name, [])
        for _ in heads:
            self._note(source.name, home.name)
        self._progress(sum(sum(to.values()) for to in self._moves.values()))

    def _copy(self, source: Volume, home: Volume, entities: list[Entity]) -> dict[Entity, Head]:
        """Copy whole entities, in batches that fit into memory; return the head of each."""
        heads: dict[Entity, Head] = {}
        together: list[tuple[Entity, Write, Check]] = []
        size = 0
        for entity in entities:
            for part in self._parts(source, entity):
                # Parts of one entity are written one after the other.
                if entity in heads or size > SMALL:
                    home.apply(together)
                    together, size = [], 0
                write, check = _restore(part), CommitsAt(part.head.commits)
                if entity in heads:
                    together.append((entity, replace(write, continued=True), check))
                elif part.head.exists:
                    heads[entity] = part.head
                    together.append((entity, write, Absent()))
                size += bytes_of(part)
        home.apply(together)
        return heads

    def _parts(self, source: Volume, entity: Entity) -> Iterator[Fetched]:
        """Yield an entity with all its parts that are moved, in batches that fit into memory."""
        after = 0
        while True:
            self._keep()
            size = self._page.entries
            part = source.whole(entity, after, size)
            if part.entries or not after:
                yield part
            self._page.measure(part)
            if len(part.entries) < size:
                return
            after = part.entries[-1].seq

    def _compare(self, source: Volume, home: Volume, entity: Entity) -> None:
        """Compare originals and copies by reading both again."""
        after = 0
        while True:
            self._keep()
            size = self._page.entries
            one, other = source.whole(entity, after, size), home.whole(entity, after, size)
            if _comparable(one) != _comparable(other):
                raise StoreUnavailable(
                    f"the {entity.kind} {entity.id!r} changed while it was copied from "
                    f"{source.name} to {home.name}, or the copy is wrong; stop everything that "
                    "writes to it and run this again"
                )
            self._page.measure(one)
            if len(one.entries) < size:
                return
            after = one.entries[-1].seq

    def _keep(self) -> float:
        """Renew the leases of all volumes; return the time until which they surely last."""
        end = self._world.monotonic() + TTL / 2
        for volume in self._volumes.values():
            volume.keep()
        return end


def _comparable(part: Fetched) -> Fetched:
    """Return a part without its lease and a volume's own counters, which do not move."""
    head = replace(part.head, life=0, dropped=0.0, lease=None, token=0)
    return replace(part, head=head)


def _moved(head: Head) -> Restore:
    """Return the restore that leaves an entity empty and expired on the volume it left.

    The entity is not dropped: otherwise a late turn would count as written to a deleted entity.
    """
    return Restore(replace(head, expires=head.updated))


def _restore(part: Fetched) -> Restore:
    return Restore(part.head, part.entries, part.documents)
