"""Storing a checkpoint: one commit, in which a list that grew is stored by its new part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT
from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import Limits, check_commit, encode
from stateward.errors import StateConflictError
from stateward.integrations.bridge import CLOCK, Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.langgraph.list_deltas import (
    Frozen,
    ListRef,
    Opaque,
    common_as_stored,
    frozen,
)
from stateward.integrations.langgraph.reads import fetched, list_parts
from stateward.integrations.langgraph.records import (
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    GraphThread,
    Json,
    KnownCheckpoint,
)
from stateward.integrations.langgraph.serializer import to_json
from stateward.integrations.turns import AgentRun, Turns
from stateward.ops import (
    Acquire,
    Check,
    Commit,
    Conflict,
    DocumentAt,
    Fenced,
    Held,
    Lease,
    NotDroppedSince,
    Put,
    Release,
    SetHead,
    Write,
)
from stateward.state.refusals import stored
from stateward.world import World

INLINE = 256  # bytes of a value that stands in the checkpoint itself
ELSEWHERE = ("id", "channel_versions", "channel_values")  # not in `CheckpointRecord.checkpoint`
TRIGGERS = ("branch:to:", "join:", "__start__", "__pregel_tasks")  # channels that start nodes
SLACK = 16  # elements that may be stored in vain before a list is written anew

OnConflict = Literal["raise", "fork"]


class CheckpointWriter(Struct, frozen=True):
    """What a saver was told once, for all its writes."""

    memory: CheckpointMemory
    limits: Limits
    world: World
    on_conflict: OnConflict
    retain: float | None
    turns: Turns

    def turn_after(
        self, thread: GraphThread, run: AgentRun | None, *, ends: bool
    ) -> tuple[Acquire | Release, ...]:
        """What becomes of a run's turn with something that it stores."""
        if run is None or self.on_conflict == "fork" or thread.ns:
            return ()
        turn = self.turns.get(thread.entity, run)
        ends = ends or self.turns.is_stopped(run)
        if turn is not None:
            return (self.turns.end(turn).release,) if ends else ()
        if ends or self.turns.is_shared(thread.entity):
            return ()
        return (self.turns.acquire(thread.entity),)


class Draft:
    """A checkpoint as it comes together: where its values are, and the documents to be put."""

    def __init__(
        self, writer: CheckpointWriter, thread: GraphThread, id: str, serde: SerializerProtocol
    ) -> None:
        self._writer = writer
        self._thread = thread
        self._id = id
        self._serde = serde
        self.values: dict[str, Json] = {}
        self.puts: dict[str, str] = {}
        self.lists: dict[str, tuple[str, Frozen | None]] = {}  # by channel, with the newest part

    def add_value(self, channel: str, value: Any) -> None:
        plain = to_json(value, self._serde)
        text = encode(plain, "the state")
        if len(text) <= INLINE:
            self.values[channel] = {"json": plain}
        else:
            self.puts[names.value(self._thread.ns, channel, self._id)] = text
            self.values[channel] = {"in": self._id}

    def add_list(self, channel: str, value: list[Any], old: Json | None) -> Plan[None]:
        """By its new part, if it begins as what the parent's checkpoint holds (`old`)."""
        base = None if old is None or "list" not in old else ListRef(*old["list"])
        keep, kept = 0, None
        if base is not None:
            keep, kept = yield from self._common(channel, base, value)
        if base is not None and keep == len(value) == base.length:
            self.values[channel] = {"list": list(base)}
            self.lists[channel] = (base.id, kept)
            return
        if base is None or not keep or base.stored + len(value) - keep > 2 * len(value) + SLACK:
            base, keep = None, 0
        items = [to_json(item, self._serde) for item in value[keep:]]
        if base is None and len(encode(items, "the state")) <= INLINE:
            self.values[channel] = {"json": items}
            return
        part = {"base": None if base is None else base.id, "keep": keep, "items": items}
        name = names.lists(self._thread.ns, channel) + names.part(self._id)
        self.puts[name] = encode(part, "the state")
        total = len(items) + (0 if base is None else base.stored)
        self.values[channel] = {"list": [self._id, len(value), total]}
        self.lists[channel] = (self._id, _extended(kept, keep, value))

    def _common(
        self, channel: str, base: ListRef, value: list[Any]
    ) -> Plan[tuple[int, Frozen | None]]:
        """How much of the list is what its parent's checkpoint holds."""
        thread = self._thread
        kept = self._writer.memory.lists.get((thread.entity.id, thread.ns, channel), base.id)
        if kept is not None and len(kept) == base.length:
            try:
                return kept.common(value), kept
            except Opaque:
                pass  # something new can only be compared as stored
        items = yield from list_parts(thread, channel, base, {})
        return common_as_stored(items, value, self._serde), None


def put(
    writer: CheckpointWriter,
    thread: GraphThread,
    parent: str | None,
    checkpoint: Mapping[str, Any],
    metadata: Mapping[str, Any],
    new_versions: Mapping[str, Any],
    serde: SerializerProtocol,
    run: AgentRun | None = None,
    *,
    fork: bool,
) -> Plan[None]:
    """Store a checkpoint that continues `parent`; with `fork` others may have continued it too."""
    known = writer.memory.get(thread, parent or "")
    if known is None and parent is not None:
        known = yield from _learn(thread, parent)
    before = None if known is None else known.record
    draft = Draft(writer, thread, checkpoint["id"], serde)
    versions = checkpoint["channel_versions"]
    for channel, value in checkpoint["channel_values"].items():
        old = None if before is None else before.values.get(channel)
        version = versions.get(channel)
        same = (
            before is not None and version is not None and before.versions.get(channel) == version
        )
        if old is not None and same and channel not in new_versions:
            draft.values[channel] = old
        elif type(value) is list and value:
            yield from draft.add_list(channel, value, old)
        else:
            draft.add_value(channel, value)
    rest = {key: value for key, value in checkpoint.items() if key not in ELSEWHERE}
    record = CheckpointRecord(
        checkpoint["id"],
        thread.ns,
        parent,
        dict(versions),
        to_json(rest, serde),
        to_json(dict(metadata), serde),
        draft.values,
    )
    checks = _checks(writer, thread, known, fork or metadata.get("source") == "fork")
    ends = metadata.get("source") != "input" and not any(map(_goes_on, record.values))
    turn = writer.turn_after(thread, run, ends=ends)
    try:
        granted = yield from _commit(writer, thread, record, draft, known, metadata, checks, turn)
    except StateConflictError:  # the run is over, and has given nothing back
        if not any(isinstance(each, Release) for each in turn):
            turn = writer.turn_after(thread, run, ends=True)
        if turn:
            yield (Commit(thread.entity, writer.world.new_op(), turn),)
        raise
    if run is not None and granted is not None:
        writer.turns.taken(thread.entity, run, *granted)
        if writer.turns.is_stopped(run):  # meanwhile
            release = writer.turn_after(thread, run, ends=True)
            yield (Commit(thread.entity, writer.world.new_op(), release),)


def _goes_on(channel: str) -> bool:
    """Whether a channel that has a value makes a node run next."""
    return channel.startswith(TRIGGERS)


def _learn(thread: GraphThread, parent: str) -> Plan[KnownCheckpoint | None]:
    """The parent is not one that this process remembers: ask for it."""
    name = thread.checkpoint(parent)
    (outcome,) = yield (thread.fetch(name, thread.head),)
    documents = fetched(outcome, thread).documents
    if name not in documents:
        return None
    head = CheckpointHead.of(documents.get(thread.head))
    known = KnownCheckpoint(CheckpointRecord.of(documents[name]))
    if head is not None and head.id == parent:
        known.guard = head.version
    return known


def _extended(kept: Frozen | None, keep: int, value: list[Any]) -> Frozen | None:
    if kept is None:
        return frozen(value)
    try:
        return kept.extended(keep, value[keep:])
    except Opaque:
        return None


def _commit(
    writer: CheckpointWriter,
    thread: GraphThread,
    record: CheckpointRecord,
    draft: Draft,
    known: KnownCheckpoint | None,
    metadata: Mapping[str, Any],
    checks: tuple[Check, ...],
    turn: tuple[Acquire | Release, ...],
) -> Plan[tuple[Lease, float] | None]:
    """Store it; gives the turn, if it was granted, and when it was asked for."""
    name = thread.checkpoint(record.id)
    puts = draft.puts | {
        name: encode(record.stored(), "the checkpoint"),
        thread.head: encode({"id": record.id}, "the head"),
    }
    run = metadata.get("run_id")
    if isinstance(run, str) and run and run != _run(known):
        puts[names.run(run)] = encode({"run_id": run}, "the run")
    check_commit(sum(map(len, puts.values())), writer.limits)
    writes: list[Write] = [Put(key, text) for key, text in puts.items()]
    writes.append(SetHead(retain=writer.retain or 0.0))  # a document alone does not restart it
    commit = Commit(
        thread.entity,
        writer.world.new_op(),
        (*writes, *turn),
        checks,
        owner=thread.owner,
        retain=writer.retain,
    )
    asked = writer.world.monotonic()
    (outcome,) = yield (commit,)
    if isinstance(outcome, Fenced):  # the turn was lost, and nobody has used that
        (outcome,) = yield (replace(commit, op=writer.world.new_op(), writes=tuple(writes)),)
    if isinstance(outcome, Held):
        raise StateConflictError(
            f"another run has begun in the thread {thread.entity.id!r}; this checkpoint was not "
            "stored: invoke the graph again",
            expected=record.parent,
            current=None,
        )
    if isinstance(outcome, Conflict):
        writer.memory.forget(thread, record.parent or "")
        _refuse(thread, record, outcome)
    applied = stored(outcome, thread.entity)
    record.version = applied.documents[name]
    writer.memory.stored(thread, record, applied.documents[thread.head])
    for channel, (part, items) in draft.lists.items():
        writer.memory.lists.put((thread.entity.id, thread.ns, channel), part, items)
    return None if applied.lease is None else (applied.lease, asked)


def _run(known: KnownCheckpoint | None) -> Any:
    """The run that put the parent: it is noted in the thread already."""
    metadata = None if known is None or known.record is None else known.record.metadata
    return metadata.get("run_id") if isinstance(metadata, dict) else None


def _checks(
    writer: CheckpointWriter,
    thread: GraphThread,
    known: KnownCheckpoint | None,
    fork: bool,
) -> tuple[Check, ...]:
    """The parent is still there; and unless a fork is meant, nobody has continued it."""
    checks: list[Check] = []
    if known is not None and known.record is not None:
        checks.append(DocumentAt(thread.checkpoint(known.record.id), known.record.version))
    if known is not None and not fork and writer.on_conflict != "fork":
        # Without a guard it was not the newest when it was looked up: no version can be right.
        checks.append(DocumentAt(thread.head, -1 if known.guard is None else known.guard))
    return tuple(checks)


def _refuse(thread: GraphThread, record: CheckpointRecord, conflict: Conflict) -> NoReturn:
    failed = conflict.failed
    if isinstance(failed, DocumentAt) and failed.name == thread.head:
        now = CheckpointHead.of(conflict.values.get(thread.head))
        raise StateConflictError(
            f"the thread {thread.entity.id!r} was continued by another run: its newest "
            f"checkpoint is {None if now is None else now.id!r}, and this continues "
            f"{record.parent!r}; it was not stored: invoke the graph again, or keep both with "
            "StatewardSaver(..., on_conflict='fork')",
            expected=record.parent,
            current=None if now is None else now.id,
        )
    raise _gone(thread, record.parent, "the next one was not stored")


def _gone(thread: GraphThread, id: str | None, lost: str) -> StateConflictError:
    return StateConflictError(
        f"the checkpoint {id!r} of the thread {thread.entity.id!r} is gone: the thread was "
        f"deleted or pruned during this run; {lost}",
        expected=id,
        current=None,
    )


def put_writes(
    writer: CheckpointWriter,
    thread: GraphThread,
    id: str,
    writes: Sequence[tuple[str, Any]],
    task: str,
    path: str,
    serde: SerializerProtocol,
    run: AgentRun | None = None,
) -> Plan[None]:
    """Pending writes of a task: the first of each number stays, special ones are replaced."""
    puts: dict[str, Put] = {}
    turn: tuple[Acquire | Release, ...] = ()
    if run is not None and any(channel in (ERROR, INTERRUPT) for channel, _ in writes):
        writer.turns.stop(run)
        turn = writer.turn_after(thread, run, ends=True)
    firsts: list[str] = []
    size = 0
    for index, (channel, value) in enumerate(writes):
        number = WRITES_IDX_MAP.get(channel, index)
        name = names.write(thread.ns, id, task, number)
        plain = {"task": task, "path": path, "channel": channel, "value": to_json(value, serde)}
        text = encode(plain, "the state")
        size += len(text)
        puts[name] = Put(name, text)
        if number >= 0:
            firsts.append(name)
    check_commit(size, writer.limits)
    guard = yield from _still_there(writer, thread, id)
    while puts:
        commit = Commit(
            thread.entity,
            writer.world.new_op(),
            (*puts.values(), *turn),
            (guard, *(DocumentAt(name, 0) for name in firsts)),
            owner=thread.owner,
            retain=writer.retain,
            reading=(thread.checkpoint(id), *firsts),
        )
        (outcome,) = yield (commit,)
        if isinstance(outcome, Fenced):
            turn = ()
            continue
        if not isinstance(outcome, Conflict):
            stored(outcome, thread.entity)
            return
        now = outcome.values.get(thread.checkpoint(id))
        if outcome.failed == guard:
            if now is None:
                raise _gone(thread, id, "what a task wrote was not stored")
            guard = DocumentAt(thread.checkpoint(id), now.version)
            continue
        # A retried or replayed task: what it stored the first time stays.
        there = set(outcome.values)
        puts = {name: put for name, put in puts.items() if name not in there or name not in firsts}
        firsts = [name for name in firsts if name not in there]


def _still_there(writer: CheckpointWriter, thread: GraphThread, id: str) -> Plan[Check]:
    """The checkpoint that a task belongs to is there, or may still be on its way.

    LangGraph stores checkpoints in the background, so what a task wrote may come first. It must not
    bring back a thread that was deleted, or whose user was erased, since it was read here.
    """
    known = writer.memory.get(thread, id)
    if known is not None and known.record is not None:
        return DocumentAt(thread.checkpoint(id), known.record.version)
    head = writer.memory.head(thread)
    if head is None:
        (outcome,) = yield (thread.fetch(),)
        head = fetched(outcome, thread).head
    return NotDroppedSince(head.dropped + CLOCK)
