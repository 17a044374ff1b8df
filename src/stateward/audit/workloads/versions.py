"""Writes with versions that are old, unknown, zero and current, alone and concurrently."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.targets.memory import Memory, VersionConflict
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import Stage, Workload, until

AT_ONCE = 3  # writes of one replica at the same moment
EVERY = 0.015  # seconds between two of those moments


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    said = [await _between(stage)]
    for who in range(2):
        users = stage.names(f"edge-{who}", 4)
        said.append(await replicas[who].ask("versions:edges", users=users))
    users = stage.names("raced", stage.sizes.version_races)
    known = await replicas[0].ask("versions:prepare", users=users)
    won = await stage.at_once(replicas, "versions:race", users=users, known=known)
    said.append(await replicas[-1].ask("versions:judge_race", users=users, won=won, known=known))
    await stage.fleet.end(*replicas)
    stage.record.version_checks = merged(*said)


async def _between(stage: Stage) -> list[dict[str, Any]]:
    """What one replica changes, another cannot overwrite by a version that it read before."""
    one, other = await stage.fleet.start(2)
    trials = Trials()
    for number, user in enumerate(stage.names("versioned", 4)):
        how = ("put_user", "update_user")[number % 2]
        await one.call("put_user", user, {"by": "first"})
        _, version = await one.call("get_user", user)
        await other.ask("versions:change", user=user, how=how)
        said = await one.ask("versions:put", user=user, value={"by": "late"}, expect=version)
        done = f"read a version, let another replica {how}, put with the version that was read"
        trials.compare("another replica's change is detected", done, "conflict", said)
        value, _ = await other.call("get_user", user)
        done = f"{done}: what is stored"
        trials.compare("another replica's change is detected", done, {"by": "other"}, value)
    await stage.fleet.end(one, other)
    return trials.plain()


WORKLOAD = Workload("versions", "versions", "writing with wrong versions", conduct)


# --- in a replica -----------------------------------------------------------------------


async def put(memory: Memory, tell: Any, user: str, value: Any, expect: int) -> str:
    """What came of it, in a word."""
    try:
        await within(memory.put_user(user, value, expect))
    except VersionConflict:
        return "conflict"
    except Exception as error:
        return words(error)
    return "stored"


async def change(memory: Memory, tell: Any, user: str, how: str) -> None:
    if how == "put_user":
        await within(memory.put_user(user, {"by": "other"}))
    else:
        await within(memory.call("update_user", user, lambda _: {"by": "other"}))


async def _told(memory: Memory, trials: Trials, user: str, expect: int, current: int) -> None:
    """Whether a conflict, where it tells versions, tells the right ones."""
    try:
        await within(memory.put_user(user, {"n": "wrong"}, expect))
    except VersionConflict as error:
        if error.current is not None and error.expected is not None:
            done = f"the versions in the conflict error for expect={expect} at version {current}"
            trials.compare(
                "versions are reported", done, [expect, current], [error.expected, error.current]
            )
    except Exception as error:
        trials.differ(
            "versions are reported", f"put with expect={expect}", "a conflict", words(error)
        )


async def edges(memory: Memory, tell: Any, users: list[str]) -> list[dict[str, Any]]:
    trials = Trials()
    for number, user in enumerate(users):
        _, unwritten = await within(memory.get_user(user))
        if isinstance(unwritten, int):
            if number == 0:
                said = await put(memory, tell, user, {"n": -1}, unwritten + 1)
                done = f"put with expect={unwritten + 1} where nothing is stored, at {unwritten}"
                trials.compare("future version refused", done, "conflict", said)
            said = await put(memory, tell, user, {"n": 0}, unwritten)
            done = f"put with expect={unwritten}, the version before anything is stored"
            trials.compare("current version accepted", done, "stored", said)
        # Every other one is large.
        more = {"filling": "x" * 20_000} if number % 2 else {}
        await within(memory.put_user(user, {"n": 1, **more}))
        _, first = await within(memory.get_user(user))
        told = await within(memory.put_user(user, {"n": 2, **more}))
        _, second = await within(memory.get_user(user))
        if not isinstance(first, int) or not isinstance(second, int):
            trials.differ(
                "versions are reported", "get_user", "a version", f"{first!r}, {second!r}"
            )
            continue
        trials.hold("a put increments the version", second > first, f"put at version {first}",
                    f"more than {first}", f"{second}")  # fmt: skip
        if told is not None:
            trials.compare(
                "versions are reported", "the version that put_user returned", second, told
            )
        await within(memory.call("update_user", user, lambda value: {**value, "n": 3}))
        _, third = await within(memory.get_user(user))
        trials.hold("an update increments the version", isinstance(third, int) and third > second,
                    f"update at version {second}", f"more than {second}", f"{third}")  # fmt: skip
        if not isinstance(third, int):
            continue
        wrong = {
            "old version refused": [second, first],
            "future version refused": [third + 1, third + 1000],
        }
        for promise, versions in wrong.items():
            for expect in versions:
                said = await put(memory, tell, user, {"n": "wrong", **more}, expect)
                done = f"put with expect={expect} at version {third}"
                trials.compare(promise, done, "conflict", said)
        said = await put(memory, tell, user, {"n": "wrong", **more}, 0)
        trials.compare(
            "expect=0 only creates", f"put with expect=0 at version {third}", "conflict", said
        )
        await _told(memory, trials, user, second, third)
        value, after = await within(memory.get_user(user))
        done = "what is stored after puts that were refused"
        trials.compare(
            "a refused put changes nothing", done, [{"n": 3, **more}, third], [value, after]
        )
        said = await put(memory, tell, user, {"n": 4, **more}, third)
        done = f"put with expect={third} at version {third}"
        trials.compare("current version accepted", done, "stored", said)
        value, after = await within(memory.get_user(user))
        trials.compare(
            "current version accepted", f"{done}: what is stored", {"n": 4, **more}, value
        )
        trials.hold("a put increments the version", isinstance(after, int) and after > third, done,
                    f"more than {third}", f"{after}")  # fmt: skip
    return trials.plain()


async def prepare(memory: Memory, tell: Any, users: list[str]) -> list[int]:
    """Every other one is not there yet, if that has a version, too."""
    versions = []
    for number, user in enumerate(users):
        if number % 2:
            _, version = await within(memory.get_user(user))
            if isinstance(version, int):
                versions.append(version)
                continue
        await within(memory.put_user(user, {"by": "nobody", "filling": "x" * 2000}))
        _, version = await within(memory.get_user(user))
        versions.append(version if isinstance(version, int) else 0)
    return versions


async def race(
    memory: Memory, tell: Any, users: list[str], known: list[int], who: int, begin: float
) -> list[list[str]]:
    """Who of this replica was told, by user, that it was stored."""
    won = []
    for number, user in enumerate(users):
        await until(begin + number * EVERY)
        names = [f"{who}.{each}" for each in range(AT_ONCE)]
        more = {"filling": "x" * 20_000} if number % 4 > 1 else {}
        calls = [put(memory, tell, user, {"by": name, **more}, known[number]) for name in names]
        said = await asyncio.gather(*calls)
        won.append([name for name, outcome in zip(names, said, strict=True) if outcome == "stored"])
    return won


async def judge_race(
    memory: Memory, tell: Any, users: list[str], won: list[list[list[str]]], known: list[int]
) -> list[dict[str, Any]]:
    trials = Trials()
    for number, user in enumerate(users):
        winners = [name for replica in won for name in replica[number]]
        done = f"{len(won)} replicas put concurrently, each with expect={known[number]}"
        if len(winners) < 2:  # none: all were told of a conflict or an error, which is honest
            trials.hold("one of several concurrent puts wins", True, done, "", "")
        else:
            trials.differ("one of several concurrent puts wins", done, "one is acknowledged",
                          f"{len(winners)} were: {winners}")  # fmt: skip
        if winners:
            value, _ = await within(memory.get_user(user))
            good = value.get("by") in winners
            trials.hold("one of several concurrent puts wins", good, f"{done}: what is stored",
                        f"{winners}",
                        f"{value}")  # fmt: skip
    return trials.plain()
