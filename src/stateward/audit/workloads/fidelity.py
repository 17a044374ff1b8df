"""Odd values under odd ids: written by two replicas, read by both, and by a third after a kill."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from stateward.audit.differences import FOREIGN, classify
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import odd_values
from stateward.audit.workloads.odd_values import Odd
from stateward.audit.workloads.trials import (
    LIMIT,
    Trials,
    difference,
    merged,
    message_difference,
    shown,
    within,
)
from stateward.audit.workloads.workload import Stage, Workload

COUNTS = (2, 3, 64, 100, 101, 1000, 1001)  # messages in one append
BUDGET = 30.0  # seconds for each of writing and reading: a slow memory is tried with fewer values,
FEWEST = 3  # but with some of every kind
LARGE = 4000  # characters, about
EACH = 0.1  # seconds that a message of many in one append may take, besides what any call may
PATIENCE = 300.0
WRITERS = 2
NAMED = ("role", "content")  # fields that every message has


async def conduct(stage: Stage) -> None:
    (base,), seed = stage.names("fidelity", 1), stage.record.seed
    asked: dict[str, Any] = {"base": base, "seed": seed, "users": stage.provides("users")}
    # Where others' state may be, only ids that no one else uses.
    asked |= {"bare": stage.is_apart, "patience": PATIENCE}
    writers = await stage.fleet.start(WRITERS, fresh=True)
    written, checks = [], []
    for who, writer in enumerate(writers):
        answer = await writer.ask("fidelity:write", who=who, **asked)
        written += answer["written"]
        checks.append(answer["trials"])
    for who, writer in enumerate(writers):
        read_by = "another replica" if who == 0 else "the replicas that wrote"
        checks.append(await writer.ask("fidelity:read", written=written, by=read_by, **asked))
    for writer in writers:
        await writer.kill()
    (reader,) = await stage.fleet.start(fresh=True)
    by = "a new process after a kill"
    checks.append(await reader.ask("fidelity:read", written=written, by=by, **asked))
    await stage.fleet.end(reader)
    stage.record.fidelity = merged(*checks)


WORKLOAD = Workload("fidelity", "threads", "storing odd values under odd ids", conduct)


# --- in a replica -----------------------------------------------------------------------


class StoredSample(NamedTuple):
    """One sample to store: as the messages of a conversation, or as a user's state."""

    number: int
    promise: str
    label: str
    id: str
    messages: list[dict[str, Any]] | None
    value: dict[str, Any] | None
    extreme: bool
    updated: bool = False  # the user's state is written by an update


EverySample = tuple[str, int, bool, bool]  # arguments of `samples`


def samples(base: str, seed: int, users: bool, bare: bool) -> Iterator[StoredSample]:
    """Return all samples in the same order in every replica; those that take long come last."""
    rows: list[tuple[int, str, str, Odd, Any, Any]] = []
    for odd in odd_values.texts(seed):
        kind = "long texts" if len(odd.value) > 100 else "texts"
        messages = [{"role": "user", "content": odd.value}]
        rows.append((len(odd.value), kind, "", odd, messages, {"text": odd.value}))
    for odd in odd_values.values(seed):
        messages = [{"role": "user", "content": odd.label, "value": odd.value}]
        size = len(repr(odd.value))
        rows.append((size, "values", "", odd, messages, {"value": odd.value}))
        if isinstance(odd.value, dict):  # as their own fields, too
            fields = odd._replace(label=f"{odd.label}, as separate fields")
            own = {name: value for name, value in odd.value.items() if name not in NAMED}
            messages = [{"role": "user", "content": odd.label, **own}]
            rows.append((size, "values", "", fields, messages, odd.value))
    for odd in odd_values.ids(f"{base}-id", bare):
        messages = [{"role": "user", "content": odd.label}]
        rows.append((0, "ids", odd.value, odd, messages, {"label": odd.label}))
    whole = Odd("a conversation with tools, images and custom fields", None)
    rows.append((50, "roles and tool calls", "", whole, odd_values.conversation(), None))
    for count in COUNTS:
        many = [{"role": "user", "content": f"{n} of {count}"} for n in range(count)]
        label = Odd(f"{count:,} messages in one append", None)
        rows.append((count * 20, "many messages in one append", "", label, many, None))
    for number, (size, promise, id, odd, messages, value) in enumerate(sorted(rows, key=_size)):
        named = id or f"{base}-{number}"
        kind = f"extreme {promise}" if odd.extreme else promise
        yield StoredSample(4 * number, kind, odd.label, named, messages, None, odd.extreme)
        if not users or value is None:
            continue
        # By a put or by an update; what is large, by both.
        for way in (0, 1) if size > LARGE else (number % 2,):
            other = f"{named}-updated" if way and size > LARGE else named
            about = 4 * number + 1 + way, f"users' {kind}", odd.label, other
            yield StoredSample(*about, None, value, odd.extreme, updated=bool(way))


def _size(found: tuple[Any, ...]) -> int:
    return int(found[0])


class _Time:
    """Time budget of a slow memory: kinds of values hardly tried yet may exceed it."""

    def __init__(self) -> None:
        self._end = time.monotonic() + BUDGET
        self._tried: Counter[str] = Counter()

    def for_one(self, sample: StoredSample) -> bool:
        few = not sample.extreme and self._tried[sample.promise] < FEWEST
        if time.monotonic() > self._end and not few:
            return False
        self._tried[sample.promise] += 1
        return True


def _limit(sample: StoredSample) -> float:
    return LIMIT + EACH * len(sample.messages or ())


async def write(
    memory: Memory, tell: Any, who: int, base: str, seed: int, users: bool, bare: bool
) -> dict[str, Any]:
    """Write this replica's share of the samples, and read each of them in this replica."""
    trials, written, left = Trials(), [], _Time()
    for sample in samples(base, seed, users, bare):
        if (sample.number // 4) % WRITERS != who or not left.for_one(sample):
            continue
        try:
            await within(_store(memory, sample), _limit(sample))
        except Exception as error:
            if sample.extreme:
                trials.refuse(sample.promise, sample.label, error)
                await _nothing_is_left(memory, sample, trials)
            else:
                trials.differ(sample.promise, f"store {sample.label}", "stored", error)
            continue
        written.append(sample.number)
        every = (base, seed, users, bare)
        await _compare(memory, sample, trials, "the replica that wrote it", every)
    return {"written": written, "trials": trials.plain()}


async def _store(memory: Memory, sample: StoredSample) -> None:
    value = sample.value
    if sample.messages is not None:
        await memory.append(sample.id, sample.messages, f"fidelity/{sample.number}")
    elif sample.updated:
        await memory.call("update_user", sample.id, lambda _: value)
    elif value is not None:
        await memory.put_user(sample.id, value)


async def _nothing_is_left(memory: Memory, sample: StoredSample, trials: Trials) -> None:
    if sample.messages is None:
        return
    try:
        left = len(await within(memory.load(sample.id)))
    except Exception as error:
        trials.refuse("a refused write leaves nothing behind", sample.label, error)
        return
    trials.compare(
        "a refused write leaves nothing behind", f"append {sample.label}: refused", 0, left
    )


async def read(
    memory: Memory,
    tell: Any,
    written: list[int],
    by: str,
    base: str,
    seed: int,
    users: bool,
    bare: bool,
) -> list[dict[str, Any]]:
    trials, numbers, left = Trials(), set(written), _Time()
    for sample in samples(base, seed, users, bare):
        if sample.number in numbers and left.for_one(sample):
            await _compare(memory, sample, trials, by, (base, seed, users, bare))
    return trials.plain()


async def _compare(
    memory: Memory, sample: StoredSample, trials: Trials, by: str, every: EverySample
) -> None:
    case = f"{sample.label}, read by {by}"
    stored: Any
    expected = sample.value if sample.messages is None else sample.messages
    try:
        if sample.messages is not None:
            stored = await within(memory.load(sample.id), _limit(sample))
            differs = message_difference(sample.messages, stored)
        else:
            stored, _ = await within(memory.get_user(sample.id))
            differs = difference(sample.value, stored)
    except Exception as error:
        trials.differ(sample.promise, case, "what was stored", error)
        return
    if differs is None:
        trials.hold(sample.promise, True, case, "", "")
        return
    is_anothers = _is_anothers(sample, stored, _elsewhere(*every))
    kind = FOREIGN if is_anothers else classify(expected, stored)
    where, one, other = differs
    trials.differ(sample.promise, f"{case}, at {where or 'the value'}", *shown(one, other), kind)


def _is_anothers(sample: StoredSample, stored: Any, elsewhere: dict[str, int]) -> bool:
    """Return True if a sample that is stored under another id came back."""
    for each in stored if isinstance(stored, list) else [stored]:
        number = elsewhere.get(_key(each), sample.number)
        if number // 4 != sample.number // 4:
            return True
    return False


@cache
def _elsewhere(base: str, seed: int, users: bool, bare: bool) -> dict[str, int]:
    """Return, by their text, the numbers of samples of which only one has that text."""
    numbers: dict[str, set[int]] = {}
    for sample in samples(base, seed, users, bare):
        for each in sample.messages or [sample.value or {}]:
            numbers.setdefault(_key(each), set()).add(sample.number)
    return {key: min(some) for key, some in numbers.items() if len({n // 4 for n in some}) == 1}


def _key(value: Any) -> str:
    if isinstance(value, dict) and "role" in value:
        value = {name: value.get(name) for name in (*NAMED, "value")}
    return json.dumps(value, sort_keys=True, default=repr)
