"""One replica's own store, in the hands of whoever rebalances."""

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

TTL = 5.0  # of the lease that keeps a second run out
TAKEN_OVER = "another run has taken over; let it finish"
ARRIVING = "arriving"  # the document of the layout that notes what is being copied here


class Volume:
    """One replica's store, in the hands of this run."""

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
        """All that is divided among the replicas; or all of one kind."""
        for found in Source(self._engine, self._layout.namespace).entities(kind):
            if kind is not None or found.entity.kind not in UNROUTED:
                yield found

    def whole(self, entity: Entity, after: int = 0, first: int = FIRST) -> Fetched:
        """A part of an entity with all that counts; the first part has its documents too."""
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
        """The names that the volume is laid out for; while it is being rebalanced, a dict."""
        return self._document(LAYOUT)

    def arriving(self) -> tuple[str, list[Entity]] | None:
        """From where a run was copying last, and what; None: it never was."""
        noted = self._document(ARRIVING)
        if noted is None:
            return None
        return noted["from"], [Entity(self._layout.namespace, *of) for of in noted["entities"]]

    # --- writing --------------------------------------------------------------------

    def _commit(self, entity: Entity, write: Write, *checks: Check) -> Outcome:
        return self._ask(Commit(entity, self._world.new_id(), (write,), checks))

    def apply(self, writes: Sequence[tuple[Entity, Write, Check]]) -> None:
        """All of these, each on its own entity and each only if its check holds."""
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
        """Make sure that an earlier run, should it still live, can not drop this any more.

        False if it is not here any more.
        """
        while (head := self.whole(entity).head).exists:
            counted = Restore(replace(head, commits=head.commits + 1), continued=True)
            outcome = self._commit(entity, counted, CommitsAt(head.commits))
            if isinstance(outcome, Applied):
                return True
        return False

    def record(self, value: Any) -> None:
        """What replicas look at before they serve anything."""
        self._put(LAYOUT, value)

    def note(self, source: str, entities: Sequence[Entity]) -> None:
        """What is being copied here, and from where."""
        self._put(ARRIVING, {"from": source, "entities": [[e.kind, e.id] for e in entities]})

    def _put(self, name: str, value: Any) -> None:
        put = Put(name, encode(value, "the layout"))
        outcome = self._commit(self._layout, put, self._lease.fence)
        if not isinstance(outcome, Applied):
            raise StoreUnavailable(TAKEN_OVER)

    # --- keeping others out ---------------------------------------------------------

    def take(self, wait: float) -> None:
        """Keep other runs out, and replicas from moving in."""
        if not self._lease.take(max(wait, TTL)):  # a killed run's lease lasts so long
            raise StoreUnavailable(f"another run is rebalancing the store of {self.name!r}")

    def keep(self) -> None:
        """Renew the lease from time to time."""
        if not self._lease.keep():
            raise StoreUnavailable(TAKEN_OVER)

    def release(self) -> None:
        self._lease.release()

    def refuse_present(self, wait: float) -> None:
        """Raise if a replica uses the volume, and does not stop within so many seconds."""
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
        for found in self.everything(REPLICA):
            outcome = self._commit(found.entity, Drop(), Unheld())
            if isinstance(outcome, Held):
                return found.head.lease.holder if found.head.lease else "a replica"
        return None
