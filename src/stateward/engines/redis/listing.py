"""Pages of entities. An index may say too much, so every head is verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stateward.codec import encode, listing_mark
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.fetch import fields_of
from stateward.engines.redis.index import correct_steps
from stateward.engines.redis.keys import (
    head_key,
    heads_of,
    kind_index,
    owner_index,
    sortable,
    split_member,
    touched_index,
)
from stateward.engines.redis.merge import LARGEST, Merge, Reading, Strand
from stateward.engines.redis.outcomes import (
    fields_in,
    head_from,
    named_values,
    other_format,
    times_of,
)
from stateward.engines.redis.plans import Plan, Traits, run_with
from stateward.engines.redis.ranges import (
    Candidate,
    Range,
    Ranges,
    asked_of,
    belongs,
    home_of,
    kinds_of,
    member_of,
    owned,
    removal_of,
    unlist_step,
)
from stateward.engines.redis.scripts import RECENT
from stateward.ops import Entity, Found, List, Listed

LATEST = 200  # members with their heads, by one script, while the server does nothing else


def list_entities(op: List, traits: Traits) -> Plan[Any]:
    """Entities by owner, kind, status or due time, in the order the contract states."""
    if op.recent:
        assert op.kind is not None, "what is recent is asked for by kind"
        return (yield from IndexPage(op, traits).latest(op.kind))
    if op.due and op.kind is not None and not op.owner:
        return (yield from IndexPage(op, traits).soonest(op.kind))
    if op.due:
        return (yield from IndexPage(op, traits).sorted_by_due())
    return (yield from IndexPage(op, traits).in_order())


class IndexPage:
    """One page in the making."""

    def __init__(self, op: List, traits: Traits) -> None:
        self._op = op
        self._traits = traits
        self._found: list[Found] = []
        self._ranks: list[float] = []  # due times, or minutes of the last touch
        self._touched: dict[Entity, float] = {}
        self._wrong: list[tuple[Range, Candidate]] = []
        self._now = self._settled = 0.0

    def in_order(self) -> Plan[Any]:
        """List by kind and id, which is the order of the index itself."""
        op = self._op
        mark: tuple[str, str] | None = None
        if op.after is not None:
            _, kind, id = listing_mark(op.after)
            mark = (kind, id)
        for parts in (yield from self._ranges()):
            kind_of = parts[0].kind
            if mark is not None and kind_of is not None:
                # Kinds that the earlier pages are done with. Text sorts as its UTF-8 does.
                before = kind_of > mark[0] if op.reverse else kind_of < mark[0]
                if before:
                    continue
            after = None if mark is None else member_of(parts[0], *mark)
            yield from self._walk(parts, after, op.limit + 1)
            if len(self._found) > op.limit:
                break
        return (yield from self._finish())

    def soonest(self, kind: str) -> Plan[Any]:
        """List what is due of one kind, in the order of the index of due times."""
        op = self._op
        parts = [
            Range(f"{kind_index(op.namespace, kind, part)}:due", b"", kind)
            for part in self._traits.parts()
        ]
        mark: tuple[float, str] | None = None
        if op.after is not None:
            at_due, _, id = listing_mark(op.after)
            mark = (float(at_due), id)
        command, low, high = "ZRANGEBYSCORE", "-inf", "+inf"
        if op.reverse:
            command, low, high = "ZREVRANGEBYSCORE", "+inf", "-inf"
        if mark is not None:
            low = repr(mark[0])

        def ask(one: Strand[Candidate], size: int) -> PipelineStep:
            key = parts[one.number].key
            asked: Command = (command, key, low, high, "WITHSCORES", "LIMIT", one.count, size)
            return PipelineStep(key, (asked,), timed=True)

        def read(_: Strand[Candidate], reply: Any) -> Reading[Candidate]:
            time, flat = reply
            now = self._now = self._traits.now(time)
            matches = []
            beyond = False
            for member, score in zip(flat[::2], flat[1::2], strict=True):
                id, due = split_member(member)
                if float(score) > now:
                    beyond = not op.reverse
                    continue
                at = (float(due), id)
                if mark is None or (at < mark if op.reverse else at > mark):
                    entity = Entity(op.namespace, kind, id)
                    candidate = Candidate(member, entity, due.decode())
                    matches.append(((float(score), member), candidate))
            return Reading(len(flat) // 2, matches, None, beyond)

        merge = Merge[Candidate](len(parts), op.limit + 1, op.reverse, ask, read)
        while len(self._found) <= op.limit:
            candidates = yield from merge.take(op.limit + 1)
            if not candidates:
                break
            looks = yield self._looks(candidates)
            for candidate, look in zip(candidates, looks, strict=True):
                self.judge(candidate, look, home_of(parts, candidate.entity))
        return (yield from self._finish())

    def latest(self, kind: str) -> Plan[Any]:
        """List what was touched last of one kind by its minute, and within a page to the moment."""
        op = self._op
        parts = [self._touched_part(kind, part) for part in self._traits.parts()]
        mark = ("", "")
        if op.after is not None:
            rank, _, id = listing_mark(op.after)
            mark = (str(int(rank)), id)
        fields = fields_of(op.documents)
        heads = heads_of(op.namespace, kind) if self._traits.inline else ""
        words = 2 + (1 + bool(fields) if heads else 0)  # of the answer for each member
        settled: list[float] = []

        def ask(one: Strand[list[Any]], size: int) -> PipelineStep:
            key = parts[one.number].key
            minute, id = one.last or mark
            if not heads and not minute:  # the first ones: no script is needed
                plain = "ZRANGE" if op.reverse else "ZREVRANGE"
                first: Command = (plain, key, 0, size - 1, "WITHSCORES")
                return PipelineStep(key, (first,), timed=op.reverse)
            asked: Command = (
                *("EVALSHA", RECENT.sha, 1, key, "1" if op.reverse else "", size),
                *(minute, id, heads, *fields),
            )
            return PipelineStep(key, (asked,))

        def read(one: Strand[list[Any]], reply: Any) -> Reading[list[Any]]:
            if heads or one.last or mark[0]:  # a reply of the script
                time, *flat = reply[0]
            else:
                time, flat = reply[0], reply[-1]
            if one.last is None and op.reverse:
                settled.append(self._traits.now(time))
            members = [[time, *flat[at : at + words]] for at in range(0, len(flat), words)]
            ranked = [((float(member[2]), member[1]), member) for member in members]
            last = (members[-1][2].decode(), members[-1][1].decode()) if members else None
            return Reading(len(members), ranked, last)

        size = min(op.limit + 1, LATEST)
        merge = Merge[list[Any]](len(parts), size, not op.reverse, ask, read, LATEST)
        while len(self._found) <= op.limit:
            members = yield from merge.take(op.limit + 1)
            if not members:
                break
            candidates = [
                Candidate(id, Entity(op.namespace, kind, id.decode())) for _, id, *_ in members
            ]
            looks: Sequence[Sequence[Any]] = [(time, *look) for time, _, _, *look in members]
            if not heads:
                looks = yield self._looks(candidates)
            for candidate, look, member in zip(candidates, looks, members, strict=True):
                self.judge(candidate, look, home_of(parts, candidate.entity), float(member[2]))
        if op.reverse:
            self._settled = min(settled)
        return (yield from self._finish())

    def _touched_part(self, kind: str, part: int | None) -> Range:
        op = self._op
        ids = kind_index(op.namespace, kind, part)
        if op.owner is None:
            return Range(f"{ids}:touched", b"", kind, added=f"{ids}:added")
        theirs = touched_index(op.namespace, kind, op.owner, part)
        return Range(theirs, b"", kind, op.owner, added=f"{ids}:added")

    def sorted_by_due(self) -> Plan[Any]:
        """List what is due of several kinds or of one owner: no index has that order."""
        op = self._op
        for parts in (yield from self._ranges()):
            yield from self._walk(parts, None, None)
        ordered = [
            ((due, item.entity.kind, item.entity.id), item)
            for due, item in zip(self._ranks, self._found, strict=True)
        ]
        ordered.sort(key=lambda pair: pair[0], reverse=op.reverse)
        if op.after is not None:
            due, kind, id = listing_mark(op.after)
            mark = (float(due), kind, id)
            ordered = [o for o in ordered if (o[0] < mark if op.reverse else o[0] > mark)]
        self._found = [item for _, item in ordered]
        self._ranks = [at[0] for at, _ in ordered]
        return (yield from self._finish())

    def _ranges(self) -> Plan[list[Ranges]]:
        """Return the ranges of the index that hold all that can be on any page, in order."""
        op = self._op
        prefix = op.prefix.encode()
        if op.owner:
            index = owner_index(op.namespace, op.owner)
            if op.kind is None:
                return [[Range(index, b"", None, op.owner)]]
            return [[owned(op.namespace, op.kind, op.owner, op.status or "", op.prefix)]]
        if op.kind is not None:
            kinds = [op.kind]
        else:
            kinds = yield from kinds_of(op.namespace, self._traits)
        ranges: list[Ranges] = []
        for kind in kinds[::-1] if op.reverse else kinds:
            indexes = [kind_index(op.namespace, kind, part) for part in self._traits.parts()]
            if op.status:
                start = sortable(op.status) + prefix
                ranges.append(
                    [Range(f"{index}:status", start, kind, None, op.status) for index in indexes]
                )
            else:
                ranges.append([Range(index, prefix, kind) for index in indexes])
        return ranges

    def _walk(self, parts: Ranges, after: bytes | None, enough: int | None) -> Plan[Any]:
        """Follow an index until there is enough for the page, or no more of it."""
        op = self._op
        size = LARGEST if enough is None else min(enough, LARGEST)

        def ask(one: Strand[bytes], size: int) -> PipelineStep:
            part = parts[one.number]
            command = asked_of(part, one.last or after, size, op.reverse)
            return PipelineStep(part.key, (command,), together=self._traits.inline)

        def read(_: Strand[bytes], reply: Any) -> Reading[bytes]:
            members = reply[-1]
            return Reading(
                len(members), [(m, m) for m in members], members[-1] if members else None
            )

        merge = Merge[bytes](len(parts), size, op.reverse, ask, read)
        command = asked_of(parts[0], after, size, op.reverse)
        guess = self._traits.members.guess(command)
        # Heads are looked at after the index: what it names is there, or has gone since.
        expected = [self.candidate(parts[0], member) for member in guess]
        taken, looks = yield from run_with(merge.take(size), self._looks(expected))
        members: list[bytes] = taken
        candidates = expected
        if members != guess:
            candidates = [self.candidate(parts[0], member) for member in members]
            looks = (yield self._looks(candidates)) if candidates else ()
            self._traits.members.learn(command, members)
        while True:
            for candidate, look in zip(candidates, looks, strict=True):
                self.judge(candidate, look, home_of(parts, candidate.entity))
            if enough is not None and len(self._found) >= enough:
                return
            members = yield from merge.take(LARGEST)
            if not members:
                return
            candidates = [self.candidate(parts[0], member) for member in members]
            looks = yield self._looks(candidates)

    def candidate(self, part: Range, member: bytes) -> Candidate:
        op = self._op
        rest = member
        kind = part.kind
        if op.owner:
            kind, rest = split_member(rest)
        if part.status:
            _, rest = split_member(rest)
        assert kind is not None
        return Candidate(member, Entity(op.namespace, kind, rest.decode()))

    def _looks(self, candidates: Sequence[Candidate]) -> list[PipelineStep]:
        """Return the steps that read the heads of candidates, and the documents asked for."""
        op = self._op
        steps = []
        for candidate in candidates:
            head = head_key(candidate.entity)
            commands: list[Command] = [("HGETALL", head)]
            if op.documents:
                commands.append(("HMGET", f"{head}:docs", *fields_of(op.documents)))
            # On a cluster each node has a clock of its own.
            steps.append(PipelineStep(head, commands, together=True, timed=True))
        return steps

    def judge(
        self, candidate: Candidate, seen: Sequence[Any], part: Range, rank: float | None = None
    ) -> None:
        """Keep the candidate if its head says that it belongs on this page."""
        op = self._op
        time, flat, *rest = seen
        self._now = self._traits.now(time)
        fields = fields_in(flat)
        if not belongs(part, candidate, fields):
            self._wrong.append((part, candidate))
            return
        if b"tip" not in fields:
            raise other_format()
        touched, expires = times_of(fields[b"tip"])
        if self._is_wanted(candidate.entity, fields, expires):
            documents = named_values(op.documents, rest[-1]) if op.documents else {}
            head, _ = head_from(fields, self._now)
            self._found.append(Found(candidate.entity, head, documents))
            self._ranks.append(float(fields.get(b"due") or 0) if rank is None else rank)
            self._touched[candidate.entity] = touched

    def _is_wanted(self, entity: Entity, fields: dict[bytes, bytes], expires: float) -> bool:
        op, due = self._op, fields.get(b"due")
        return (
            (op.expired or not expires or self._now < expires)
            and (op.owner is None or fields.get(b"owner", b"") == op.owner.encode())
            and (op.status is None or fields.get(b"status", b"") == op.status.encode())
            and (op.label is None or fields.get(b"label", b"") == op.label.encode())
            and entity.id.startswith(op.prefix)
            and (not op.due or (bool(due) and float(due or 0) <= self._now))
        )

    def whole(self) -> Listed | None:
        """Return the listing, if it is one page and the index was right; otherwise None."""
        if self._wrong or len(self._found) > self._op.limit:
            return None
        return Listed(tuple(self._found))

    def _finish(self) -> Plan[Any]:
        op = self._op
        if self._wrong and self._traits.inline:
            yield [unlist_step(part, candidate) for part, candidate in self._wrong]
        elif self._wrong:
            wrong = [removal_of(part, candidate.member) for part, candidate in self._wrong]
            yield correct_steps(wrong, self._traits.at())
        page = self._found[: op.limit]
        next = None
        if len(self._found) > op.limit:
            last = page[-1].entity
            rank = self._ranks[len(page) - 1] if op.due or op.recent else 0.0
            next = encode([rank, last.kind, last.id], "a cursor")
        if op.recent:
            page.sort(key=self._touch_of, reverse=not op.reverse)
        return Listed(tuple(page), next=next, settled=self._settled)

    def _touch_of(self, found: Found) -> tuple[float, str]:
        return self._touched[found.entity], found.entity.id
