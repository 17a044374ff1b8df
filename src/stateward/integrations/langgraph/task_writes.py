"""Storing the writes of a task, in the segment of its checkpoint or by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from stateward.codec import check_commit, encode
from stateward.integrations.bridge import CLOCK, Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import TaskWrite
from stateward.integrations.langgraph.checkpoint_draft import LARGE
from stateward.integrations.langgraph.guards import gone, is_in, not_dropped, stands
from stateward.integrations.langgraph.reads import find, records_in
from stateward.integrations.langgraph.records import GraphThread, with_output
from stateward.integrations.langgraph.serializer import to_json
from stateward.integrations.langgraph.waiting_writes import TaskOutput
from stateward.integrations.langgraph.writes import FULL, CheckpointWriter
from stateward.integrations.turns import AgentRun
from stateward.ops import (
    Acquire,
    Check,
    Conflict,
    DocumentAt,
    Fenced,
    NotDroppedSince,
    Put,
    Release,
)
from stateward.state.refusals import stored

LOST = "what a task wrote was not stored"


def output_of(
    writer: CheckpointWriter,
    thread: GraphThread,
    id: str,
    writes: Sequence[tuple[str, Any]],
    task: str,
    path: str,
    serde: SerializerProtocol,
) -> TaskOutput:
    """Return the writes of a task in stored form; raises if a value cannot be stored."""
    plain = [(channel, to_json(value, serde)) for channel, value in writes]
    size = sum(len(_text(task, path, *each)) for each in plain)
    check_commit(size, writer.limits)
    special = any(channel in WRITES_IDX_MAP for channel, _ in writes)
    return TaskOutput(thread.ns, id, task, path, plain, size, special)


def put_writes(
    writer: CheckpointWriter, thread: GraphThread, output: TaskOutput, run: AgentRun | None = None
) -> Plan[None]:
    """Store a task's pending writes: the first of each number stays, special ones are replaced."""
    id, task, path = output.id, output.task, output.path
    turn: tuple[Acquire | Release, ...] = ()
    if run is not None and any(channel in (ERROR, INTERRUPT) for channel, _ in output.writes):
        writer.turns.stop(run)
        turn = writer.turn_after(thread, run, ends=True)
    done = 0 if output.special else (yield from _on_segment(writer, thread, output))
    if done >= len(output.writes):
        return
    puts: dict[str, Put] = {}
    firsts: list[str] = []
    for index, (channel, value) in enumerate(output.writes):
        number = WRITES_IDX_MAP.get(channel, index)
        if 0 <= number < done:
            continue
        name = names.write(thread.ns, id, task, number)
        puts[name] = Put(name, _text(task, path, channel, value))
        if number >= 0:
            firsts.append(name)
    guard = yield from _still_there(writer, thread, id)
    if isinstance(guard, NotDroppedSince) and not output.special and output.size < LARGE:
        early = [TaskWrite(task, path, at, *each) for at, each in enumerate(output.writes)]
        writer.memory.come_early(thread, id, early)
    while puts:
        checks = (guard, *(DocumentAt(name, 0) for name in firsts))
        reading = (check.name for check in checks if isinstance(check, DocumentAt))
        (outcome,) = yield (writer.commit(thread, (*puts.values(), *turn), checks, reading),)
        if isinstance(outcome, Fenced):
            turn = ()
            continue
        if not isinstance(outcome, Conflict):
            stored(outcome, thread.entity)
            return
        stored_names = set(outcome.values)
        if outcome.failed == guard:
            guard, numbers = yield from _after_change(writer, thread, output, guard, outcome)
            if not numbers:
                continue
            stored_names |= {names.write(thread.ns, id, task, number) for number in numbers}
        # The writes of a task stay as stored the first time when it is retried or replayed.
        again = stored_names.intersection(firsts)
        puts = {name: put for name, put in puts.items() if name not in again}
        firsts = [name for name in firsts if name not in again]


def _after_change(
    writer: CheckpointWriter,
    thread: GraphThread,
    output: TaskOutput,
    guard: Check,
    conflict: Conflict,
) -> Plan[tuple[Check, list[int]]]:
    """Return the check for a checkpoint's changed document, and the task's writes in it."""
    if not isinstance(guard, DocumentAt) or not is_in(output.id, conflict):
        raise gone(thread, output.id, LOST)
    now = conflict.values[guard.name]
    records = yield from records_in(thread, [(guard.name, now)], writer.memory)
    writes = [write for record in records if record.id == output.id for write in record.writes]
    numbers = [write.number for write in writes if write.task == output.task]
    return DocumentAt(guard.name, now.version), numbers


def _text(task: str, path: str, channel: str, value: Any) -> str:
    return encode({"task": task, "path": path, "channel": channel, "value": value}, "the state")


def _on_segment(writer: CheckpointWriter, thread: GraphThread, output: TaskOutput) -> Plan[int]:
    """Add an output to the segment of its checkpoint, if this process has that to itself.

    Returns the number of stored writes of the task; its first writes stay.
    """
    memory = writer.memory
    segment = memory.segment(thread)
    if segment is None or output.id not in segment.ids:
        return 0
    if done := segment.wrote.get((output.id, output.task)):
        return done
    if len(segment.text) + output.size > FULL + LARGE:
        return 0
    own = DocumentAt(names.checkpoints(thread.ns) + segment.first, segment.version)
    puts: dict[str, str] = {}
    new = with_output(segment, output, memory.templates(thread).admits(thread.ns, puts))
    new.version = segment.version + 1
    puts[own.name] = new.text
    writes = (Put(name, text) for name, text in puts.items())
    commit = writer.commit(thread, writes, (own, *output.is_new()))
    memory.write(thread, new)
    try:
        (outcome,) = yield (commit,)
    except BaseException:
        memory.close_segment(thread, own.name)
        raise
    if isinstance(outcome, Conflict):
        memory.close_segment(thread, own.name)
        return 0
    stored(outcome, thread.entity)
    memory.relied_on(thread, new)
    return len(output.writes)


def _still_there(writer: CheckpointWriter, thread: GraphThread, id: str) -> Plan[Check]:
    """Return the check that the checkpoint of a task exists, or may still arrive.

    LangGraph stores checkpoints in the background, so the writes of a task may come first.
    Those writes must not restore a thread that was dropped since it was read.
    """
    checkpoint = writer.memory.get(thread, id)
    if checkpoint is not None and checkpoint.record is not None:
        return stands(writer.memory, thread, checkpoint.record)
    if writer.memory.is_gone(thread, id):
        raise gone(thread, id, LOST)
    head = writer.memory.head(thread)
    if head is not None:
        return NotDroppedSince(head.dropped + CLOCK)
    record = yield from find(thread, id, writer.memory)  # the head was not read, or is forgotten
    if record is not None:
        return stands(writer.memory, thread, record)
    return not_dropped(writer.memory, thread, id, LOST)
