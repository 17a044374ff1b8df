"""The last so many messages against the whole history, and who else sees what a caller changes."""

from __future__ import annotations

import time
from typing import Any

from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message, turn
from stateward.audit.workloads.trials import (
    Trials,
    merged,
    message_difference,
    shown,
    within,
    words,
)
from stateward.audit.workloads.workload import Stage, Workload

SHORT = 12  # messages
LONG = 1203
ROLES = "uaaauaauaaaauua"  # who speaks: windows of whole turns differ from those of messages
IN_TURN = 14  # turns of two replicas
AT_ONCE = 40  # messages an append of the long conversation
BUDGET = 15.0  # seconds for making it
PATIENCE = 300.0  # seconds for each of the looks at it


async def conduct(stage: Stage) -> None:
    one, other = await stage.fleet.start(2)
    short, pairs, long, unknown, roles = stage.names("window", 5)
    slow: dict[str, Any] = {"patience": PATIENCE}
    said = [
        await one.ask("windows:short_ones", thread=short, pairs=pairs, unknown=unknown, **slow),
        await other.ask("windows:looks", thread=short, turns=SHORT, parts=1, **slow),
        await other.ask("windows:looks", thread=pairs, turns=SHORT, parts=2, **slow),
        await one.ask("windows:several_roles", thread=roles, **slow),
    ]
    there = await one.ask("windows:lengthen", thread=long, count=LONG, **slow)
    asked = {"thread": long, "turns": there, "parts": 1, **slow}
    said += [await replica.ask("windows:looks", **asked) for replica in (one, other)]
    said.append(await _in_turn(stage, one, other))
    said.append(await _seen_at_once(one, other, long))
    await stage.fleet.end(one, other)
    stage.record.windows = merged(*said)


async def _in_turn(stage: Stage, one: Replica, other: Replica) -> list[dict[str, Any]]:
    """Two replicas that append one after the other, each when the other's is acknowledged."""
    trials, (thread,) = Trials(), stage.names("in-turn", 1)
    names = [f"{'one' if number % 2 else 'other'} {number}" for number in range(IN_TURN)]
    for number, name in enumerate(names):
        writer = one if number % 2 else other
        await writer.call("append", thread, [message("user", name)], name)
    for reader in (one, other):
        found = contents(await reader.call("load", thread))
        trials.compare("order of appends", "two replicas append in turn", names, found)
    return trials.plain()


async def _seen_at_once(one: Replica, other: Replica, thread: str) -> list[dict[str, Any]]:
    """What one replica appends to a long conversation, another sees that has read it before."""
    trials = Trials()
    for number, last in enumerate((1, 20, None, 1, 20)):
        name = f"newest {number}"
        await one.call("append", thread, [message("user", name)], name)
        found = contents(await other.call("load", thread, last))
        done = f"append to a long conversation, load(last={last}) in another replica"
        trials.compare("newest message", done, [name], found[-1:])
    return trials.plain()


WORKLOAD = Workload("windows", "threads", "reading windows of a conversation", conduct)


# --- in a replica -----------------------------------------------------------------------


def named(number: int) -> dict[str, Any]:
    return message("user", f"message {number}", number=number)


async def short_ones(
    memory: Memory, tell: Any, thread: str, pairs: str, unknown: str
) -> list[dict[str, Any]]:
    """One message a turn, and two, looked at after every append."""
    trials = Trials()
    for number in range(SHORT):
        await within(memory.append(thread, [named(number)], f"window/{number}"))
        await within(memory.append(pairs, turn(f"pair {number}"), f"window/{number}"))
        newest = await _loaded(memory, trials, "newest message", thread, 1)
        if newest is not None:
            _compare(trials, "newest message", f"append message {number}, load(last=1)",
                     [named(number)], newest)  # fmt: skip
    for last in (None, 1, 5):
        found = await _loaded(memory, trials, "unknown conversation", unknown, last)
        if found is not None:
            done = f"load(last={last}) of a conversation that was never written to"
            trials.compare("unknown conversation", done, 0, len(found))
    try:
        found = list(await within(memory.load(thread, 0)))
        trials.compare("load(last=0)", "load(last=0)", 0, len(found))
    except Exception as error:
        trials.refuse("load(last=0)", "load(last=0)", error)
    trials_of_looks = await looks(memory, tell, thread, SHORT, 1)
    for own in (thread, pairs):
        await _not_shared(memory, trials, own)
    return [*trials.plain(), *trials_of_looks, *(await looks(memory, tell, pairs, SHORT, 2))]


async def lengthen(memory: Memory, tell: Any, thread: str, count: int) -> int:
    """How many messages there are at the end."""
    end, there = time.monotonic() + BUDGET, 0
    while there < count and time.monotonic() < end:
        more = min(AT_ONCE, count - there)
        given = [named(number) for number in range(there, there + more)]
        await within(memory.append(thread, given, f"window/{there}"))
        there += more
    return there


async def looks(
    memory: Memory, tell: Any, thread: str, turns: int, parts: int
) -> list[dict[str, Any]]:
    """Every window of a short conversation, and those of a long one where limits usually are."""
    trials = Trials()
    whole = [named(number) for number in range(turns)]
    if parts == 2:
        whole = [each for number in range(turns) for each in turn(f"pair {number}")]
    total = len(whole)
    if total <= 50:
        lasts = [*range(parts, total + 2), total + 100]
    else:
        usual = (1, 2, 20, 49, 50, 51, 99, 100, 101, 127, 128, 199, 200, 201, 255, 256, 257, 399,
                 400, 401, 499, 500, 501, 511, 512, 513, 999, 1000, 1001, 1023, 1024, 1025,
                 1100)  # fmt: skip
        lasts = [last for last in usual if last < total]
        lasts += [total - 1, total, total + 1, 10 * total]
    long = "" if total <= 50 else " of a long conversation"
    everything = await _loaded(memory, trials, f"all messages{long}", thread, None)
    if everything is not None:
        done = f"load(last=None) of {total:,} messages"
        _compare(trials, f"all messages{long}", done, whole, everything)
    for last in lasts:
        promise = f"last K messages{long}"
        found = await _loaded(memory, trials, promise, thread, last)
        if found is None:
            continue
        done = f"load(last={last}) of {total:,} messages"
        # A window may be of whole turns: of those of two messages it may have one less.
        least = min(last, total) - (parts - 1)
        if parts > 1 and least <= len(found) <= min(last, total):
            _compare(trials, promise, done, whole[total - len(found) :], found)
        else:
            _compare(trials, promise, done, whole[-last:], found)
    return trials.plain()


def _permitted(whole: list[dict[str, Any]], last: int) -> list[list[dict[str, Any]]]:
    """The last so many; or as many turns as fit, of one that does not fit its question first."""
    asked = [at for at, each in enumerate(whole) if each["role"] == "user"]
    turns = [whole[at:] for at in asked if len(whole) - at <= last]
    begun = [whole[asked[-1]], *whole[len(whole) - last + 1 :]] if last > 1 else []
    return [whole[-last:], *(turns[:1] or [begun])]


async def several_roles(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    """One message an append, by two who do not take turns: what a window may begin with."""
    trials, promise = Trials(), "last K messages"
    names = {"u": "user", "a": "assistant"}
    whole = [message(names[who], f"{names[who]} {n}") for n, who in enumerate(ROLES)]
    for number, each in enumerate(whole):
        await within(memory.append(thread, [each], f"role/{number}"))
    for last in range(1, len(whole) + 2):
        found = await _loaded(memory, trials, promise, thread, last)
        if found is None:
            continue
        permitted = _permitted(whole, last)
        if all(message_difference(each, found) is not None for each in permitted):
            done = f"load(last={last}) of {[each['content'] for each in whole]}"
            _compare(trials, promise, done, permitted[0], found)
        else:
            trials.hold(promise, True, "", "", "")
    return trials.plain()


async def _loaded(
    memory: Memory, trials: Trials, promise: str, thread: str, last: int | None
) -> list[Any] | None:
    try:
        return list(await within(memory.load(thread, last)))
    except Exception as error:
        trials.differ(promise, f"load(last={last})", "messages", words(error))
        return None


def _compare(
    trials: Trials, promise: str, done: str, expected: list[Any], found: list[Any]
) -> None:
    differs = message_difference(expected, found)
    if differs is None:
        trials.hold(promise, True, done, "", "")
        return
    got = [each.get("content") if isinstance(each, dict) else each for each in found]
    meant = [each["content"] for each in expected]
    trials.differ(promise, done, _few(meant), _few(got) if meant != got else shown(*differs[1:])[1])


def _few(names: list[Any]) -> str:
    if len(names) <= 6:
        return f"{len(names)}: {names}"
    return f"{len(names):,}: {names[:2]} … {names[-3:]}"


async def _not_shared(memory: Memory, trials: Trials, thread: str) -> None:
    """Whoever changes what he was given changes nothing for others."""
    promise = "callers get their own copy"
    for last in (None, 3):
        first = await _loaded(memory, trials, promise, thread, last)
        if not first:
            continue
        expected = [dict(each) for each in first]
        first[0]["content"] = "changed by a caller"
        first.append({"role": "user", "content": "added by a caller"})
        raw = await within(memory.call("load", thread, last))
        if isinstance(raw, list):  # the very object that the memory gave
            raw.append({"role": "user", "content": "added by a caller"})
        again = await _loaded(memory, trials, promise, thread, last)
        if again is not None:
            done = f"load(last={last}), change the result, load(last={last}) again"
            _compare(trials, promise, done, expected, again)
