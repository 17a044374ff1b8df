"""Stores whose fenced writes are noted, with what the engine answered. They change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from talk import facts, say

from stateward import Policy
from stateward.engine import Engine
from stateward.engines.passthrough import Passthrough
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.errors import StoreTooSlow
from stateward.ops import Append, Commit, Duplicate, Fence, Op, Outcome, Put
from stateward.store import Store
from stateward.sync.engines.passthrough import Passthrough as SyncPassthrough
from stateward.sync.store import Store as SyncStore
from stateward.world import World


def note(ops: Sequence[Op], outcomes: Sequence[Outcome]) -> None:
    """Say what became of every write that was guarded by a lease."""
    for op, outcome in zip(ops, outcomes, strict=True):
        if not isinstance(op, Commit):
            continue
        tokens = [check.token for check in op.checks if isinstance(check, Fence)]
        writes = [w.name for w in op.writes if isinstance(w, Put)]
        writes += ["append" for w in op.writes if isinstance(w, Append)]
        if tokens and writes:
            answer = "Applied" if is_own(outcome) else type(outcome).__name__
            say(fenced=op.entity.id, token=tokens[0], writes=writes[0], answer=answer)


def is_own(outcome: Outcome) -> bool:
    return isinstance(outcome, Duplicate) and outcome.own


class Witness(Passthrough):
    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = await super().execute(ops, deadline=deadline)
        note(ops, outcomes)
        return outcomes


class SyncWitness(SyncPassthrough):
    def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = super().execute(ops, deadline=deadline)
        note(ops, outcomes)
        return outcomes


# Replicas share a machine that may be busy: no call of theirs is to fail for that.
PATIENT = Policy(read_timeout=60.0, write_timeout=60.0)


def open_store(colour: str, policy: Policy = PATIENT) -> Any:
    """A store of either colour whose fenced writes are noted."""
    world, url = World(), parse(facts["url"])
    if colour == "sync":
        return SyncStore(SyncWitness(create_sync_engine(url, world)), world=world, policy=policy)
    engine: Engine = Witness(create_engine(url, world))
    return Store(engine, world=world, policy=policy)


def load(store: Any) -> Any:
    """Any read, which opens the store, of a blocking one. On a busy machine that may take long."""
    while True:
        try:
            return store.thread("any").load()
        except StoreTooSlow:  # opening it goes on
            pass


async def load_async(store: Any) -> Any:
    """As `load`."""
    while True:
        try:
            return await store.thread("any").load()
        except StoreTooSlow:
            pass
