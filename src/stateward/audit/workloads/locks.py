"""Locks: one holder at a time, who lets go, is killed, or is paused and comes back too late."""

from __future__ import annotations

import asyncio
import signal
import time
from itertools import pairwise
from typing import Any

from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.trials import OnPurpose, Trials, merged, try_one, words
from stateward.audit.workloads.workload import Stage, Workload, until

ROUNDS = 6  # of holding a lock, for each of two callers per replica
HELD = 2.5  # seconds that one holds a lock without doing anything
LASTING = 3.0  # the ttl of that one
SHORT = 1.0  # the ttl of those who will not come back in time
TTL = 20.0  # for all other locks
SOON = 4.0  # seconds in which a lock that is free is got
AFTER_A_KILL = 8.0  # seconds in which that of a killed holder is
NEAR = ("A", "", "ab", "a ", "a/b", "a_b", "á")  # ends of ids similar to one with "a"
FENCED = 8  # conversations in which a former holder continues writing
WRITERS = 3  # concurrent ones in each of them
WRITING = 4.0  # seconds for which he does, at most


async def conduct(stage: Stage) -> None:
    trials = Trials()
    one, other, third = await stage.fleet.start(3)
    names = iter(stage.names("lock", 8))
    if await _let_go(one, other, next(names), trials):
        await _one_at_a_time(stage, [one, other, third], next(names), trials)
    killed, paused = await stage.fleet.start(2, fresh=True)
    waiting = {
        "held for its ttl": _as_long_as_asked(one, other, next(names), trials),
        "free after its holder is killed": _killed(killed, third, next(names), trials),
        "a former holder cannot release it": _paused(paused, one, third, next(names), trials),
    }
    await asyncio.gather(
        *(try_one(trials, promise, "take a lock", each) for promise, each in waiting.items())
    )
    checks = []
    if stage.provides("fences"):
        checks = await _fenced(stage, one, other, third)
    await stage.fleet.end(one, other, third)
    stage.record.lock_checks = merged(trials, checks)


async def _let_go(one: Replica, other: Replica, thread: str, trials: Trials) -> bool:
    """Check that a released lock is free immediately, even if an error released it."""
    good = True
    for fail in (False, True):
        how = "leave its block with an error" if fail else "leave its block"
        await one.ask("locks:hold", thread=thread, ttl=TTL, seconds=0.0, fail=fail)
        began = time.monotonic()
        taken = await _taken(other, thread, SOON)
        case = f"take a lock with a ttl of {TTL:g} s, {how}, take it in another replica"
        got = f"{taken['error']}, after {time.monotonic() - began:.1f} s"
        free = taken["entered"] is not None
        good &= trials.hold("free after release", free, case, f"taken within {SOON:g} s", got)
    return good


async def _taken(replica: Replica, thread: str, seconds: float, held: float = 0.0) -> Any:
    """Return when the lock was entered and left; `entered` is None if that took too long."""
    try:
        return await replica.ask(
            "locks:hold",
            thread=thread,
            ttl=TTL,
            seconds=held,
            within=seconds,
            patience=seconds + held + 10.0,
        )
    except Failed as error:
        return {"entered": None, "left": None, "error": str(error)}


async def _one_at_a_time(
    stage: Stage, replicas: list[Replica], thread: str, trials: Trials
) -> None:
    turns = await stage.at_once(replicas, "locks:take_turns", thread=thread, rounds=ROUNDS)
    spans = sorted(tuple(span) for spans in turns for span in spans)
    case = f"{len(replicas)} replicas take one lock, {len(spans)} times in all"
    if len(spans) < 2:
        trials.differ("one holder at a time", case, "each gets it in turn", f"{len(spans)} got it")
        return
    for (_, left, who), (entered, _, other) in pairwise(spans):
        early = (left - entered) * 1000
        trials.hold("one holder at a time", early <= 0, case,
                    "the next enters when the last has left",
                    f"caller {other} entered {early:.1f} ms before caller {who} left")  # fmt: skip


async def _as_long_as_asked(one: Replica, other: Replica, thread: str, trials: Trials) -> None:
    """Check that a lock lasts as asked for, while the locks of other conversations are free."""
    base, thread = thread, f"{thread}a"
    holding = one.send("locks:hold", thread=thread, ttl=LASTING, seconds=HELD)
    await one.until_event(held=thread)
    began = time.monotonic()
    for tail in NEAR:
        free = await _taken(other, f"{base}{tail}", HELD - 0.5)
        took = time.monotonic() - began
        case = f"take the lock of the conversation …{tail} while that of …a is held"
        good = free["entered"] is not None
        trials.hold("other conversations not blocked", good, case, "taken immediately",
                    f"{free['error']}, after {took:.1f} s")  # fmt: skip
        if not good:
            break
    second = await _taken(other, thread, TTL)
    first = await asyncio.wait_for(holding, TTL)
    if second["entered"] is None or first["entered"] is None:
        errors = f"{first['error']} {second['error']}"
        trials.differ("held for its ttl", f"hold a lock for {HELD} s", "then it is free", errors)
        return
    early = first["left"] - second["entered"]
    case = f"hold a lock with a ttl of {LASTING:g} s for {HELD:g} s"
    if first["left"] - first["asked"] > LASTING - 0.1:
        early = 0.0  # this machine was so busy that the time was up
    trials.hold("held for its ttl", early <= 0, case, "no other caller gets it earlier",
                f"another got it {early:.2f} s earlier")  # fmt: skip


async def _killed(killed: Replica, other: Replica, thread: str, trials: Trials) -> None:
    killed.send("locks:hold", thread=thread, ttl=SHORT, seconds=600.0)
    await killed.until_event(held=thread)
    await killed.kill()
    taken = await _taken(other, thread, AFTER_A_KILL)
    case = f"kill the holder of a lock with a ttl of {SHORT:g} s"
    trials.hold("free after its holder is killed", taken["entered"] is not None, case,
                f"another gets it within {AFTER_A_KILL:g} s", taken["error"])  # fmt: skip


async def _paused(
    paused: Replica, second: Replica, third: Replica, thread: str, trials: Trials
) -> None:
    """Let a paused holder release a lock that another has taken over in the meantime."""
    promise = "a former holder cannot release it"
    late = paused.send("locks:hold_until_told", thread=thread, ttl=SHORT)
    await paused.until_event(held=thread)
    paused.signal(signal.SIGSTOP)
    try:
        holding = second.send("locks:hold", thread=thread, ttl=TTL, seconds=2.5, within=SHORT + 7.0)
        try:
            await second.until_event(9.0, held=thread)
        except TimeoutError:
            # It does not expire while its process lives: then there is no former holder.
            trials.hold(promise, True, "", "", "")
            return
    finally:
        paused.send("locks:go", thread=thread)
        paused.signal(signal.SIGCONT)
    try:
        await asyncio.wait_for(late, 5.0)
    except (Failed, TimeoutError):
        pass  # told that it has lost the lock
    taken = await _taken(third, thread, TTL)
    held = await asyncio.wait_for(holding, TTL)
    if taken["entered"] is None or held["left"] is None:
        trials.hold(promise, True, "", "", "")
        return
    early = held["left"] - taken["entered"]
    case = f"pause a holder (ttl {SHORT:g} s), let another take the lock, resume the first"
    trials.hold(promise, early <= 0, case, "a third waits for the second",
                f"the third got it {early:.2f} s before the second left")  # fmt: skip
    await paused.kill()


async def _fenced(stage: Stage, old: Replica, new: Replica, reader: Replica) -> Any:
    threads = stage.names("fence", FENCED)
    writing = old.send("locks:keep_writing", threads=threads)
    await old.until(
        lambda events: {e.get("holds") or e.get("lost") for e in events} >= set(threads), 60.0
    )
    turns_before = await new.ask("locks:take_over", threads=threads, patience=60.0)
    await asyncio.wait_for(writing, 30.0)
    return await reader.ask("locks:in_order", threads=threads, seen=turns_before)


WORKLOAD = Workload(
    "locks",
    "locks",
    "taking locks, killing and pausing holders",
    conduct,
    checks="lock_checks",
    timed=(
        "held for its ttl",
        "free after release",
        "other conversations not blocked",
        "free after its holder is killed",
    ),
)


# --- in a replica -----------------------------------------------------------------------

_go: dict[str, asyncio.Event] = {}


async def hold(
    memory: Memory,
    tell: Any,
    thread: str,
    ttl: float,
    seconds: float,
    within: float = SOON,
    fail: bool = False,
) -> dict[str, Any]:
    """Return when the lock was entered and left. An immediate refusal is tried again."""
    holding: dict[str, Any] = {"entered": None, "left": None, "error": "the lock was not acquired"}
    holding["asked"] = time.monotonic()
    end = time.monotonic() + within

    async def once() -> None:
        async with memory.lock(thread, ttl):
            holding["entered"] = time.monotonic()
            tell(held=thread)
            await asyncio.sleep(seconds)
            holding["left"] = time.monotonic()
            if fail:
                raise OnPurpose

    while time.monotonic() < end and holding["entered"] is None:
        trying = asyncio.create_task(once())
        await _in_time(trying, holding, end)
        if not trying.done():
            trying.cancel()
        try:
            await trying
        except (asyncio.CancelledError, OnPurpose):
            pass
        except Exception as error:
            holding["error"] = words(error)
            await asyncio.sleep(0.05)
    return holding


async def _in_time(trying: asyncio.Task[None], said: dict[str, Any], end: float) -> None:
    """Wait until the task is done or, unless the lock is entered by then, until `end`."""
    while not trying.done() and (said["entered"] is not None or time.monotonic() < end):
        await asyncio.wait([trying], timeout=0.05)


async def hold_until_told(memory: Memory, tell: Any, thread: str, ttl: float) -> None:
    release = _go.setdefault(thread, asyncio.Event())
    async with memory.lock(thread, ttl):
        tell(held=thread)
        await release.wait()


async def go(memory: Memory, tell: Any, thread: str) -> None:
    _go.setdefault(thread, asyncio.Event()).set()


async def take_turns(
    memory: Memory, tell: Any, thread: str, rounds: int, who: int, begin: float
) -> list[tuple[float, float, str]]:
    spans: list[tuple[float, float, str]] = []
    end = begin + 20.0

    async def caller(name: str) -> None:
        for _ in range(rounds):
            turn = await hold(memory, _silent, thread, TTL, 0.01, within=end - time.monotonic())
            if turn["left"] is not None:
                spans.append((turn["entered"], turn["left"], name))

    await until(begin)
    await asyncio.gather(caller(f"{who}a"), caller(f"{who}b"))
    return spans


def _silent(**_: Any) -> None:
    pass


async def keep_writing(memory: Memory, tell: Any, threads: list[str]) -> None:
    """Write as the holder, for longer than the lock lasts, until refused."""

    async def one(thread: str) -> None:
        over = asyncio.Event()

        async def write(token: Any, who: int) -> None:
            number, end = 0, time.monotonic() + WRITING + 1.5
            while not over.is_set() and time.monotonic() < end:
                name = f"old {who}.{number}"
                number += 1
                try:
                    await memory.append_fenced(thread, [message("user", name)], name, token)
                except Exception:
                    over.set()

        writers: list[asyncio.Task[None]] = []
        try:
            async with memory.lock(thread, SHORT) as token:  # a busy store may refuse it
                tell(holds=thread)
                writers = [asyncio.create_task(write(token, who)) for who in range(WRITERS)]
                await asyncio.wait(writers, timeout=WRITING)
        except Exception as error:
            tell(lost=thread, error=words(error))
        if writers:
            await asyncio.wait(writers, timeout=10.0)

    await asyncio.gather(*(one(thread) for thread in threads))


async def take_over(memory: Memory, tell: Any, threads: list[str]) -> dict[str, int]:
    """Take over each lock, and return the number of turns in each conversation at that moment."""
    counts: dict[str, int] = {}

    async def one(thread: str) -> None:
        end = time.monotonic() + WRITING + 10.0
        while time.monotonic() < end:
            try:
                async with memory.lock(thread, TTL) as token:
                    counts[thread] = len(await memory.load(thread))
                    messages = [message("user", "new 0")]
                    await memory.append_fenced(thread, messages, "new 0", token)
                    await asyncio.sleep(0.3)
                    messages = [message("user", "new 1")]
                    await memory.append_fenced(thread, messages, "new 1", token)
                return
            except Exception as error:
                tell(not_yet=thread, error=words(error))
                await asyncio.sleep(0.05)

    await asyncio.gather(*(one(thread) for thread in threads))
    return counts


async def in_order(
    memory: Memory, tell: Any, threads: list[str], seen: dict[str, int]
) -> list[dict[str, Any]]:
    trials = Trials()
    promise = "a former holder's writes are refused"
    for thread in threads:
        texts = contents(await memory.load(thread))
        case = "a holder keeps writing with its fence while another takes the lock and writes"
        if "new 0" not in texts:
            trials.hold(promise, True, case, "", "")  # no takeover: nothing was stale
            continue
        since = min(seen.get(thread, len(texts)), texts.index("new 0"))
        late = [text for text in texts[since:] if text.startswith("old")]
        trials.hold(promise, not late, case, "no write by the first once the second has the lock",
                    f"{len(late)} after it: {texts[since:][:6]}")  # fmt: skip
    return trials.plain()
