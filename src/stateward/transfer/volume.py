"""One replica's own store, held by a rebalancing run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.codec import decode, encode
from stateward.engine import SyncEngine
from stateward.errors import StoreUnavailable
from stateward.kinds import LAYOUT, REPLICA, UNROUTED
from stateward.ops import (
    Applied,
    Check,
    Commit,
    CommitsAt,
    Drop,
    Entity,
    Fetch,
    Fetched,
    Found,
    Head,
    Held,
    Log,
    Op,
    Outcome,
    Put,
    Restore,
    Unheld,
    Write,
)
from stateward.transfer.engine_lease import EngineLease
from stateward.transfer.source import FIRST, Source
from stateward.world import World

TTL = 5.0  # seconds of the lease that keeps a second run out
TAKEN_OVER = "another run has taken over; let it finish"
ARRIVING = "arriving"  # the layout's document that lists the entities being copied here


class Volume:
    """One replica's store, held by this run."""

    def __init__(self, name: str, engine: SyncEngine, layout: Entity, world: World) -> None:
        self.name = name
        self._engine = engine
        self._layout = layout
        self._world = world
        self._lease = EngineLease(engine, layout, world, ttl=TTL, holder="rebalance")

    # --- reading --------------------------------------------------------------------

    def _ask(self, op: Op) -> Outcome:
        return self._engine.execute((op,))[0]

    def everything(self, kind: str | None = None) -> Iterator[Found]:
        """Yield all entities that are divided among the replicas, or those of one kind."""
        for listed in Source(self._engine, self._layout.namespace).entities(kind):
            if kind is not None or listed.entity.kind not in UNROUTED:
                yield listed

    def whole(self, entity: Entity, after: int = 0, first: int = FIRST) -> Fetched:
        """Return a part of an entity with all data to move; the first part has the documents."""
        log = Log(after, first=first, whole=True)
        fetched = self._ask(Fetch(entity, log=log, all_documents=after == 0))
        assert isinstance(fetched, Fetched)
        return fetched

    def heads(self, entities: Sequence[Entity]) -> dict[Entity, Head]:
        outcomes = self._engine.execute([Fetch(entity) for entity in entities])
        return {
            entity: fetched.head
            for entity, fetched in zip(entities, outcomes, strict=True)
            if isinstance(fetched, Fetched)
        }

    def _document(self, name: str) -> Any:
        fetched = self._ask(Fetch(self._layout, documents=(name,)))
        assert isinstance(fetched, Fetched)
        return decode(fetched.documents[name].json) if name in fetched.documents else None

    def recorded(self) -> Any:
        """Return the replicas' names in the layout; a dict while the volume is being rebalanced."""
        return self._document(LAYOUT)

    def arriving(self) -> tuple[str, list[Entity]] | None:
        """Return the source and the entities of the last copy to this volume, or None."""
        noted = self._document(ARRIVING)
        if noted is None:
            return None
        return noted["from"], [Entity(self._layout.namespace, *of) for of in noted["entities"]]

    # --- writing --------------------------------------------------------------------

    def _commit(self, entity: Entity, write: Write, *checks: Check) -> Outcome:
        return self._ask(Commit(entity, self._world.new_id(), (write,), checks))

    def apply(self, writes: Sequence[tuple[Entity, Write, Check]]) -> None:
        """Apply writes to their entities, each only if its check holds."""
        new_id = self._world.new_id
        commits = [Commit(entity, new_id(), (write,), (check,)) for entity, write, check in writes]
        outcomes = self._engine.execute(commits) if commits else []
        for commit, outcome in zip(commits, outcomes, strict=True):
            if not isinstance(outcome, Applied):
                entity = commit.entity
                raise StoreUnavailable(
                    f"the {entity.kind} {entity.id!r} of {self.name} is being written to while it "
                    "moves; stop the writer, and run this again"
                )

    def take_back(self, entity: Entity) -> bool:
        """Count a commit on the entity, so that an earlier run that is still alive cannot drop it.

        Return False if the entity is no longer here.
        """
        while (head := self.whole(entity).head).exists:
            counted = Restore(replace(head, commits=head.commits + 1), continued=True)
            outcome = self._commit(entity, counted, CommitsAt(head.commits))
            if isinstance(outcome, Applied):
                return True
        return False

    def record(self, value: Any) -> None:
        """Record the value that replicas read before they serve anything."""
        self._put(LAYOUT, value)

    def note(self, source: str, entities: Sequence[Entity]) -> None:
        """Note the entities that are being copied here, and their source."""
        self._put(ARRIVING, {"from": source, "entities": [[e.kind, e.id] for e in entities]})

    def _put(self, name: str, value: Any) -> None:
        put = Put(name, encode(value, "the layout"))
        outcome = self._commit(self._layout, put, self._lease.fence)
        if not isinstance(outcome, Applied):
            raise StoreUnavailable(TAKEN_OVER)

    # --- keeping others out ---------------------------------------------------------

    def take(self, wait: float) -> None:
        """Keep other runs out, and replicas from moving in."""
        if not self._lease.take(max(wait, TTL)):  # seconds until the lease of a killed run expires
            raise StoreUnavailable(f"another run is rebalancing the store of {self.name!r}")

    def keep(self) -> None:
        """Renew the lease from time to time."""
        if not self._lease.keep():
            raise StoreUnavailable(TAKEN_OVER)

    def release(self) -> None:
        self._lease.release()

    def refuse_present(self, wait: float) -> None:
        """Raise if a replica uses the volume and does not stop within `wait` seconds."""
        end = self._world.monotonic() + wait
        while (holder := self._present()) is not None:
            if self._world.monotonic() >= end:
                raise StoreUnavailable(
                    f"the store of {self.name!r} is in use by {holder}: stop the replicas first, "
                    "or wait 30 s for one that was killed: --wait 30"
                )
            self._world.block(0.2)
            self.keep()

    def _present(self) -> str | None:
        for listed in self.everything(REPLICA):
            outcome = self._commit(listed.entity, Drop(), Unheld())
            if isinstance(outcome, Held):
                return listed.head.lease.holder if listed.head.lease else "a replica"
        return None
