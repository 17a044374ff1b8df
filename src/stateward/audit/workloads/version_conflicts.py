"""Writes with versions that are old, unknown, zero and current, alone and concurrently."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.differences import ALTERED, ERROR, OWN, TOLD
from stateward.audit.targets.memory import Memory, VersionConflict
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import Stage, Workload, until

AT_ONCE = 3  # writes of one replica at the same moment
EVERY = 0.015  # seconds between two of those moments


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    checks = [await _between(stage)]
    for who in range(2):
        users = stage.names(f"edge-{who}", 4)
        checks.append(await replicas[who].ask("version_conflicts:edges", users=users))
    users = stage.names("raced", stage.sizes.version_races)
    versions = await replicas[0].ask("version_conflicts:prepare", users=users)
    won = await stage.at_once(replicas, "version_conflicts:race", users=users, known=versions)
    checks.append(
        await replicas[-1].ask("version_conflicts:judge_race", users=users, won=won, known=versions)
    )
    await stage.fleet.end(*replicas)
    stage.record.version_checks = merged(*checks)


async def _between(stage: Stage) -> list[dict[str, Any]]:
    """Let one replica put with a version that it read before another's change."""
    one, other = await stage.fleet.start(2)
    trials = Trials()
    for number, user in enumerate(stage.names("versioned", 4)):
        how = ("put_user", "update_user")[number % 2]
        await one.call("put_user", user, {"by": "first"})
        _, version = await one.call("get_user", user)
        await other.ask("version_conflicts:change", user=user, how=how)
        outcome = await one.ask(
            "version_conflicts:put", user=user, value={"by": "late"}, expect=version
        )
        case = f"read a version, let another replica {how}, put with the version that was read"
        value, _ = await other.call("get_user", user)
        promise, kind = "another replica's change is detected", _class(outcome, value, "by", "late")
        trials.compare(promise, case, "conflict", outcome, kind=kind)
        own = OWN if value.get("by") == "late" else None
        case = f"{case}: what is stored"
        trials.compare(promise, case, {"by": "other"}, value, kind=own)
    await stage.fleet.end(one, other)
    return trials.plain()


WORKLOAD = Workload("version-conflicts", "versions", "writing with wrong versions", conduct)


def _class(outcome: str, value: Any, name: str, written: Any) -> str:
    """Return the class of a put that should be refused: it is stored, or only said to be."""
    if outcome != "stored":
        return ERROR
    return OWN if value.get(name) == written else TOLD


# --- in a replica -----------------------------------------------------------------------


async def put(memory: Memory, tell: Any, user: str, value: Any, expect: int) -> str:
    """Put with a version, and return the outcome in a word."""
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


REPORTED = "versions are reported"
CURRENT = "current version accepted"
PUT, UPDATE = "a put increments the version", "an update increments the version"


async def edges(memory: Memory, tell: Any, users: list[str]) -> list[dict[str, Any]]:
    trials = Trials()
    for number, user in enumerate(users):
        await _unwritten(memory, trials, user, number == 0)
        # Every other one is large.
        more = {"filling": "x" * 20_000} if number % 2 else {}
        versions = await _counted(memory, trials, user, more)
        if versions is not None:
            await _refused(memory, trials, user, more, versions)
            await _current(memory, trials, user, more)
    return trials.plain()


async def _unwritten(memory: Memory, trials: Trials, user: str, future: bool) -> None:
    """Put a user that is not stored yet, if the memory has a version for such a user."""
    _, version = await within(memory.get_user(user))
    if not isinstance(version, int):
        return
    if future:
        outcome = await put(memory, None, user, {"n": -1}, version + 1)
        case = f"put with expect={version + 1} where nothing is stored, at {version}"
        value, version = await within(memory.get_user(user))
        kind = _class(outcome, value, "n", -1)
        trials.compare("future version refused", case, "conflict", outcome, kind=kind)
        if not isinstance(version, int):
            return
    outcome = await put(memory, None, user, {"n": 0}, version)
    case = f"put with expect={version}, the version before anything is stored"
    _accepted(trials, case, outcome)


def _accepted(trials: Trials, case: str, outcome: str) -> None:
    kind = OWN if outcome == "conflict" else ERROR
    trials.compare(CURRENT, case, "stored", outcome, kind=kind)


async def _counted(
    memory: Memory, trials: Trials, user: str, more: dict[str, Any]
) -> tuple[int, int, int] | None:
    """Return the versions after two puts and an update; None if they cannot be relied on."""
    await within(memory.put_user(user, {"n": 1, **more}))
    _, first = await within(memory.get_user(user))
    returned = await within(memory.put_user(user, {"n": 2, **more}))
    _, second = await within(memory.get_user(user))
    if not isinstance(first, int) or not isinstance(second, int):
        trials.differ(REPORTED, "get_user", "a version", f"{first!r}, {second!r}")
        return None
    case = f"put at version {first}"
    trials.hold(PUT, second > first, case, f"more than {first}", f"{second}")
    if returned is not None:
        trials.compare(REPORTED, "the version that put_user returned", second, returned)
    await within(memory.call("update_user", user, lambda value: {**value, "n": 3}))
    _, third = await within(memory.get_user(user))
    good, case = isinstance(third, int) and third > second, f"update at version {second}"
    trials.hold(UPDATE, good, case, f"more than {second}", f"{third}")
    return (first, second, third) if isinstance(third, int) else None


async def _refused(
    memory: Memory, trials: Trials, user: str, more: dict[str, Any], versions: tuple[int, int, int]
) -> None:
    """Put with versions that are not the current one."""
    first, second, third = versions
    for promise, expect in (
        ("old version refused", second),
        ("old version refused", first),
        ("future version refused", third + 1),
        ("future version refused", third + 1000),
        ("expect=0 only creates", 0),
    ):
        outcome = await put(memory, None, user, {"n": "wrong", **more}, expect)
        case = f"put with expect={expect} at version {third}"
        value, now = await within(memory.get_user(user))
        kind = _class(outcome, value, "n", "wrong")
        trials.compare(promise, case, "conflict", outcome, kind=kind)
        if outcome == "stored" or now != third:
            return  # the version is another one now, so what follows would prove nothing
    await _reported(memory, trials, user, second, third)
    value, after = await within(memory.get_user(user))
    case, expected = "what is stored after puts that were refused", [{"n": 3, **more}, third]
    trials.compare("a refused put changes nothing", case, expected, [value, after])


async def _reported(memory: Memory, trials: Trials, user: str, expect: int, current: int) -> None:
    """Check the versions in a conflict error, if it has any."""
    try:
        await within(memory.put_user(user, {"n": "wrong"}, expect))
    except VersionConflict as error:
        if error.current is not None and error.expected is not None:
            case = f"the versions in the conflict error for expect={expect} at version {current}"
            trials.compare(REPORTED, case, [expect, current], [error.expected, error.current])
    except Exception as error:
        trials.differ(REPORTED, f"put with expect={expect}", "a conflict", error)


async def _current(memory: Memory, trials: Trials, user: str, more: dict[str, Any]) -> None:
    """Put with the current version."""
    before, version = await within(memory.get_user(user))
    if not isinstance(version, int):
        return
    outcome = await put(memory, None, user, {"n": 4, **more}, version)
    case = f"put with expect={version} at version {version}"
    _accepted(trials, case, outcome)
    if outcome != "stored":
        return
    value, after = await within(memory.get_user(user))
    trials.compare(CURRENT, f"{case}: what is stored", {"n": 4, **more}, value, earlier=[before])
    good = isinstance(after, int) and after > version
    trials.hold(PUT, good, case, f"more than {version}", f"{after}")


async def prepare(memory: Memory, tell: Any, users: list[str]) -> list[int]:
    """Create users, half of them only if missing ones have no version; return the versions."""
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
    """Return, for each user, the writers of this replica whose put was acknowledged."""
    won = []
    for number, user in enumerate(users):
        await until(begin + number * EVERY)
        names = [f"{who}.{each}" for each in range(AT_ONCE)]
        more = {"filling": "x" * 20_000} if number % 4 > 1 else {}
        calls = [put(memory, tell, user, {"by": name, **more}, known[number]) for name in names]
        outcomes = await asyncio.gather(*calls)
        won.append(
            [name for name, outcome in zip(names, outcomes, strict=True) if outcome == "stored"]
        )
    return won


async def judge_race(
    memory: Memory, tell: Any, users: list[str], won: list[list[list[str]]], known: list[int]
) -> list[dict[str, Any]]:
    trials = Trials()
    for number, user in enumerate(users):
        winners = [name for replica in won for name in replica[number]]
        case = f"{len(won)} replicas put concurrently, each with expect={known[number]}"
        if len(winners) < 2:  # none: all got a conflict or an error, which is honest
            trials.hold("one of several concurrent puts wins", True, case, "", "")
        else:
            trials.differ("one of several concurrent puts wins", case, "one is acknowledged",
                          f"{len(winners)} were: {winners}")  # fmt: skip
        if winners:
            value, _ = await within(memory.get_user(user))
            good = value.get("by") in winners
            trials.hold("one of several concurrent puts wins", good, f"{case}: what is stored",
                        f"{winners}", f"{value}", ALTERED)  # fmt: skip
    return trials.plain()
