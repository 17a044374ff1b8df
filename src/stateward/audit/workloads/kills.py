"""Processes that are killed while they write: what they acknowledged must be there."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from stateward.audit.differences import MISSING, REORDERED, SPLIT, SURPLUS, class_of_work, classify
from stateward.audit.record import Check
from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import Stage, Workload
from stateward.pages.words import plural

WRITERS = 3  # concurrent ones in the process that is killed
THREADS = 2  # conversations to write to
PATIENCE = 30.0  # seconds for the first turns to be acknowledged
REFUSALS = 50  # errors on end: it takes no turn any more
RACED = ("acknowledged turns", "whole turns", "data stays readable", "redelivery after a kill")
NO_KILL = "the same without a kill"
ANYWAY = "one writer, without any kill"
KILLED = ", then kill the process"


async def conduct(stage: Stage) -> None:
    """Kill replicas; if something is lost, repeat without a kill to see if a race lost it.

    So that it is not counted here, one writes at a time in that case.
    """
    checks = await _series(stage, "kill", WRITERS, kill=True)
    if any(check.differing for check in checks):
        alike = await _series(stage, "alive", WRITERS, kill=False)
        raced = [check for check in alike if check.differing and check.promise in RACED]
        if raced:
            checks = await _series(stage, "alone", 1, kill=True)
            tried, lost = (sum(getattr(c, of) for c in raced) for of in ("tried", "differing"))
            checks.append(Check(NO_KILL, tried, lost))
        if any(check.differing for check in checks):
            checks = _not_blamed(checks, await _series(stage, "single", 1, kill=False))
    stage.record.kill_checks = checks


def _not_blamed(checks: list[Check], without: list[Check]) -> list[Check]:
    """Take away what one writer meets without any kill, too, and add that as a check of its own."""
    innocent = {check.promise: check.kinds for check in without if check.differing}
    blamed = []
    for check in checks:
        same = innocent.get(check.promise, {})
        kinds = {kind: count for kind, count in check.kinds.items() if kind not in same}
        examples = [each for each in check.examples if each.kind not in same]
        blamed.append(replace(check, differing=sum(kinds.values()), kinds=kinds, examples=examples))
    anyway = Trials()
    for check in without:
        if check.differing:
            same = msgspec.to_builtins(replace(check, promise=ANYWAY))
            for example in same["examples"]:
                example["done"] = example["done"].replace(KILLED, "")
            anyway.add(same)
    return [*blamed, *merged(anyway)]


async def _series(stage: Stage, what: str, writers: int, *, kill: bool) -> list[Check]:
    """Run one writing process after another, and look at what each left, killed or not."""
    threads, (user, counted, task) = stage.names(what, THREADS), stage.names(f"{what}-state", 3)
    chance = random.Random(stage.record.seed)
    parts = [part for part in ("users", "tasks", "keys") if stage.provides(part)]
    replicas = await stage.fleet.start(stage.sizes.kills, fresh=True)
    (reader,) = await stage.fleet.start()
    checks, acknowledged, updates = [], list[str](), [0, 0]
    for number, writer in enumerate(replicas):
        going = {"threads": threads, "user": user, "counted": counted, "task": f"{task}-{number}"}
        writing = writer.send(
            "kills:go_on", name=f"{number}", parts=parts, writers=writers, **going
        )
        trials = Trials()
        await _until_some_are_stored(writer, number, trials)
        if kill:
            if number % 2:
                await asyncio.sleep(chance.uniform(0.02, 0.25))
            await writer.kill()
        else:
            await writer.ask("kills:come_to_an_end")
            async with asyncio.timeout(PATIENCE):
                await writing
            await stage.fleet.end(writer)
        begun = [each["begun"] for each in writer.events if "begun" in each]
        acknowledged_now = [
            each["acknowledged"] for each in writer.events if "acknowledged" in each
        ]
        acknowledged += acknowledged_now
        updates[0] += _last(writer, "updated")
        updates[1] += 1 + sum(each.get("failed") == "put" for each in writer.events)
        checks += [
            trials.plain(),
            await reader.ask(
                "kills:look",
                acknowledged=acknowledged,
                unknown=[name for name in begun if name not in acknowledged_now],
                wrote=_last(writer, "wrote"),
                number=number,
                updates=updates,
                done=_last(writer, "done"),
                parts=parts,
                patience=120.0,
                **going,
            ),
        ]
    await stage.fleet.end(reader)
    return merged(*checks)


async def _until_some_are_stored(writer: Replica, number: int, trials: Trials) -> None:
    """Wait for a few turns, or for one if the memory is slow; refusals end the wait as well.

    A memory that stores no turn at all any more has failed.
    """
    wanted = 4 + 2 * number

    def are_enough(events: list[dict[str, Any]]) -> bool:
        stored = [place for place, each in enumerate(events) if "acknowledged" in each]
        since = events[stored[-1] :] if stored else events
        return len(stored) >= wanted or len(_refusals(since)) >= REFUSALS

    with suppress(TimeoutError):
        await writer.until(are_enough, PATIENCE)
    if any("acknowledged" in each for each in writer.events):
        return
    refusals = _refusals(writer.events)
    if not refusals:
        raise Failed(f"no turn was stored within {PATIENCE:g} s")
    if not number:
        raise Failed(f"no turn could be stored: {refusals[0]}")
    case = f"kill {plural(number, 'process', 'processes')} while they write, append in a new one"
    trials.differ("data stays readable", case, "stored", refusals[0])


def _refusals(events: list[dict[str, Any]]) -> list[str]:
    return [e["error"] for e in events if "failed" in e and e["failed"] != "put"]


def _last(writer: Replica, what: str) -> int:
    return max((each[what] for each in writer.events if what in each), default=0)


WORKLOAD = Workload("kills", "threads", "killing processes while they write", conduct)


# --- in a replica -----------------------------------------------------------------------


def turn(name: str) -> list[dict[str, Any]]:
    """Return a turn of one to eight messages, some of them long, chosen by the name."""
    chance = random.Random(name)
    count = chance.randint(1, 8)
    sizes = [chance.choice((50, 400, 20_000)) for _ in range(count)]
    return [
        {"role": "user", "content": f"{name} {part}/{count}", "text": f"{part}" * size}
        for part, size in enumerate(sizes)
    ]


_ended = asyncio.Event()


async def go_on(
    memory: Memory,
    tell: Any,
    threads: list[str],
    user: str,
    counted: str,
    task: str,
    name: str,
    parts: list[str],
    writers: int,
) -> None:
    """Write, and report each acknowledgement, until killed or called to end."""
    _ended.clear()

    async def append(who: int) -> None:
        number = 0
        while not _ended.is_set():
            place = number % len(threads)
            turn_name = f"{name}.{who}.{number}.{place}"
            tell(begun=turn_name)
            try:
                await memory.append(threads[place], turn(turn_name), turn_name)
                tell(acknowledged=turn_name)
            except Exception as error:
                tell(failed=turn_name, error=words(error))
                await asyncio.sleep(0.02)
            await asyncio.sleep(0)  # a memory that waits for nothing lets no one else run
            number += 1

    async def put() -> None:
        number = 0
        while not _ended.is_set():
            number += 1
            try:
                await memory.put_user(user, {"round": int(name), "number": number})
                tell(wrote=number)
                await memory.call("update_user", counted, _one_more)
                tell(updated=number)
            except Exception as error:
                tell(failed="put", error=words(error))
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.005)

    async def run() -> None:
        number = 0
        while not _ended.is_set():
            number += 1

            async def function(number: int = number) -> str:
                return f"{number}"

            await memory.call("run_once", f"{task}-{number}", function)
            tell(done=number)
            await asyncio.sleep(0.02)

    going = [append(who) for who in range(writers)]
    if "users" in parts:
        going.append(put())
    if "tasks" in parts:
        going.append(run())
    await asyncio.gather(*going, return_exceptions=True)


async def come_to_an_end(memory: Memory, tell: Any) -> None:
    _ended.set()


def _one_more(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "count": value.get("count", 0) + 1}


async def look(
    memory: Memory,
    tell: Any,
    threads: list[str],
    user: str,
    counted: str,
    task: str,
    acknowledged: list[str],
    unknown: list[str],
    wrote: int,
    number: int,
    updates: list[int],
    done: int,
    parts: list[str],
) -> list[dict[str, Any]]:
    trials = Trials()
    for place, thread in enumerate(threads):
        mine = [name for name in acknowledged if name.endswith(f".{place}")]
        open_ones = [name for name in unknown if name.endswith(f".{place}")]
        await _conversation(memory, trials, thread, mine, open_ones, "keys" in parts)
    if "users" in parts:
        await _documents(memory, trials, user, counted, wrote, number, updates)
    if "tasks" in parts and done:
        await _tasks(memory, trials, task, done)
    return trials.plain()


async def _stored(memory: Memory, trials: Trials, thread: str) -> list[str] | None:
    try:
        messages = await within(memory.load(thread), 60.0)
        for each in messages:
            part = str(each.get("content")).partition(" ")[2].partition("/")[0]
            text = each.get("text")
            if not isinstance(text, str) or text.replace(part, "") or not text:
                case = "kill a process while it writes, load the conversation"
                trials.differ("data stays readable", case, "whole messages", repr(each)[:200])
                return None
    except Exception as error:
        case = "kill a process while it writes, load the conversation"
        trials.differ("data stays readable", case, "the conversation", error)
        return None
    trials.hold("data stays readable", True, "", "", "")
    return [str(each.get("content")) for each in messages]


async def _conversation(
    memory: Memory,
    trials: Trials,
    thread: str,
    acknowledged: list[str],
    unknown: list[str],
    keys: bool,
) -> None:
    texts = await _stored(memory, trials, thread)
    if texts is None:
        return
    confirmed = set(acknowledged)
    for name, good, present, kind in _turns(texts, [*acknowledged, *unknown]):
        if name in confirmed:
            case = f"append {len(turn(name))} messages, acknowledged{KILLED}"
            trials.hold("acknowledged turns", good, case, "all of them, once", present, kind)
        else:
            case = f"kill a process while it appends {len(turn(name))} messages"
            good = good or present == NONE
            trials.hold("whole turns", good, case, "all of them, or none", present, kind)
    if not keys:
        return
    for name in unknown:  # like a client that got no answer
        try:
            await within(memory.append(thread, turn(name), name))
        except Exception as error:
            case = "redeliver a turn that a killed process had started to append"
            trials.differ("redelivery after a kill", case, "stored", error)
    texts = await _stored(memory, trials, thread)
    for _, good, present, kind in _turns(texts or [], unknown):
        case = "kill a process while it appends a turn, redeliver the turn with the same key"
        trials.hold("redelivery after a kill", good, case, "all of it, once", present, kind)


NONE = "none of them"


def _turns(texts: list[str], names: list[str]) -> list[tuple[str, bool, str, str]]:
    """Return of each turn its name, whether it is right, what is stored, and how that differs."""
    places: dict[str, list[int]] = {}
    for place, content in enumerate(texts):
        places.setdefault(content.partition(" ")[0], []).append(place)
    states = []
    for name in names:
        whole = [message["content"] for message in turn(name)]
        at = places.get(name, [])
        got = [texts[place] for place in at]
        good = got == whole and at == list(range(at[0], at[0] + len(at)))
        counts = Counter(got)
        short = f"{len(counts)} of {len(whole)} messages, {len(got)} in all"
        kind = SPLIT if got == whole else classify(whole, got)
        if kind == REORDERED:
            short += f", in the order {[each.partition(' ')[2] for each in got]}"
        states.append((name, good, NONE if not got else short, kind))
    return states


async def _documents(
    memory: Memory,
    trials: Trials,
    user: str,
    counted: str,
    wrote: int,
    number: int,
    updates: list[int],
) -> None:
    promise = "acknowledged users' state"
    try:
        value, _ = await within(memory.get_user(user))
        total, _ = await within(memory.get_user(counted))
    except Exception as error:
        case = "kill a process while it writes a user's state, read the state"
        trials.differ("data stays readable", case, "the state", error)
        return
    if wrote:
        case = f"put {{'round': {number}, 'number': {wrote}}}, acknowledged, then kill the process"
        got = value.get("number", -1) if value.get("round") == number else -1
        good = isinstance(got, int) and got >= wrote
        trials.hold(promise, good, case, f"number {wrote}, or a later one", f"{value}")
    least, most = updates[0], sum(updates)
    count = total.get("count", 0)
    good = isinstance(count, int) and least <= count <= most
    case = f"add one {least} times, acknowledged, in processes that are killed"
    kind = MISSING if not isinstance(count, int) or count < least else SURPLUS
    trials.hold(promise, good, case, f"{least} to {most}", f"{count}", kind)


async def _tasks(memory: Memory, trials: Trials, task: str, done: int) -> None:
    for number in range(max(1, done - 1), done + 1):
        ran: list[int] = []

        async def function(ran: list[int] = ran) -> str:
            ran.append(1)
            return "again"

        case = "run a task, acknowledged, kill the process, ask for it elsewhere"
        try:
            result = await within(memory.call("run_once", f"{task}-{number}", function), 30.0)
        except Exception as error:
            trials.differ("completed tasks", case, "its result", error)
            continue
        expected, kind = [f"{number}", 0], class_of_work(None, len(ran), 0)
        trials.compare("completed tasks", case, expected, [result, len(ran)], kind=kind)
