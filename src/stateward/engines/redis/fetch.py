"""A fetch: its plan, its commands, and the answers as an outcome."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.keys import head_key, keys_of
from stateward.engines.redis.outcomes import (
    all_values,
    entries_of,
    head_for_backup,
    head_of,
    named_values,
)
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.scripts import FETCH
from stateward.engines.rules import changed_since
from stateward.errors import SchemaError
from stateward.ops import Entity, Fetch, Fetched, Head, Log, NotYours, Value

MOST = 1 << 50  # more entries than any log has; fits every number on the way


def fetch(op: Fetch, traits: Traits) -> Plan[Fetched | NotYours]:
    """Plan a fetch: by plain commands if they return all that is needed, or by `fetch.lua`."""
    keys = keys_of(op.entity)
    log = op.log
    tail = plain_tail(log)
    commands = plain_commands(op.entity, tail, op.documents, op.all_documents)
    if log is None or tail is not None:
        replies = (yield (PipelineStep(keys.head, commands, False, True, True),))[0]
        outcome = plain_outcome(op, tail, replies[1:], traits.now(replies[0]))
        if outcome is not None:
            return outcome
    assert log is not None
    commands[: 2 if tail else 1] = [_fetch_command(log, keys.own, traits.at())]
    replies = (yield (PipelineStep(keys.head, commands, False, True, True),))[0]
    head, exists = head_of(replies[1][0], traits.now(replies[0]))
    if not exists:
        return Fetched(head, reset=log.stamp is not None)
    if op.owner is not None and op.owner != head.owner:
        return NotYours()
    if replies[1][1] == 2:
        raise lost_entries(op.entity.kind, op.entity.id)
    return _with_script_log(head, log, replies[1], *_documents(op, replies))


def plain_commands(
    entity: Entity, tail: int | None, documents: tuple[str, ...], everything: bool
) -> list[Command]:
    """Return the commands for the head, the last entries (None, 0: none) and documents."""
    return [
        (word, head_key(entity) + ending, *rest)
        for word, ending, rest in _wanted(tail, documents, everything)
    ]


def packed_read(
    entity: Entity, tail: int | None, documents: tuple[str, ...], everything: bool
) -> tuple[bytes, int]:
    """Return the packed commands of a plain read, with the number of their replies."""
    head = head_key(entity)
    form, count = _packed_form(tail, documents, everything, len(head))
    return (form % ((head,) * count)).encode(), count


def _wanted(
    tail: int | None, documents: tuple[str, ...], everything: bool
) -> list[tuple[str, str, list[str]]]:
    """Commands, the endings of the keys that they are about, and their other words."""
    commands: list[tuple[str, str, list[str]]] = [("HGETALL", "", [])]
    if tail:
        commands.append(("LRANGE", ":log", [str(-tail), "-1"]))
    if everything:
        commands.append(("HGETALL", ":docs", []))
    elif documents:
        commands.append(("HMGET", ":docs", fields_of(documents)))
    return commands


@lru_cache(maxsize=256)
def _packed_form(
    tail: int | None, documents: tuple[str, ...], everything: bool, length: int
) -> tuple[str, int]:
    """Return packed commands for head names of this length, with the places of the name.

    What is asked of one conversation is asked of most, so the forms are kept and not the requests.
    """
    form: list[str] = []
    commands = _wanted(tail, documents, everything)
    for command, ending, rest in commands:
        form += [f"*{2 + len(rest)}", f"${len(command)}", command]
        form += [f"${length + len(ending)}", f"%s{ending}"]
        for word in rest:
            form += [f"${len(word.encode())}", word.replace("%", "%%")]
    return "\r\n".join([*form, ""]), len(commands)


def plain_outcome(
    op: Fetch, tail: int | None, replies: Sequence[Any], now: float
) -> Fetched | NotYours | None:
    """Read replies to plain commands; None if entries were removed: then a script looks."""
    head, exists = head_of(replies[0], now)
    log = op.log
    if not exists:
        return Fetched(head, reset=log is not None and log.stamp is not None)
    if op.owner is not None and op.owner != head.owner:
        return NotYours()
    documents, unchanged = _documents(op, replies)
    if log is None:
        return Fetched(head, documents=documents, unchanged=unchanged)
    stored = head.version - head.base
    if tail and head.live != stored:  # look for older ones
        return None
    bodies: list[bytes] = replies[1] if tail else []
    count = min(tail or 0, stored)
    if len(bodies) != count:
        raise lost_entries(op.entity.kind, op.entity.id)
    return Fetched(
        head,
        b"\n".join(bodies).decode(),
        count,
        head.version - count + 1 if count else 0,
        documents=documents,
        unchanged=unchanged,
        truncated=head.base > 0,
    )


def plain_tail(log: Log | None) -> int | None:
    """Return the number of last entries, if nothing else is asked for."""
    if log is None or log.last is None or log.after or log.details or log.whole:
        return None
    if log.upto is not None or log.stamp is not None:
        return None
    return min(log.last, MOST)


def _fetch_command(log: Log, keys: Sequence[str], clock: str) -> Command:
    return (
        "EVALSHA",
        FETCH.sha,
        5,
        *keys[:3],
        *keys[7:9],
        min(log.after, MOST),
        "" if log.upto is None else min(log.upto, MOST),
        "" if log.first is None else min(log.first, MOST),
        "" if log.last is None else min(log.last, MOST),
        "" if log.stamp is None else f"={log.stamp}",
        "2" if log.whole else "1" if log.details else "",
        clock,
    )


def fields_of(names: Sequence[str]) -> list[str]:
    """The fields of documents: their values and their metas."""
    return [field for name in names for field in (f"={name}", f"@{name}")]


def _documents(op: Fetch, replies: Sequence[Any]) -> tuple[dict[str, Value], tuple[str, ...]]:
    if op.all_documents:
        stored = all_values(replies[-1])
    elif op.documents:
        stored = named_values(op.documents, replies[-1])
    else:
        return {}, ()
    return changed_since(op, stored)


def _with_script_log(
    head: Head, log: Log, reply: Any, documents: dict[str, Value], unchanged: tuple[str, ...]
) -> Fetched:
    flat, reset, numbers, bodies, marks, *for_backup = reply
    if reset:
        return Fetched(head, reset=True)
    by_entry = log.details or log.whole
    return Fetched(
        head_for_backup(head, flat) if log.whole else head,
        "" if by_entry else b"\n".join(bodies).decode(),
        len(numbers),
        numbers[0] if numbers else 0,
        entries_of(numbers, bodies, marks, *for_backup) if by_entry else (),
        documents,
        unchanged,
        truncated=log.after < head.base,
    )


def lost_entries(kind: str, id: str) -> SchemaError:
    return SchemaError(
        f"the {kind} {id!r} has lost entries that its head still counts: the server has evicted "
        "keys. Set its maxmemory-policy to noeviction, and restore from a backup"
    )
