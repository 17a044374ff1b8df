"""The engines of a store: one for everything, or several in a layered store.

A commit, a lease and a fence each concern one entity, so one engine: no transaction is ever spread.
Requests about several entities go to their engines concurrently.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
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
        """Return the scope of that section."""
        return next(scope for scope, names in self._names.items() if section in names)

    def within(self, namespace: str) -> Layered:
        """Return the same engines in another namespace."""
        scopes = {scope: scope.within(namespace) for scope in self._names}
        return Layered({name: scopes[s] for s, names in self._names.items() for name in names})

    @property
    def scopes(self) -> list[Scope]:
        """The scope of each engine, once."""
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
        """Return the names of the sections in this scope, for messages."""
        return " and ".join(self._names[scope])

    async def execute(self, asked: Sequence[tuple[Scope, Op]]) -> list[Outcome]:
        """Execute each engine's share in one batch, concurrently; return the outcomes in order."""
        shares: dict[Scope, list[Op]] = {}
        for scope, op in asked:
            shares.setdefault(scope, []).append(op)
        if len(shares) == 1:
            return await asked[0][0].execute([op for _, op in asked])
        scopes = list(shares)
        answers = await gather([partial(scope.execute, shares[scope]) for scope in scopes])
        ahead = {scope: iter(answer) for scope, answer in zip(scopes, answers, strict=True)}
        return [next(ahead[scope]) for scope, _ in asked]

    async def ready(self) -> None:
        """Open every engine; if one cannot be opened, none is left open."""
        await self._all_or_none([stack.ready for stack in self.stacks])

    async def start(self) -> None:
        """Open every engine; those that cannot be reached now are opened later."""
        await self._all_or_none([stack.start for stack in self.stacks])

    async def reach(self, timeout: float | None) -> None:
        """Wait until every engine is open."""
        now = self.scopes[0].world.monotonic()
        deadline = None if timeout is None else now + timeout
        await gather([partial(stack.reach, deadline) for stack in self.stacks])

    async def _all_or_none(self, ways: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        try:
            await gather(ways)
        except BaseException:
            if len(self._names) > 1:
                await self.close()
            raise

    async def close(self) -> None:
        """Release every lease, then close every engine, even if one of them fails."""
        await gather([scope.close for scope in self._names])

    async def health(self) -> Health:
        """Return the health of all engines: ok only if all of them are."""
        answers = await gather([partial(_health, scope) for scope in self._names])
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
            spill_refused=sum(of.spill_refused for of in answers),
            alarms=tuple(dict.fromkeys(name for of in answers for name in of.alarms)),
            answers=all(of.answers for of in answers),
        )
        if not outage.answers:
            return outage
        return _described(outage, summed(parts), max(of.latency or 0.0 for of in answers))

    async def describe(self) -> Description:
        """Return the description of each engine, and their sum."""
        descriptions = await gather([stack.describe for stack in self.stacks])
        if len(descriptions) == 1:
            return descriptions[0]
        names = map(self.name, self._names)
        parts = dict(zip(names, descriptions, strict=True))
        return replace(summed(parts), parts=parts)

    async def sweep(self, limit: int) -> Swept:
        """Remove at most about `limit` rows from each engine; end the streams of dead writers."""
        from stateward.state.live_feed import settle_streams

        await settle_streams(self["threads"])
        entities = rows = 0
        more = locked = False
        for swept in await self.execute([(scope, Sweep(limit)) for scope in self._names]):
            assert isinstance(swept, Swept)
            entities, rows = entities + swept.entities, rows + swept.rows
            more, locked = more or swept.more, locked or swept.locked
        return Swept(entities, rows, more, locked)


class Sections:
    """The scopes that the methods of a store work on."""

    _layered: Layered
    _threads: Scope
    _users: Scope
    _scope: Scope  # everything else
    _home: Scope  # of the store itself, whatever the tenant
    _retain: float | None


async def _health(scope: Scope) -> Health:
    world = scope.world
    start = world.monotonic()
    try:
        await scope.stack.ready()
        await scope.execute((Fetch(scope.entity(HEALTH, "probe")),))
        latency = world.monotonic() - start
        description = await scope.stack.describe()
    except StatewardError as error:
        reason = f"{type(error).__name__}: {error}"
        return replace(_outage(scope.stack), ok=False, error=reason, answers=False)
    return _described(_outage(scope.stack), description, latency)


def _described(health: Health, description: Description, latency: float) -> Health:
    shared = ("engine", "version", "schema", "durability", "bytes")
    fields = {name: getattr(description, name) for name in shared}
    problem = description.problem
    fields |= {"ok": health.ok and problem is None, "error": health.error or problem}
    return replace(health, latency=latency, **fields)


def _outage(stack: Stack) -> Health:
    """Return what is known about an outage without a request to the engine."""
    return Health(
        ok=True,
        breaker=stack.breaker,
        spill_depth=stack.backlog.depth,
        spill_bytes=stack.backlog.bytes,
        spill_problem=stack.spill_problem,
        spill_refused=stack.backlog.refused,
        alarms=stack.alarms.raised,
    )


def _worst_breaker(breakers: Sequence[str]) -> str:
    return "open" if "open" in breakers else "closed"
