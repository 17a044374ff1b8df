"""Storing what a task wrote: in the segment of its checkpoint, or by itself."""

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
from stateward.integrations.langgraph.reads import find, records_in
from stateward.integrations.langgraph.records import GraphThread, with_output
from stateward.integrations.langgraph.serializer import to_json
from stateward.integrations.langgraph.waiting_writes import TaskOutput
from stateward.integrations.langgraph.writes import (
    FULL,
    CheckpointWriter,
    gone,
    is_in,
    not_dropped,
    stands,
)
from stateward.integrations.turns import AgentRun
from stateward.ops import (
    Acquire,
    Check,
    Commit,
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
    """What a task wrote, as it is stored; refuses what cannot be."""
    plain = [(channel, to_json(value, serde)) for channel, value in writes]
    size = sum(len(_text(task, path, *each)) for each in plain)
    check_commit(size, writer.limits)
    special = any(channel in WRITES_IDX_MAP for channel, _ in writes)
    return TaskOutput(thread.ns, id, task, path, plain, size, special)


def put_writes(
    writer: CheckpointWriter,
    thread: GraphThread,
    output: TaskOutput,
    run: AgentRun | None = None,
) -> Plan[None]:
    """Pending writes of a task: the first of each number stays, special ones are replaced."""
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
        commit = Commit(
            thread.entity,
            writer.world.new_op(),
            (*puts.values(), *turn),
            (guard, *(DocumentAt(name, 0) for name in firsts)),
            owner=thread.owner,
            retain=writer.retain,
            reading=(*([guard.name] if isinstance(guard, DocumentAt) else []), *firsts),
        )
        (outcome,) = yield (commit,)
        if isinstance(outcome, Fenced):
            turn = ()
            continue
        if not isinstance(outcome, Conflict):
            stored(outcome, thread.entity)
            return
        there = set(outcome.values)
        if outcome.failed == guard:
            if not isinstance(guard, DocumentAt) or not is_in(id, outcome):
                raise gone(thread, id, LOST)
            now = outcome.values[guard.name]
            guard = DocumentAt(guard.name, now.version)
            records = yield from records_in(thread, [(guard.name, now)], writer.memory)
            numbers = [
                write.number
                for record in records
                for write in record.writes
                if record.id == id and write.task == task
            ]
            if not numbers:
                continue
            there |= {names.write(thread.ns, id, task, number) for number in numbers}
        # A retried or replayed task: what it stored the first time stays.
        puts = {name: put for name, put in puts.items() if name not in there or name not in firsts}
        firsts = [name for name in firsts if name not in there]


def _text(task: str, path: str, channel: str, value: Any) -> str:
    return encode({"task": task, "path": path, "channel": channel, "value": value}, "the state")


def _on_segment(writer: CheckpointWriter, thread: GraphThread, output: TaskOutput) -> Plan[int]:
    """Add an output to the segment of its checkpoint, if this process has that to itself.

    Gives how many of its writes are stored then: what the task wrote first stays.
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
    commit = Commit(
        thread.entity,
        writer.world.new_op(),
        tuple(Put(name, text) for name, text in puts.items()),
        (own, *output.is_new()),
        owner=thread.owner,
        retain=writer.retain,
    )
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
    """The checkpoint that a task belongs to is there, or may still be on its way.

    LangGraph stores checkpoints in the background, so what a task wrote may come first. It must not
    bring back a thread that was deleted, or whose user was erased, since it was read here.
    """
    known = writer.memory.get(thread, id)
    if known is not None and known.record is not None:
        return stands(writer.memory, thread, known.record)
    if writer.memory.is_gone(thread, id):
        raise gone(thread, id, LOST)
    head = writer.memory.head(thread)
    if head is not None:
        return NotDroppedSince(head.dropped + CLOCK)
    record = yield from find(thread, id, writer.memory)  # not read, or that is forgotten
    if record is not None:
        return stands(writer.memory, thread, record)
    return not_dropped(writer.memory, thread, id, LOST)
