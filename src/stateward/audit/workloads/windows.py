"""The last so many messages against the whole history, and who else sees what a caller changes."""

from __future__ import annotations

import time
from typing import Any

from stateward.audit.differences import classify
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message, turn
from stateward.audit.workloads.trials import Trials, merged, message_difference, shown, within
from stateward.audit.workloads.workload import Stage, Workload

SHORT = 12  # messages
LONG = 1203
ROLES = "uaaauaauaaaauua"  # roles for which windows of turns and of messages differ
IN_TURN = 14  # turns of two replicas
AT_ONCE = 40  # messages an append of the long conversation
BUDGET = 15.0  # seconds for making it
PATIENCE = 300.0  # seconds for each of the looks at it


async def conduct(stage: Stage) -> None:
    one, other = await stage.fleet.start(2)
    short, pairs, long, unknown, roles = stage.names("window", 5)
    slow: dict[str, Any] = {"patience": PATIENCE}
    checks = [
        await one.ask("windows:short_ones", thread=short, pairs=pairs, unknown=unknown, **slow),
        await other.ask("windows:looks", thread=short, turns=SHORT, parts=1, **slow),
        await other.ask("windows:looks", thread=pairs, turns=SHORT, parts=2, **slow),
        await one.ask("windows:several_roles", thread=roles, **slow),
    ]
    there = await one.ask("windows:lengthen", thread=long, count=LONG, **slow)
    asked = {"thread": long, "turns": there, "parts": 1, **slow}
    checks += [await replica.ask("windows:looks", **asked) for replica in (one, other)]
    checks.append(await _in_turn(stage, one, other))
    checks.append(await _seen_at_once(one, other, long))
    await stage.fleet.end(one, other)
    stage.record.windows = merged(*checks)


async def _in_turn(stage: Stage, one: Replica, other: Replica) -> list[dict[str, Any]]:
    """Append from two replicas in turn, each after the other's append is acknowledged."""
    trials, (thread,) = Trials(), stage.names("in-turn", 1)
    names = [f"{'one' if number % 2 else 'other'} {number}" for number in range(IN_TURN)]
    for number, name in enumerate(names):
        writer = one if number % 2 else other
        await writer.call("append", thread, [message("user", name)], name)
    for reader in (one, other):
        texts = contents(await reader.call("load", thread))
        trials.compare("order of appends", "two replicas append in turn", names, texts)
    return trials.plain()


async def _seen_at_once(one: Replica, other: Replica, thread: str) -> list[dict[str, Any]]:
    """Append to a long conversation, and read it in a replica that had read it before."""
    trials = Trials()
    for number, last in enumerate((1, 20, None, 1, 20)):
        name = f"newest {number}"
        await one.call("append", thread, [message("user", name)], name)
        texts = contents(await other.call("load", thread, last))
        case = f"append to a long conversation, load(last={last}) in another replica"
        trials.compare("newest message", case, [name], texts[-1:])
    return trials.plain()


WORKLOAD = Workload("windows", "threads", "reading windows of a conversation", conduct)


# --- in a replica -----------------------------------------------------------------------


def named(number: int) -> dict[str, Any]:
    return message("user", f"message {number}", number=number)


async def short_ones(
    memory: Memory, tell: Any, thread: str, pairs: str, unknown: str
) -> list[dict[str, Any]]:
    """Check windows after every append, with turns of one message and of two."""
    trials = Trials()
    for number in range(SHORT):
        await within(memory.append(thread, [named(number)], f"window/{number}"))
        await within(memory.append(pairs, turn(f"pair {number}"), f"window/{number}"))
        newest = await _loaded(memory, trials, "newest message", thread, 1)
        if newest is not None:
            _compare(trials, "newest message", f"append message {number}, load(last=1)",
                     [named(number)], newest)  # fmt: skip
    for last in (None, 1, 5):
        window = await _loaded(memory, trials, "unknown conversation", unknown, last)
        if window is not None:
            case = f"load(last={last}) of a conversation that was never written to"
            trials.compare("unknown conversation", case, 0, len(window))
    try:
        window = list(await within(memory.load(thread, 0)))
        trials.compare("load(last=0)", "load(last=0)", 0, len(window))
    except Exception as error:
        trials.refuse("load(last=0)", "load(last=0)", error)
    trials_of_looks = await looks(memory, tell, thread, SHORT, 1)
    for own in (thread, pairs):
        await _not_shared(memory, trials, own)
    return [*trials.plain(), *trials_of_looks, *(await looks(memory, tell, pairs, SHORT, 2))]


async def lengthen(memory: Memory, tell: Any, thread: str, count: int) -> int:
    """Append until the thread has `count` messages or time is up; return the number."""
    end, there = time.monotonic() + BUDGET, 0
    while there < count and time.monotonic() < end:
        more = min(AT_ONCE, count - there)
        messages = [named(number) for number in range(there, there + more)]
        await within(memory.append(thread, messages, f"window/{there}"))
        there += more
    return there


async def looks(
    memory: Memory, tell: Any, thread: str, turns: int, parts: int
) -> list[dict[str, Any]]:
    """Check every window of a short conversation; of a long one, those near usual limits."""
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
        case = f"load(last=None) of {total:,} messages"
        _compare(trials, f"all messages{long}", case, whole, everything)
    for last in lasts:
        promise = f"last K messages{long}"
        window = await _loaded(memory, trials, promise, thread, last)
        if window is None:
            continue
        case = f"load(last={last}) of {total:,} messages"
        # A window may be of whole turns: of those of two messages it may have one less.
        least = min(last, total) - (parts - 1)
        if parts > 1 and least <= len(window) <= min(last, total):
            _compare(trials, promise, case, whole[total - len(window) :], window, whole)
        else:
            _compare(trials, promise, case, whole[-last:], window, whole)
    return trials.plain()


def _permitted(whole: list[dict[str, Any]], last: int) -> list[list[dict[str, Any]]]:
    """Return the last `last` messages, and the whole turns or the question and tail that fit."""
    asked = [at for at, each in enumerate(whole) if each["role"] == "user"]
    turns = [whole[at:] for at in asked if len(whole) - at <= last]
    begun = [whole[asked[-1]], *whole[len(whole) - last + 1 :]] if last > 1 else []
    return [whole[-last:], *(turns[:1] or [begun])]


async def several_roles(memory: Memory, tell: Any, thread: str) -> list[dict[str, Any]]:
    """Check where a window may begin, with two roles that do not take turns."""
    trials, promise = Trials(), "last K messages"
    names = {"u": "user", "a": "assistant"}
    whole = [message(names[who], f"{names[who]} {n}") for n, who in enumerate(ROLES)]
    for number, each in enumerate(whole):
        await within(memory.append(thread, [each], f"role/{number}"))
    for last in range(1, len(whole) + 2):
        window = await _loaded(memory, trials, promise, thread, last)
        if window is None:
            continue
        permitted = _permitted(whole, last)
        if all(message_difference(each, window) is not None for each in permitted):
            case = f"load(last={last}) of {[each['content'] for each in whole]}"
            _compare(trials, promise, case, permitted[0], window, whole)
        else:
            trials.hold(promise, True, "", "", "")
    return trials.plain()


async def _loaded(
    memory: Memory, trials: Trials, promise: str, thread: str, last: int | None
) -> list[Any] | None:
    try:
        return list(await within(memory.load(thread, last)))
    except Exception as error:
        trials.differ(promise, f"load(last={last})", "messages", error)
        return None


def _compare(
    trials: Trials,
    promise: str,
    case: str,
    expected: list[Any],
    window: list[Any],
    stored: list[Any] | None = None,
) -> None:
    """Compare a window by its messages, to which a memory may add fields."""
    differs = message_difference(expected, window)
    if differs is None:
        trials.hold(promise, True, case, "", "")
        return
    got = [each.get("content") if isinstance(each, dict) else each for each in window]
    meant = [each["content"] for each in expected]
    actual = _few(got) if meant != got else shown(*differs[1:])[1]
    trials.differ(
        promise, case, _few(meant), actual, classify(expected, window, stored=stored or ())
    )


def _few(names: list[Any]) -> str:
    if len(names) <= 6:
        return f"{len(names)}: {names}"
    return f"{len(names):,}: {names[:2]} … {names[-3:]}"


async def _not_shared(memory: Memory, trials: Trials, thread: str) -> None:
    """Change a result, and check that later results are unchanged."""
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
            case = f"load(last={last}), change the result, load(last={last}) again"
            _compare(trials, promise, case, expected, again)
