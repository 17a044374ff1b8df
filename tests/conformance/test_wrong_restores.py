"""Engines that restore wrongly, in one way each: the suite must notice every one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from stateward.engines.memory.engine import MemoryEngine
from stateward.engines.memory.model import Model
from stateward.engines.passthrough import Passthrough
from stateward.ops import Commit, Fetch, Fetched, List, Op, Outcome, Restore
from stateward.testing import conformance
from stateward.testing.clock import SteppableWorld
from stateward.world import World

CASES = [(name, case) for name, case in conformance.CASES if name.startswith("restores.")]
START = 1_700_000_000.0

Change = Callable[[Restore], Restore]


def head(**fields: Any) -> Change:
    return lambda write: replace(write, head=replace(write.head, **fields))


def entries(**fields: Any) -> Change:
    return lambda write: replace(
        write, entries=tuple(replace(entry, **fields) for entry in write.entries)
    )


def documents(**fields: Any) -> Change:
    return lambda write: replace(
        write, documents={name: replace(value, **fields) for name, value in write.documents.items()}
    )


def without_removed(write: Restore) -> Restore:
    return replace(write, entries=tuple(entry for entry in write.entries if entry.body))


WRONG: dict[str, Change] = {
    **{f"owner {value!r}": head(owner=value) for value in ("", "other")},
    "status": head(status=""),
    "label": head(label=""),
    "due": head(due=None),
    "retain": head(retain=None),
    "expires": head(expires=None),
    "created": head(created=START),
    "updated": head(updated=START),
    "commits": head(commits=1),
    "dropped": head(dropped=0.0),
    "stamp": head(stamp="other"),
    "base": head(base=0),
    "base stamp": head(base_stamp=""),
    "token": head(token=0),
    "at": entries(at=START + 1),
    "stamps": entries(stamp="one"),
    "keys": entries(key=None),
    "digests": entries(digest=None),
    "notes": entries(note=None),
    "removed entries": without_removed,
    "document versions": documents(version=1),
    "document stamps": documents(stamp=""),
    "document times": documents(updated=START + 1),
    "document logs": documents(log=0),
    "no documents": lambda write: replace(write, documents={}),
    "never continued": lambda write: replace(write, continued=False),
    "always continued": lambda write: replace(write, continued=True),
}


class Wrong(Passthrough):
    """Restores something else than it was told."""

    def __init__(self, model: Model, world: World, change: Change) -> None:
        super().__init__(MemoryEngine(model, world))
        self._change = change

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        return await super().execute([self._changed(op) for op in ops], deadline=deadline)

    def _changed(self, op: Op) -> Op:
        if isinstance(op, Commit) and len(op.writes) == 1 and isinstance(op.writes[0], Restore):
            return replace(op, writes=(self._change(op.writes[0]),))
        return op


class Unchecked(Wrong):
    """Restores whatever the checks say."""

    def _changed(self, op: Op) -> Op:
        if isinstance(op, Commit) and isinstance(op.writes[0], Restore):
            return replace(op, checks=())
        return op


class Half(Passthrough):
    """Lists only what has an owner, or reads only what is still there."""

    def __init__(self, model: Model, world: World, what: str) -> None:
        super().__init__(MemoryEngine(model, world))
        self._what = what

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = await super().execute(
            [replace(op, owner="u") if self._what == "list" and _is_all(op) else op for op in ops],
            deadline=deadline,
        )
        if self._what != "read":
            return outcomes
        return [
            replace(outcome, entries=tuple(entry for entry in outcome.entries if entry.body))
            if isinstance(op, Fetch) and isinstance(outcome, Fetched)
            else outcome
            for op, outcome in zip(ops, outcomes, strict=True)
        ]


def _is_all(op: Op) -> bool:
    return isinstance(op, List) and op.kind is None and op.owner is None and op.within is None


async def failures(make: Callable[[Model, World], Any]) -> list[str]:
    """Which cases do not hold."""
    found = []
    for name, case in CASES:
        model = Model()
        harness = conformance.Harness(lambda world, m=model: make(m, world), SteppableWorld(START))
        async with harness as h:
            try:
                await case(h)
            except (AssertionError, KeyError):
                found.append(name)
    return found


async def test_the_right_one_is_not_accused() -> None:
    assert await failures(lambda model, world: Wrong(model, world, lambda write: write)) == []


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_restored_wrongly_is_noticed(what: str) -> None:
    assert await failures(lambda model, world: Wrong(model, world, WRONG[what])) != []


async def test_a_restore_that_asks_nobody_is_noticed() -> None:
    assert await failures(lambda model, world: Unchecked(model, world, lambda write: write)) != []


@pytest.mark.parametrize("what", ["list", "read"])
async def test_half_of_it_is_noticed(what: str) -> None:
    assert await failures(lambda model, world: Half(model, world, what)) != []
