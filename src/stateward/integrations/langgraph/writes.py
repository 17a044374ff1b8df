"""Storing a checkpoint: one commit, in which a list that grew is stored by its new part.

The checkpoints of a run and the writes of its tasks share a segment, which has each text once.
This process assumes that its pending commits succeed; a commit is refused if the stored state
differs, and its contents are then stored by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from langgraph.checkpoint.serde.base import SerializerProtocol
from msgspec import Struct

from stateward.codec import Limits, check_commit, encode
from stateward.errors import StateConflictError
from stateward.integrations.bridge import Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import CheckpointSegment
from stateward.integrations.langgraph.checkpoint_draft import LARGE, Draft
from stateward.integrations.langgraph.guards import LOST, is_in, not_dropped, refuse_put, stands
from stateward.integrations.langgraph.reads import find, records_in
from stateward.integrations.langgraph.records import (
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

FULL = 4_000  # bytes from which on a segment is closed
ENOUGH = 1_000  # bytes from which on a segment is closed to another run
TRIES = 10
ELSEWHERE = ("id", "channel_versions", "channel_values")  # fields of `CheckpointRecord` itself
TRIGGERS = ("branch:to:", "join:", "__start__", "__pregel_tasks")  # channels that start nodes

OnConflict = Literal["raise", "fork"]
TurnWrites = tuple[Acquire | Release, ...]


class CheckpointWriter(Struct, frozen=True):
    """The settings of a saver that all its writes share."""

    memory: CheckpointMemory
    limits: Limits
    world: World
    on_conflict: OnConflict
    retain: float | None
    turns: Turns

    def turn_after(self, thread: GraphThread, run: AgentRun | None, *, ends: bool) -> TurnWrites:
        """Return the writes that begin or end a run's turn, to be joined to another commit."""
        if run is None or self.on_conflict == "fork" or thread.ns:
            return ()
        turn = self.turns.get(thread.entity, run)
        ends = ends or self.turns.is_stopped(run)
        if turn is not None:
            return (self.turns.end(turn).release,) if ends else ()
        if ends or self.turns.is_shared(thread.entity):
            return ()
        return (self.turns.acquire(thread.entity),)

    def commit(
        self,
        thread: GraphThread,
        writes: Iterable[Write],
        checks: Iterable[Check],
        reading: Iterable[str] = (),
    ) -> Commit:
        """Return a commit on a thread for its owner, kept as long as the saver says."""
        op, owner = self.world.new_op(), thread.owner
        return Commit(
            thread.entity, op, tuple(writes), tuple(checks), owner, self.retain, tuple(reading)
        )


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
    memory = writer.memory
    before = memory.get(thread, parent or "")
    if before is None and parent is not None and (yield from find(thread, parent, memory)):
        before = memory.get(thread, parent)
    draft = Draft(memory, thread, checkpoint["id"], serde)
    yield from draft.add_all(checkpoint, None if before is None else before.record, new_versions)
    rest = {key: value for key, value in checkpoint.items() if key not in ELSEWHERE}
    record = CheckpointRecord(
        checkpoint["id"],
        thread.ns,
        parent,
        dict(checkpoint["channel_versions"]),
        to_json(rest, serde),
        to_json(dict(metadata), serde),
        draft.values,
        draft.parts,
    )
    fork = fork or metadata.get("source") == "fork"
    ends = metadata.get("source") != "input" and not any(map(_goes_on, record.values))
    turn = writer.turn_after(thread, run, ends=ends)
    waiting = memory.waiting.begin(thread.place, record.id, parent)
    try:
        guard: Check | None = _head_check(writer, thread, before, fork)
        if before is None and parent is not None:
            guard = not_dropped(memory, thread, parent, LOST)
        commit = CheckpointCommit(writer, thread, record, draft, before, metadata, fork, waiting)
        granted = yield from commit.carry_out(turn, guard)
    except StateConflictError:  # the run is over, and has given nothing back
        if not any(isinstance(each, Release) for each in turn):
            turn = writer.turn_after(thread, run, ends=True)
        if turn:
            yield (Commit(thread.entity, writer.world.new_op(), turn),)
        raise
    finally:
        memory.waiting.end(thread.place, waiting)
    if run is not None and granted is not None:
        writer.turns.taken(thread.entity, run, *granted)
        if writer.turns.is_stopped(run):  # changed meanwhile
            release = writer.turn_after(thread, run, ends=True)
            yield (Commit(thread.entity, writer.world.new_op(), release),)


def _goes_on(channel: str) -> bool:
    """Return whether a channel with a value makes a node run next."""
    return channel.startswith(TRIGGERS)


class CheckpointCommit:
    """The commit of one checkpoint, tried again where its segment or parent has changed."""

    def __init__(
        self,
        writer: CheckpointWriter,
        thread: GraphThread,
        record: CheckpointRecord,
        draft: Draft,
        parent: KnownCheckpoint | None,
        metadata: Mapping[str, Any],
        fork: bool,
        waiting: Sequence[WaitingOutput],
    ) -> None:
        self._writer, self._memory, self._thread = writer, writer.memory, thread
        self._record, self._draft, self._waiting = record, draft, waiting
        run = metadata.get("run_id")
        if isinstance(run, str) and run and run != _run(parent):
            draft.puts[names.run(run)] = encode({"run_id": run}, "the run")
        if record.parent is None:  # everything in the thread may have been removed
            self._memory.templates(thread).there.pop(thread.ns, None)
        # Early writes move to the segment.
        record.writes = self._memory.early(thread, record.id)
        self._early = sorted(
            {names.write(thread.ns, record.id, each.task, each.number) for each in record.writes}
        )
        segment = self._memory.segment(thread)
        if segment is None or fork or not _has_room(segment, record, metadata):
            segment = self._new_segment()
        self._segment = segment
        stored_parent = None if parent is None else parent.record
        self._parent = stored_parent and stands(self._memory, thread, stored_parent)
        self._along = _fitting([each.output for each in waiting], segment, record.id)

    def carry_out(self, turn: TurnWrites, guard: Check | None) -> Plan[tuple[Lease, float] | None]:
        """Store the checkpoint; return a granted turn with the time of its request."""
        memory, thread, record = self._memory, self._thread, self._record
        tries = 0
        while True:
            tries += 1
            own = DocumentAt(
                names.checkpoints(thread.ns) + self._segment.first, self._segment.version
            )
            parent = self._parent if self._parent and self._parent.name != own.name else None
            segment, commit = self._next(own, parent, guard, turn)
            memory.write(thread, segment)
            requested_at = self._writer.world.monotonic()
            try:
                (outcome,) = yield (commit,)
            except BaseException:
                memory.close_segment(thread, own.name)
                raise
            if isinstance(outcome, Applied | Duplicate):
                break
            memory.close_segment(thread, own.name)
            if isinstance(outcome, Fenced):  # the turn was lost, and no other run has taken it
                turn = ()
            elif not isinstance(outcome, Conflict) or tries == TRIES:
                break
            elif self._along:  # the writes along may be the reason for the refusal
                self._along = []
            elif outcome.failed == own and self._segment.ids:  # changed by another process
                self._segment = self._new_segment()
            elif outcome.failed == own and own.name in outcome.values:
                self._segment = yield from self._put_again(own.name, outcome.values[own.name])
            elif parent and outcome.failed == parent and is_in(record.parent, outcome):
                self._parent = DocumentAt(parent.name, outcome.values[parent.name].version)
            else:
                break
        if isinstance(outcome, Held):
            raise StateConflictError(
                f"another run has begun in the thread {thread.entity.id!r}; this checkpoint was "
                "not stored: invoke the graph again",
                expected=record.parent,
                current=None,
            )
        if isinstance(outcome, Conflict):
            memory.forget(thread, record.parent or "")
            dropped = isinstance(outcome.failed, NotDroppedSince)
            if record.parent is not None and (dropped or outcome.failed == parent):
                memory.was_gone(thread, record.parent)
            refuse_put(thread, record, outcome)
        applied = stored(outcome, thread.entity)
        self._remember(applied, own.name, segment)
        return None if applied.lease is None else (applied.lease, requested_at)

    def _new_segment(self) -> CheckpointSegment:
        return CheckpointSegment(self._thread.ns, names.segment(self._record.id))

    def _next(
        self, own: DocumentAt, parent: DocumentAt | None, guard: Check | None, turn: TurnWrites
    ) -> tuple[CheckpointSegment, Commit]:
        """Return the segment with the checkpoint, and the commit that stores it."""
        puts = dict(self._draft.puts)
        segment = self._drawn(puts)
        puts[own.name] = segment.text
        puts[self._thread.head] = encode(_head_of(self._record, segment), "the head")
        check_commit(sum(map(len, puts.values())), self._writer.limits)
        writes: list[Write] = [Put(key, text) for key, text in puts.items()]
        writes += [Delete(name) for name in self._early]
        # A document alone does not restart the retention.
        writes.append(SetHead(retain=self._writer.retain or 0.0))
        documents = [check for check in (parent, own) if check is not None]
        checks: list[Check] = [*documents, *(() if guard is None else (guard,))]
        checks += [check for each in self._along for check in each.is_new()]
        reading = (check.name for check in documents)
        return segment, self._writer.commit(self._thread, (*writes, *turn), checks, reading)

    def _drawn(self, puts: dict[str, str]) -> CheckpointSegment:
        """Return the segment with the checkpoint; add templates that the thread lacks to `puts`."""
        record, segment = self._record, self._segment
        admitted = self._memory.templates(self._thread).admits(self._thread.ns, puts)
        for channel in record.parts:
            record.values[channel]["list"][3:] = [segment.first]
        for output in self._along:
            if output.id != record.id:
                segment = with_output(segment, output, admitted)
        segment = on_segment(segment, record, admitted)
        for output in self._along:
            if output.id == record.id:
                segment = with_output(segment, output, admitted)
        segment.version = self._segment.version + 1
        return segment

    def _put_again(self, name: str, value: Value) -> Plan[CheckpointSegment]:
        """Return the segment that began with this checkpoint, without it; keep its writes."""
        thread, record, segment = self._thread, self._record, self._new_segment()
        there = self._memory.templates(thread).there
        for other in (yield from records_in(thread, [(name, value)], self._memory)):
            if other.id == record.id:
                record.writes = [*other.writes, *record.writes]
            else:
                segment = on_segment(segment, other, lambda use: use.digest in there[thread.ns])
        segment.version = value.version
        return segment

    def _remember(self, applied: Applied, document: str, segment: CheckpointSegment) -> None:
        memory, thread, record = self._memory, self._thread, self._record
        record.document, record.version = document, applied.documents[document]
        if record.version != segment.version:
            memory.close_segment(thread, document)
        memory.relied_on(thread, segment)
        for each in self._waiting:
            each.settle(each.output in self._along)
        memory.stored(thread, record, applied.documents[thread.head])
        for channel, (part, items) in self._draft.lists.items():
            memory.lists.put((thread.entity.id, thread.ns, channel), part, items)


def _has_room(
    segment: CheckpointSegment, record: CheckpointRecord, metadata: Mapping[str, Any]
) -> bool:
    """Return whether a checkpoint follows the last one of a segment that may grow."""
    most = ENOUGH if metadata.get("source") == "input" else FULL
    last = segment.ids[-1]
    # A reader looks for a checkpoint in the last segment whose name is not after its id.
    follows = last == record.parent and names.segment(last) <= names.segment(record.id)
    return follows and len(segment.text) < most


def _fitting(
    waiting: Sequence[TaskOutput], segment: CheckpointSegment, id: str
) -> list[TaskOutput]:
    """Return the outputs to store with a checkpoint: its own, and those of others in its segment.

    New writes of a task that has written before are stored by themselves.
    """
    size, tasks, fitting = 0, set(segment.wrote), list[TaskOutput]()
    for each in waiting:
        has_place = each.id == id or each.id in segment.ids
        if has_place and (each.id, each.task) not in tasks and size + each.size <= LARGE:
            fitting.append(each)
            tasks.add((each.id, each.task))
            size += each.size
    return fitting


def _head_of(record: CheckpointRecord, segment: CheckpointSegment) -> Json:
    own = {"id": record.id}
    return own if segment.first == names.segment(record.id) else own | {"in": segment.first}


def _run(known: KnownCheckpoint | None) -> Any:
    """Return the run that put the parent, which the thread has noted already."""
    metadata = None if known is None or known.record is None else known.record.metadata
    return metadata.get("run_id") if isinstance(metadata, dict) else None


def _head_check(
    writer: CheckpointWriter, thread: GraphThread, known: KnownCheckpoint | None, fork: bool
) -> DocumentAt | None:
    """Return the check that no other run has continued the parent, unless a fork is meant."""
    if known is None or fork or writer.on_conflict == "fork":
        return None
    # Without a guard the parent was not the newest when read: no version can match.
    return DocumentAt(thread.head, -1 if known.guard is None else known.guard)
