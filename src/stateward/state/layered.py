"""Where the state of a store lives: one engine for everything, or several in a layered store.

One commit, one lease and one fence are always about one entity, so about one engine: nothing that
must hold together is ever spread. What asks about several entities asks their engines at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.engine import Description, summed
from stateward.errors import StatewardError
from stateward.kinds import HEALTH
from stateward.layers.gather import gather
from stateward.layers.stack import Stack
from stateward.ops import Fetch, Op, Outcome, Sweep, Swept
from stateward.records import Health
from stateward.state.scope import Scope


class Layered:
    """The scopes of a store by section (threads, users, workflows); equal ones share a stack."""

    def __init__(self, scopes: Mapping[str, Scope]) -> None:
        self._names: dict[Scope, list[str]] = {}
        for section, scope in scopes.items():
            self._names.setdefault(scope, []).append(section)

    def __getitem__(self, section: str) -> Scope:
        """Where that section lives."""
        return next(scope for scope, names in self._names.items() if section in names)

    def within(self, namespace: str) -> Layered:
        """The same engines, in another namespace."""
        scopes = {scope: scope.within(namespace) for scope in self._names}
        return Layered({name: scopes[s] for s, names in self._names.items() for name in names})

    @property
    def scopes(self) -> list[Scope]:
        """Each engine's scope, once."""
        return list(self._names)

    @property
    def stacks(self) -> list[Stack]:
        return [scope.stack for scope in self._names]

    @property
    def breaker(self) -> str:
        """ "open" while any engine's is."""
        return _worst_breaker([stack.breaker for stack in self.stacks])

    def __repr__(self) -> str:
        if len(self._names) == 1:
            return repr(self.stacks[0])
        return "; ".join(f"{self.name(scope)}: {scope.stack!r}" for scope in self._names)

    def name(self, scope: Scope) -> str:
        """What lives there, in words."""
        return " and ".join(self._names[scope])

    async def execute(self, asked: Sequence[tuple[Scope, Op]]) -> list[Outcome]:
        """Each engine's share of the operations in one batch, all at once; outcomes in order."""
        shares: dict[Scope, list[Op]] = {}
        for scope, op in asked:
            shares.setdefault(scope, []).append(op)
        if len(shares) == 1:
            return await asked[0][0].execute([op for _, op in asked])
        scopes = list(shares)
        answers = await gather([_asking(scope, shares[scope]) for scope in scopes])
        ahead = {scope: iter(answer) for scope, answer in zip(scopes, answers, strict=True)}
        return [next(ahead[scope]) for scope, _ in asked]

    async def ready(self) -> None:
        """Open every engine; if one cannot be opened, none is left open."""
        await self._all_or_none([stack.ready for stack in self.stacks])

    async def start(self) -> None:
        """The same, but one that cannot be reached now is opened when it can be."""
        await self._all_or_none([stack.start for stack in self.stacks])

    async def reach(self, timeout: float | None) -> None:
        """Wait until every engine is open."""
        await gather([_reaching(scope, timeout) for scope in self._names])

    async def _all_or_none(self, ways: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        try:
            await gather(ways)
        except BaseException:
            if len(self._names) > 1:
                await self.close()
            raise

    async def close(self) -> None:
        """Give back every lease, then let go of every engine, whatever one of them says."""
        await gather([scope.close for scope in self._names])

    async def health(self) -> Health:
        """Of all engines: well only if all are."""
        answers = await gather([_health_of(scope) for scope in self._names])
        if len(answers) == 1:
            return answers[0]
        parts = {self.name(scope): of for scope, of in zip(self._names, answers, strict=True)}
        failing = [f"{name}: {of.error}" for name, of in parts.items() if not of.ok]
        problems = [of.spill_problem for of in answers if of.spill_problem is not None]
        outage = Health(
            ok=not failing,
            error="; ".join(failing) or None,
            parts=parts,
            breaker=_worst_breaker([of.breaker for of in answers]),
            spill_depth=sum(of.spill_depth for of in answers),
            spill_bytes=sum(of.spill_bytes for of in answers),
            spill_problem="; ".join(problems) or None,
            alarms=tuple(dict.fromkeys(name for of in answers for name in of.alarms)),
        )
        if failing:
            return outage
        said = summed(parts)
        return replace(
            outage,
            engine=said.engine,
            version=said.version,
            schema=said.schema,
            durability=said.durability,
            bytes=said.bytes,
            latency=max(of.latency or 0.0 for of in answers),
        )

    async def describe(self) -> Description:
        """What every engine says of itself, and their sum."""
        said = await gather([stack.describe for stack in self.stacks])
        if len(said) == 1:
            return said[0]
        parts = {self.name(scope): one for scope, one in zip(self._names, said, strict=True)}
        return replace(summed(parts), parts=parts)

    async def sweep(self, limit: int) -> Swept:
        """At most about `limit` rows of each engine."""
        entities = rows = 0
        more = locked = False
        for swept in await self.execute([(scope, Sweep(limit)) for scope in self._names]):
            assert isinstance(swept, Swept)
            entities, rows = entities + swept.entities, rows + swept.rows
            more, locked = more or swept.more, locked or swept.locked
        return Swept(entities, rows, more, locked)


def _asking(scope: Scope, ops: Sequence[Op]) -> Callable[[], Coroutine[Any, Any, list[Outcome]]]:
    return lambda: scope.execute(ops)


def _reaching(scope: Scope, timeout: float | None) -> Callable[[], Coroutine[Any, Any, None]]:
    deadline = None if timeout is None else scope.world.monotonic() + timeout
    return lambda: scope.stack.reach(deadline)


def _health_of(scope: Scope) -> Callable[[], Coroutine[Any, Any, Health]]:
    return lambda: _health(scope)


async def _health(scope: Scope) -> Health:
    world = scope.world
    start = world.monotonic()
    try:
        await scope.stack.ready()
        await scope.execute((Fetch(scope.entity(HEALTH, "probe")),))
        latency = world.monotonic() - start
        said = await scope.stack.describe()
    except StatewardError as error:
        return replace(_outage(scope.stack), ok=False, error=f"{type(error).__name__}: {error}")
    return replace(
        _outage(scope.stack),
        engine=said.engine,
        version=said.version,
        schema=said.schema,
        durability=said.durability,
        bytes=said.bytes,
        latency=latency,
    )


def _outage(stack: Stack) -> Health:
    """What is known of an outage without asking the engine."""
    return Health(
        ok=True,
        breaker=stack.breaker,
        spill_depth=stack.backlog.depth,
        spill_bytes=stack.backlog.bytes,
        spill_problem=stack.backlog.problem,
        alarms=stack.alarms.raised,
    )


def _worst_breaker(breakers: Sequence[str]) -> str:
    return "open" if "open" in breakers else "closed"
