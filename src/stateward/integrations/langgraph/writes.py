"""Storing a checkpoint: one commit, in which a list that grew is stored by its new part.

The checkpoints of a run, and what its tasks write, share a segment: each text is stored once there.
This process takes what it has under way to be stored; where something else is, a commit is refused,
and what it brings is stored by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn

from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec import Struct

from stateward.codec import Limits, check_commit, decode, encode
from stateward.errors import StateConflictError
from stateward.integrations.bridge import CLOCK, Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import (
    CheckpointSegment,
    ids_of,
)
from stateward.integrations.langgraph.checkpoint_draft import LARGE, Draft
from stateward.integrations.langgraph.reads import find, records_in
from stateward.integrations.langgraph.records import (
    CheckpointHead,
    CheckpointMemory,
    CheckpointRecord,
    GraphThread,
    Json,
    KnownCheckpoint,
    on_segment,
    with_output,
)
from stateward.integrations.langgraph.serializer import to_json
from stateward.integrations.langgraph.waiting_writes import TaskOutput, WaitingOutput
from stateward.integrations.turns import AgentRun, Turns
from stateward.ops import (
    Acquire,
    Applied,
    Check,
    Commit,
    Conflict,
    Delete,
    DocumentAt,
    Duplicate,
    Fenced,
    Head,
    Held,
    Lease,
    NotDroppedSince,
    Put,
    Release,
    SetHead,
    Value,
    Write,
)
from stateward.state.refusals import stored
from stateward.world import World

FULL = 4_000  # bytes of a segment that gets nothing more
ENOUGH = 1_000  # bytes of a segment that gets no other run
TRIES = 10
LOST = "the next one was not stored"
ELSEWHERE = ("id", "channel_versions", "channel_values")  # not in `CheckpointRecord.checkpoint`
TRIGGERS = ("branch:to:", "join:", "__start__", "__pregel_tasks")  # channels that start nodes

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
        known = yield from _learn(writer, thread, parent)
    before = None if known is None else known.record
    draft = Draft(writer.memory, thread, checkpoint["id"], serde)
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
        draft.parts,
    )
    fork = fork or metadata.get("source") == "fork"
    ends = metadata.get("source") != "input" and not any(map(_goes_on, record.values))
    turn = writer.turn_after(thread, run, ends=ends)
    waiting = writer.memory.waiting.begin(thread.place, record.id, parent)
    try:
        guard: Check | None = _head_check(writer, thread, known, fork)
        if known is None and parent is not None:
            guard = not_dropped(writer.memory, thread, parent, LOST)
        granted = yield from _commit(
            writer, thread, record, draft, known, metadata, turn, guard, fork, waiting
        )
    except StateConflictError:  # the run is over, and has given nothing back
        if not any(isinstance(each, Release) for each in turn):
            turn = writer.turn_after(thread, run, ends=True)
        if turn:
            yield (Commit(thread.entity, writer.world.new_op(), turn),)
        raise
    finally:
        writer.memory.waiting.end(thread.place, waiting)
    if run is not None and granted is not None:
        writer.turns.taken(thread.entity, run, *granted)
        if writer.turns.is_stopped(run):  # meanwhile
            release = writer.turn_after(thread, run, ends=True)
            yield (Commit(thread.entity, writer.world.new_op(), release),)


def _goes_on(channel: str) -> bool:
    """Whether a channel that has a value makes a node run next."""
    return channel.startswith(TRIGGERS)


def _learn(
    writer: CheckpointWriter, thread: GraphThread, parent: str
) -> Plan[KnownCheckpoint | None]:
    """The parent is not one that this process remembers: ask for it."""
    record = yield from find(thread, parent, writer.memory)
    return None if record is None else writer.memory.get(thread, parent)


def _commit(
    writer: CheckpointWriter,
    thread: GraphThread,
    record: CheckpointRecord,
    draft: Draft,
    known: KnownCheckpoint | None,
    metadata: Mapping[str, Any],
    turn: tuple[Acquire | Release, ...],
    guard: Check | None,
    fork: bool,
    waiting: Sequence[WaitingOutput],
) -> Plan[tuple[Lease, float] | None]:
    """Store it; gives the turn, if it was granted, and when it was asked for."""
    memory = writer.memory
    run = metadata.get("run_id")
    if isinstance(run, str) and run and run != _run(known):
        draft.puts[names.run(run)] = encode({"run_id": run}, "the run")
    if record.parent is None:  # all that the thread ever had may have gone
        memory.templates(thread).there.pop(thread.ns, None)
    # What came early moves to the segment.
    record.writes = memory.early(thread, record.id)
    early = {names.write(thread.ns, record.id, each.task, each.number) for each in record.writes}
    segment = memory.segment(thread)
    if segment is None or fork or not _has_room(segment, record, metadata):
        segment = CheckpointSegment(thread.ns, names.segment(record.id))
    after = _parent_check(memory, thread, known)
    along = _fitting([each.output for each in waiting], segment, record.id)
    tries = 0
    while True:
        tries += 1
        own = DocumentAt(names.checkpoints(thread.ns) + segment.first, segment.version)
        parent = after if after is not None and after.name != own.name else None
        puts = dict(draft.puts)
        new = _drawn(memory, thread, record, segment, puts, along)
        puts[own.name] = new.text
        puts[thread.head] = encode(_head_of(record, new), "the head")
        check_commit(sum(map(len, puts.values())), writer.limits)
        writes: list[Write] = [Put(key, text) for key, text in puts.items()]
        writes += [Delete(name) for name in sorted(early)]
        writes.append(SetHead(retain=writer.retain or 0.0))  # a document alone does not restart it
        commit = Commit(
            thread.entity,
            writer.world.new_op(),
            (*writes, *turn),
            (
                *(check for check in (parent, own, guard) if check is not None),
                *(check for each in along for check in each.is_new()),
            ),
            owner=thread.owner,
            retain=writer.retain,
            reading=tuple(check.name for check in (parent, own) if check is not None),
        )
        memory.write(thread, new)
        asked = writer.world.monotonic()
        try:
            (outcome,) = yield (commit,)
        except BaseException:
            memory.close_segment(thread, own.name)
            raise
        if isinstance(outcome, Applied | Duplicate):
            break
        memory.close_segment(thread, own.name)
        if isinstance(outcome, Fenced):  # the turn was lost, and nobody has used that
            turn = ()
        elif not isinstance(outcome, Conflict) or tries == TRIES:
            break
        elif along:  # they may be what it was refused for
            along = []
        elif outcome.failed == own and segment.ids:  # somebody else has changed it
            segment = CheckpointSegment(thread.ns, names.segment(record.id))
        elif outcome.failed == own and own.name in outcome.values:
            now = outcome.values[own.name]
            segment = yield from _put_again(memory, thread, record, own.name, now)
        elif parent is not None and outcome.failed == parent and is_in(record.parent, outcome):
            after = DocumentAt(parent.name, outcome.values[parent.name].version)
        else:
            break
    if isinstance(outcome, Held):
        raise StateConflictError(
            f"another run has begun in the thread {thread.entity.id!r}; this checkpoint was not "
            "stored: invoke the graph again",
            expected=record.parent,
            current=None,
        )
    if isinstance(outcome, Conflict):
        memory.forget(thread, record.parent or "")
        dropped = isinstance(outcome.failed, NotDroppedSince)
        if record.parent is not None and (dropped or outcome.failed == parent):
            memory.was_gone(thread, record.parent)
        _refuse(thread, record, outcome)
    applied = stored(outcome, thread.entity)
    record.document, record.version = own.name, applied.documents[own.name]
    if record.version != new.version:
        memory.close_segment(thread, own.name)
    memory.relied_on(thread, new)
    for each in waiting:
        each.settle(each.output in along)
    memory.stored(thread, record, applied.documents[thread.head])
    for channel, (part, items) in draft.lists.items():
        memory.lists.put((thread.entity.id, thread.ns, channel), part, items)
    return None if applied.lease is None else (applied.lease, asked)


def _has_room(
    segment: CheckpointSegment, record: CheckpointRecord, metadata: Mapping[str, Any]
) -> bool:
    """Whether a checkpoint follows the last one of a segment, and the segment may grow."""
    most = ENOUGH if metadata.get("source") == "input" else FULL
    last = segment.ids[-1]
    # Whoever looks for a checkpoint looks in the last segment that is not named after it.
    follows = last == record.parent and names.segment(last) <= names.segment(record.id)
    return follows and len(segment.text) < most


def _fitting(
    waiting: Sequence[TaskOutput], segment: CheckpointSegment, id: str
) -> list[TaskOutput]:
    """What a checkpoint takes along: outputs of its own tasks, and of those before it there.

    Of a task that has written before only what is new is stored, by itself.
    """
    size, tasks, fitting = 0, set(segment.wrote), list[TaskOutput]()
    for each in waiting:
        has_place = each.id == id or each.id in segment.ids
        if has_place and (each.id, each.task) not in tasks and size + each.size <= LARGE:
            fitting.append(each)
            tasks.add((each.id, each.task))
            size += each.size
    return fitting


def _drawn(
    memory: CheckpointMemory,
    thread: GraphThread,
    record: CheckpointRecord,
    segment: CheckpointSegment,
    puts: dict[str, str],
    along: Sequence[TaskOutput],
) -> CheckpointSegment:
    """The segment with the checkpoint; templates that the thread lacks go into `puts`."""
    admitted = memory.templates(thread).admits(thread.ns, puts)
    for channel in record.parts:
        record.values[channel]["list"][3:] = [segment.first]
    new = segment
    for output in along:
        if output.id != record.id:
            new = with_output(new, output, admitted)
    new = on_segment(new, record, admitted)
    for output in along:
        if output.id == record.id:
            new = with_output(new, output, admitted)
    new.version = segment.version + 1
    return new


def _head_of(record: CheckpointRecord, segment: CheckpointSegment) -> Json:
    own = {"id": record.id}
    return own if segment.first == names.segment(record.id) else own | {"in": segment.first}


def _put_again(
    memory: CheckpointMemory,
    thread: GraphThread,
    record: CheckpointRecord,
    name: str,
    value: Value,
) -> Plan[CheckpointSegment]:
    """A segment that began with this very checkpoint, without it; its writes stay."""
    segment = CheckpointSegment(thread.ns, names.segment(record.id))
    known = memory.templates(thread)
    for other in (yield from records_in(thread, [(name, value)], memory)):
        if other.id == record.id:
            record.writes = [*other.writes, *record.writes]
        else:
            segment = on_segment(segment, other, lambda use: use.digest in known.there[thread.ns])
    segment.version = value.version
    return segment


def is_in(id: str | None, conflict: Conflict) -> bool:
    """Whether a checkpoint is still in the document whose version was another one."""
    assert isinstance(conflict.failed, DocumentAt)
    now = conflict.values.get(conflict.failed.name)
    return now is not None and id in ids_of(decode(now.json))


def _run(known: KnownCheckpoint | None) -> Any:
    """The run that put the parent: it is noted in the thread already."""
    metadata = None if known is None or known.record is None else known.record.metadata
    return metadata.get("run_id") if isinstance(metadata, dict) else None


def _parent_check(
    memory: CheckpointMemory, thread: GraphThread, known: KnownCheckpoint | None
) -> DocumentAt | None:
    """The parent is still there."""
    if known is None or known.record is None:
        return None
    return stands(memory, thread, known.record)


def stands(memory: CheckpointMemory, thread: GraphThread, record: CheckpointRecord) -> DocumentAt:
    """The document of a checkpoint is as this process takes it to be by then."""
    segment = memory.segment(thread)
    if segment is not None and names.checkpoints(thread.ns) + segment.first == record.document:
        return DocumentAt(record.document, segment.version)
    return DocumentAt(record.document, record.version)


def _head_check(
    writer: CheckpointWriter, thread: GraphThread, known: KnownCheckpoint | None, fork: bool
) -> DocumentAt | None:
    """Unless a fork is meant, nobody has continued the parent."""
    if known is None or fork or writer.on_conflict == "fork":
        return None
    # Without a guard it was not the newest when it was looked up: no version can be right.
    return DocumentAt(thread.head, -1 if known.guard is None else known.guard)


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
    raise gone(thread, record.parent, LOST)


def not_dropped(
    memory: CheckpointMemory, thread: GraphThread, id: str, lost: str
) -> NotDroppedSince:
    """For what belongs to a checkpoint that was just looked for, and is not there.

    It may be on its way, or never have been brought here; but what was dropped does not come back.
    """
    dropped = (memory.head(thread) or Head()).dropped
    made = names.ticks_of(id)
    if made is not None and names.time_of(made).timestamp() <= dropped:
        memory.was_gone(thread, id)
        raise gone(thread, id, lost)
    return NotDroppedSince(dropped + CLOCK)


def gone(thread: GraphThread, id: str | None, lost: str) -> StateConflictError:
    return StateConflictError(
        f"the checkpoint {id!r} of the thread {thread.entity.id!r} is gone: the thread was "
        f"deleted or pruned during this run; {lost}",
        expected=id,
        current=None,
    )
