"""What was stored before there was an index of what was touched last is entered afterwards.

Listings do it, in passing: each namespace has a mark that says how far that has come, and while it
does not say that all is done, a listing enters some more before it answers. What a user has is
entered first when that is asked for. So nobody has to know of it, nobody waits for long, and
whoever is cut off, or does it beside others, only does something twice. `stateward migrate` enters
all there is. This is for one server: on a cluster `spread.py` enters those of before, too.

An entry that is there is never changed: whoever touches an entity meanwhile knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.keys import (
    format_mark,
    heads_of,
    keys_of,
    kind_index,
    kinds_index,
    owner_index,
    sortable,
    split_member,
    touched_frame,
)
from stateward.engines.redis.listing import Range, asked_of
from stateward.engines.redis.plans import Plan, Traits, carried_out
from stateward.engines.redis.scripts import ENTER
from stateward.ops import Entity, List, Listed

DONE = b"2"  # the storage format since which every commit enters what it touches
TOGETHER = 500  # entities entered in one round
ROUNDS = 8  # of these at most before a listing is answered: others' calls may travel with it


def needs_backfill(op: List, traits: Traits) -> bool:
    """Whether the answer may depend on entities that nobody has entered yet."""
    asks = op.recent or op.tally == "owner" or (op.tally is not None and op.owner is not None)
    return asks and traits.server.migrates and op.namespace not in traits.filled


def backfilled(
    op: List, listing: Callable[[List, Traits], Plan[Listed]], traits: Traits
) -> Plan[Listed]:
    """A listing. If not all is entered yet, some more is, and then it is asked for anew."""
    mark = format_mark(op.namespace)
    look = PipelineStep(mark, (("HGET", mark, "touched"),))
    listed, replies = yield from carried_out(listing(op, traits), (look,))
    told: bytes | None = replies[0][0]
    if told == DONE:
        traits.filled.add(op.namespace)
        return listed
    rounds = ROUNDS
    if op.owner:
        theirs = owner_index(op.namespace, op.owner)
        prefix = b"" if op.kind is None else sortable(op.kind)
        part = Range(theirs, prefix, None)
        yield from _Walk(op.namespace, traits, ROUNDS).along(part, None)
        rounds = 1
    yield from _Walk(op.namespace, traits, rounds).through_all(told)
    return (yield from listing(op, traits))


def backfill(namespace: str, traits: Traits) -> Plan[int]:
    """Enter all that a namespace has, whatever was done before; returns how many were missing."""
    walk = _Walk(namespace, traits, None)
    yield from walk.through_all(None)
    return walk.entered


class _Walk:
    """A way through an index of ids, which enters what it meets. `rounds` bounds its length."""

    def __init__(self, namespace: str, traits: Traits, rounds: int | None) -> None:
        self.entered = 0
        self._namespace = namespace
        self._traits = traits
        self._left = rounds

    def through_all(self, told: bytes | None) -> Plan[None]:
        """All kinds, from where the mark says; it is written after each round."""
        namespace, index, mark = self._namespace, kinds_index(self._namespace), told
        kinds = (yield (PipelineStep(index, (("ZRANGE", index, 0, -1),)),))[0][0]
        for kind in sorted(kinds):
            if mark is not None and mark[: len(kind)] > kind:
                continue
            after = mark[len(kind) :] if mark is not None and mark.startswith(kind) else None
            name = split_member(kind)[0]
            part = Range(kind_index(namespace, name), b"", name)
            if not (yield from self.along(part, after, kind)):
                return
        yield self._marked(DONE)
        self._traits.filled.add(namespace)

    def along(self, part: Range, after: bytes | None, mark: bytes | None = None) -> Plan[bool]:
        """Enter what one part of an index has; whether that is done."""
        while self._left is None or self._left > 0:
            asked = asked_of(part, after, TOGETHER, False)
            members: list[bytes] = (yield (PipelineStep(part.key, (asked,)),))[0][0]
            entities = [self._entity(part, member) for member in members]
            if entities and not (yield from self._enter(entities)):
                return False
            if len(members) < TOGETHER:
                return True
            after = members[-1]
            if mark is not None:
                yield self._marked(mark + after)
            if self._left is not None:
                self._left -= 1
        return False

    def _entity(self, part: Range, member: bytes) -> Entity:
        kind, id = (part.kind, member) if part.kind is not None else split_member(member)
        return Entity(self._namespace, kind, id.decode())

    def _marked(self, text: bytes) -> tuple[PipelineStep]:
        mark = format_mark(self._namespace)
        command: Command = ("HSET", mark, "touched", text)
        return (PipelineStep(mark, (command,), writes=True, optional=True),)

    def _enter(self, entities: Sequence[Entity]) -> Plan[bool]:
        """False if the server is full: whoever lists must not fail for that, but sees less."""
        steps = [step._replace(optional=True) for step in self._steps(entities)]
        told: list[list[Any]] = (yield steps) if steps else []
        self.entered += sum(reply[0] or 0 for reply in told)
        return all(reply[0] is not None for reply in told)

    def _steps(self, entities: Sequence[Entity]) -> list[PipelineStep]:
        """A script does it, in the moment that it looks at them."""
        by_kind: dict[str, list[Entity]] = {}
        for entity in entities:
            by_kind.setdefault(entity.kind, []).append(entity)
        steps = []
        for kind, group in by_kind.items():
            keys = keys_of(group[0])
            command: Command = (
                *("EVALSHA", ENTER.sha, 2, keys.touched, keys.owners),
                *(heads_of(self._namespace, kind), *touched_frame(self._namespace, kind)),
                *(entity.id for entity in group),
            )
            steps.append(PipelineStep(keys.touched, (command,), writes=True))
        return steps
