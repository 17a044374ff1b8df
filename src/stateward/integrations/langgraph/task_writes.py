"""Storing what a task wrote: on the segment of its checkpoint, or by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from stateward.codec import check_commit, decode, encode
from stateward.integrations.bridge import CLOCK, Plan
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.kept.langgraph_segments import TaskWrite, use_of_writes, wrote
from stateward.integrations.langgraph.reads import fetched
from stateward.integrations.langgraph.records import GraphThread
from stateward.integrations.langgraph.serializer import to_json
from stateward.integrations.langgraph.writes import (
    FULL,
    LARGE,
    CheckpointWriter,
    gone,
    is_in,
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
    plain = [(channel, to_json(value, serde)) for channel, value in writes]
    for index, (channel, value) in enumerate(plain):
        number = WRITES_IDX_MAP.get(channel, index)
        name = names.write(thread.ns, id, task, number)
        text = encode({"task": task, "path": path, "channel": channel, "value": value}, "the state")
        size += len(text)
        puts[name] = Put(name, text)
        if number >= 0:
            firsts.append(name)
    check_commit(size, writer.limits)
    if len(firsts) == len(writes) and (
        yield from _on_segment(writer, thread, id, task, path, plain, size, firsts)
    ):
        return
    guard = yield from _still_there(writer, thread, id)
    if isinstance(guard, NotDroppedSince) and len(firsts) == len(writes) and size < LARGE:
        early = [TaskWrite(task, path, at, *each) for at, each in enumerate(plain)]
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
                raise gone(thread, id, "what a task wrote was not stored")
            now = outcome.values[guard.name]
            guard = DocumentAt(guard.name, now.version)
            if not wrote(decode(now.json), id, task):
                continue
            there |= set(firsts)
        # A retried or replayed task: what it stored the first time stays.
        puts = {name: put for name, put in puts.items() if name not in there or name not in firsts}
        firsts = [name for name in firsts if name not in there]


def _on_segment(
    writer: CheckpointWriter,
    thread: GraphThread,
    id: str,
    task: str,
    path: str,
    writes: Sequence[tuple[str, Any]],
    size: int,
    alone: Sequence[str],
) -> Plan[bool]:
    """Add what a task wrote to the segment of its checkpoint, if this process has that to itself.

    `alone` are the names of documents that these would be by themselves.
    """
    memory = writer.memory
    segment = memory.segment(thread)
    if segment is None or id not in segment.ids or len(segment.text) + size > FULL + LARGE:
        return False
    if (id, task) in segment.wrote:
        return True
    own = DocumentAt(names.checkpoints(thread.ns) + segment.first, segment.version)
    puts: dict[str, str] = {}
    use = use_of_writes(path, writes)
    known = memory.templates(thread).admits(thread.ns, puts)(use)
    new = segment.with_writes(id, task, use, known)
    new.version = segment.version + 1
    puts[own.name] = new.text
    commit = Commit(
        thread.entity,
        writer.world.new_op(),
        tuple(Put(name, text) for name, text in puts.items()),
        (own, *(DocumentAt(name, 0) for name in alone)),
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
        return False
    stored(outcome, thread.entity)
    memory.relied_on(thread, new)
    return True


def _still_there(writer: CheckpointWriter, thread: GraphThread, id: str) -> Plan[Check]:
    """The checkpoint that a task belongs to is there, or may still be on its way.

    LangGraph stores checkpoints in the background, so what a task wrote may come first. It must not
    bring back a thread that was deleted, or whose user was erased, since it was read here.
    """
    known = writer.memory.get(thread, id)
    if known is not None and known.record is not None:
        return stands(writer.memory, thread, known.record)
    head = writer.memory.head(thread)
    if head is None:
        (outcome,) = yield (thread.fetch(),)
        head = fetched(outcome, thread).head
    return NotDroppedSince(head.dropped + CLOCK)
