"""Pages of entities and of documents. An index may say too much, so every head is verified."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stateward.codec import encode, listing_mark
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.fetch import fields_of
from stateward.engines.redis.index import IndexEntry, correct_steps
from stateward.engines.redis.keys import (
    heads_of,
    keys_of,
    kind_index,
    kinds_index,
    owner_index,
    sortable,
    split_member,
    touched_index,
)
from stateward.engines.redis.outcomes import fields_in, head_from, named_values, values_of
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.scripts import DOCUMENTS, RECENT, UNLIST
from stateward.ops import Entity, Found, List, Listed

LARGEST = 1000  # members of an index looked at in one round
LATEST = 200  # the same with their heads, by a script, while the server does nothing else


class Range(NamedTuple):
    """Members of one index: all begin with `prefix`, which is cut off."""

    key: str
    prefix: bytes
    kind: str | None  # None: the member itself begins with its kind
    owner: str | None = None  # what being in this index says of an entity
    status: str | None = None


class Candidate(NamedTuple):
    """A member of an index, and what it stands for."""

    member: bytes
    entity: Entity
    due: str | None = None


# --- documents --------------------------------------------------------------------------


def list_documents(op: List, entity: Entity, traits: Traits) -> Plan[Any]:
    keys = keys_of(entity).own
    prefix = op.prefix.encode()
    after = None if op.after is None else op.after.encode()
    low, high = _bounds(prefix, after, op.reverse)
    command: Command = (
        "EVALSHA",
        DOCUMENTS.sha,
        3,
        keys[0],
        keys[3],
        keys[4],
        "" if op.owner is None else f"={op.owner}",
        traits.at(),
        low,
        high,
        op.limit,
        "1" if op.reverse else "",
        "1" if op.values else "",
    )
    reply = (yield (PipelineStep(keys[0], (command,)),))[0][0]
    found = tuple(values_of(reply).items())
    page = found[: op.limit]
    return Listed(documents=page, next=page[-1][0] if len(found) > len(page) else None)


def _bounds(prefix: bytes, after: bytes | None, reverse: bool) -> tuple[bytes, bytes]:
    """Where members with this prefix begin and end, as ZRANGEBYLEX takes it.

    What follows a prefix is text, which never holds FF: nothing with the prefix is beyond that.
    """
    low = b"[" + prefix if prefix else b"-"
    high = b"(" + prefix + b"\xff" if prefix else b"+"
    if after is not None and reverse and (not prefix or after < prefix + b"\xff"):
        high = b"(" + after
    elif after is not None and not reverse and after >= prefix:
        low = b"(" + after
    return low, high


# --- entities ---------------------------------------------------------------------------


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
        """By kind and id: the order of the index itself."""
        op = self._op
        mark: tuple[str, str] | None = None
        if op.after is not None:
            _, kind, id = listing_mark(op.after)
            mark = (kind, id)
        ranges = yield from self._ranges()
        for part in ranges:
            if mark is not None and part.kind is not None:
                # Kinds that the earlier pages are done with. Text sorts as its UTF-8 does.
                before = part.kind > mark[0] if op.reverse else part.kind < mark[0]
                if before:
                    continue
            after = None if mark is None else _member(part, *mark)
            yield from self._walk(part, after, op.limit + 1)
            if len(self._found) > op.limit:
                break
        return (yield from self._finish())

    def soonest(self, kind: str) -> Plan[Any]:
        """What is due of one kind: the index of due times has the order."""
        op = self._op
        key = f"{kind_index(op.namespace, kind)}:due"
        mark: tuple[float, str] | None = None
        if op.after is not None:
            at_due, _, id = listing_mark(op.after)
            mark = (float(at_due), id)
        command, low, high = "ZRANGEBYSCORE", "-inf", "+inf"
        if op.reverse:
            command, low, high = "ZREVRANGEBYSCORE", "+inf", "-inf"
        if mark is not None:
            low = repr(mark[0])
        offset, size = 0, op.limit + 1
        while len(self._found) <= op.limit:
            asked: Command = (command, key, low, high, "WITHSCORES", "LIMIT", offset, size)
            time, flat = (yield (PipelineStep(key, (asked,), timed=True),))[0]
            self._now = self._traits.now(time)
            candidates = []
            beyond = False
            for member, score in zip(flat[::2], flat[1::2], strict=True):
                id, due = split_member(member)
                if float(score) > self._now:
                    beyond = not op.reverse
                    continue
                at = (float(due), id)
                if mark is None or (at < mark if op.reverse else at > mark):
                    entity = Entity(op.namespace, kind, id)
                    candidates.append(Candidate(member, entity, due.decode()))
            looks = (yield self._looks(candidates)) if candidates else ()
            for candidate, seen in zip(candidates, looks, strict=True):
                self.judge(candidate, seen, Range(key, b"", kind))
            if beyond or len(flat) < 2 * size:
                break
            offset += size
            size = min(2 * size, LARGEST)
        return (yield from self._finish())

    def latest(self, kind: str) -> Plan[Any]:
        """What was touched last of one kind, by the index of minutes; the page to the moment."""
        op = self._op
        part = Range(f"{kind_index(op.namespace, kind)}:touched", b"", kind)
        if op.owner is not None:
            part = Range(touched_index(op.namespace, kind, op.owner), b"", kind, op.owner)
        minute, id = "", ""
        if op.after is not None:
            rank, _, id = listing_mark(op.after)
            minute = str(int(rank))
        fields = fields_of(op.documents)
        heads = heads_of(op.namespace, kind) if self._traits.inline else ""
        words = 2 + (1 + bool(fields) if heads else 0)  # that are answered for each member
        size = min(op.limit + 1, LATEST)
        while len(self._found) <= op.limit:
            asked: Command = (
                *("EVALSHA", RECENT.sha, 1, part.key, "1" if op.reverse else "", size),
                *(minute, id, heads, *fields),
            )
            time, *flat = (yield (PipelineStep(part.key, (asked,)),))[0][0]
            if op.reverse and not self._settled:
                self._settled = self._traits.now(time)
            members = [flat[at : at + words] for at in range(0, len(flat), words)]
            candidates = [
                Candidate(member[0], Entity(op.namespace, kind, member[0].decode()))
                for member in members
            ]
            looks: Sequence[Sequence[Any]] = [(time, *member[2:]) for member in members]
            if not heads and candidates:
                looks = yield self._looks(candidates)
            for candidate, seen, member in zip(candidates, looks, members, strict=True):
                self.judge(candidate, seen, part, float(member[1]))
            if len(members) < size:
                break
            minute, id = members[-1][1].decode(), candidates[-1].entity.id
            size = LATEST
        return (yield from self._finish())

    def sorted_by_due(self) -> Plan[Any]:
        """What is due of several kinds or of one owner: no index has that order."""
        op = self._op
        for part in (yield from self._ranges()):
            yield from self._walk(part, None, None)
        ordered = [
            ((due, found.entity.kind, found.entity.id), found)
            for due, found in zip(self._ranks, self._found, strict=True)
        ]
        ordered.sort(key=lambda pair: pair[0], reverse=op.reverse)
        if op.after is not None:
            due, kind, id = listing_mark(op.after)
            mark = (float(due), kind, id)
            ordered = [o for o in ordered if (o[0] < mark if op.reverse else o[0] > mark)]
        self._found = [found for _, found in ordered]
        self._ranks = [at[0] for at, _ in ordered]
        return (yield from self._finish())

    def _ranges(self) -> Plan[list[Range]]:
        """The parts of the index that hold all that can be on any page, in order."""
        op = self._op
        prefix = op.prefix.encode()
        if op.owner:
            index = owner_index(op.namespace, op.owner)
            if op.kind is None:
                return [Range(index, b"", None, op.owner)]
            return [owned(op.namespace, op.kind, op.owner, op.status or "", op.prefix)]
        kinds = [op.kind] if op.kind is not None else (yield from self._kinds())
        ranges = []
        for kind in kinds:
            index = kind_index(op.namespace, kind)
            if op.status:
                start = sortable(op.status) + prefix
                ranges.append(Range(f"{index}:status", start, kind, None, op.status))
            else:
                ranges.append(Range(index, prefix, kind))
        return ranges

    def _kinds(self) -> Plan[list[str]]:
        key = kinds_index(self._op.namespace)
        members = (yield (PipelineStep(key, (("ZRANGE", key, 0, -1),)),))[0][0]
        kinds = [split_member(member)[0] for member in members]
        return kinds[::-1] if self._op.reverse else kinds

    def _walk(self, part: Range, after: bytes | None, enough: int | None) -> Plan[Any]:
        """Follow an index until there is enough for the page, or no more of it."""
        op = self._op
        size = LARGEST if enough is None else min(enough, LARGEST)
        while enough is None or len(self._found) < enough:
            asked = asked_of(part, after, size, op.reverse)
            guess = self._traits.members.guess(asked)
            index = PipelineStep(part.key, (asked,), together=True, timed=True)
            # Heads are looked at after the index: what it names is there, or has gone since.
            expected = [self.candidate(part, member) for member in guess]
            replies = yield (index, *self._looks(expected))
            members: list[bytes] = replies[0][1]
            if members == guess:
                candidates, looks = expected, replies[1:]
            else:
                candidates = [self.candidate(part, member) for member in members]
                looks = (yield self._looks(candidates)) if candidates else ()
                self._traits.members.learn(asked, members)
            for candidate, seen in zip(candidates, looks, strict=True):
                self.judge(candidate, seen, part)
            if len(members) < size:
                return
            after = members[-1]
            size = min(2 * size, LARGEST)

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
        """What shows the heads of these, and the documents that are asked for."""
        op = self._op
        steps = []
        for candidate in candidates:
            keys = keys_of(candidate.entity).own
            commands: list[Command] = [("HGETALL", keys[0])]
            if op.documents:
                commands.append(("HMGET", keys[3], *fields_of(op.documents)))
            # On a cluster each node has a clock of its own.
            steps.append(PipelineStep(keys[0], commands, together=True, timed=True))
        return steps

    def judge(
        self, candidate: Candidate, seen: Sequence[Any], part: Range, rank: float | None = None
    ) -> None:
        """Keep it if its head says that it belongs on this page."""
        op = self._op
        time, flat, *rest = seen
        self._now = self._traits.now(time)
        fields = fields_in(flat)
        if not _belongs(part, candidate, fields):
            self._wrong.append((part, candidate))
        elif self._is_wanted(candidate.entity, fields):
            documents = named_values(op.documents, rest[-1]) if op.documents else {}
            head, _ = head_from(fields, self._now)
            self._found.append(Found(candidate.entity, head, documents))
            self._ranks.append(float(fields.get(b"due") or 0) if rank is None else rank)
            self._touched[candidate.entity] = float(fields[b"updated"])

    def _is_wanted(self, entity: Entity, fields: dict[bytes, Any]) -> bool:
        op = self._op
        expires, due = fields.get(b"expires"), fields.get(b"due")
        return (
            (op.expired or not expires or self._now < float(expires))
            and (op.owner is None or fields.get(b"owner", b"") == op.owner.encode())
            and (op.status is None or fields.get(b"status", b"") == op.status.encode())
            and (op.label is None or fields.get(b"label", b"") == op.label.encode())
            and entity.id.startswith(op.prefix)
            and (not op.due or (bool(due) and float(due or 0) <= self._now))
        )

    def whole(self) -> Listed | None:
        """All that was found, if it is one page and the index was right; otherwise None."""
        if self._wrong or len(self._found) > self._op.limit:
            return None
        return Listed(tuple(self._found))

    def _finish(self) -> Plan[Any]:
        op = self._op
        if self._wrong and self._traits.inline:
            yield [_unlist(part, candidate) for part, candidate in self._wrong]
        elif self._wrong:
            wrong = [IndexEntry(part.key, candidate.member, "") for part, candidate in self._wrong]
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


def owned(namespace: str, kind: str, owner: str, status: str, prefix: str) -> Range:
    """Where to find what an owner has of one kind; "" is any status."""
    index = owner_index(namespace, owner)
    start = sortable(kind)
    if not status:
        return Range(index, start + prefix.encode(), kind, owner)
    start += sortable(status) + prefix.encode()
    return Range(f"{index}:status", start, kind, owner, status)


def asked_of(part: Range, after: bytes | None, size: int, reverse: bool) -> Command:
    """The command for so many members of a part of an index."""
    low, high = _bounds(part.prefix, after, reverse)
    if reverse:
        return ("ZREVRANGEBYLEX", part.key, high, low, "LIMIT", 0, size)
    return ("ZRANGEBYLEX", part.key, low, high, "LIMIT", 0, size)


def _member(part: Range, kind: str, id: str) -> bytes | None:
    """The member from which to go on, if this range has come that far."""
    if part.kind is None:
        return sortable(kind) + id.encode()
    if part.kind != kind:
        return None
    start = b"" if part.owner is None else sortable(kind)
    return start + (sortable(part.status) if part.status else b"") + id.encode()


def _belongs(part: Range, candidate: Candidate, fields: dict[bytes, Any]) -> bool:
    """Whether the entity is what this index says of it."""
    due = fields.get(b"due_at") or fields.get(b"due")
    return (
        b"created" in fields
        and (part.owner is None or fields.get(b"owner", b"") == part.owner.encode())
        and (part.status is None or fields.get(b"status", b"") == part.status.encode())
        and (candidate.due is None or candidate.due.encode() == due)
    )


def _unlist(part: Range, candidate: Candidate) -> PipelineStep:
    head = keys_of(candidate.entity).head
    command: Command = (
        "EVALSHA",
        UNLIST.sha,
        2,
        head,
        part.key,
        candidate.member,
        "" if part.owner is None else f"={part.owner}",
        "" if part.status is None else f"={part.status}",
        "" if candidate.due is None else f"={candidate.due}",
    )
    return PipelineStep(head, (command,))
