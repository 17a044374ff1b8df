"""Isolation of many concurrent users: no one gets another's state, also after errors."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import leftovers
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import Stage, Workload, until

PEOPLE = 6  # in each replica
ROUNDS = 6
WHOLE = "own writes complete"


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    parts = [part for part in ("users", "tasks", "workflows", "locks") if stage.provides(part)]
    people = stage.names("person", PEOPLE * len(replicas))
    checks = await stage.at_once(
        replicas, "isolation:crowd", people=people, users="users" in parts, patience=120.0
    )
    (one,) = stage.names("anything", 1)
    checks.append(await replicas[0].ask("isolation:kinds", id=one, parts=parts, patience=120.0))
    unknown, failing = stage.names("nobody", 6), stage.names("erring", 3)
    checks.append(await replicas[1].ask("isolation:defaults", ids=unknown, users="users" in parts))
    checks.append(await replicas[1].ask("isolation:errors", ids=failing, users="users" in parts))
    changed = stage.tenant()
    if changed is not None:
        checks.append(await _two_tenants(stage, replicas[0], changed, parts))
    checks.append(await leftovers.conduct(stage, replicas[0]))
    await stage.fleet.end(*replicas)
    stage.record.isolation = merged(*checks)


async def _two_tenants(
    stage: Stage, one: Replica, changed: dict[str, Any], parts: list[str]
) -> list[dict[str, Any]]:
    """Use the same ids for two tenants, and remove one of them in the end."""
    (other,) = await stage.fleet.start(fresh=True, **changed)
    (id,) = stage.names("of-a-tenant", 1)
    both = {"one": one, "other": other}
    for name, replica in both.items():
        await replica.ask("isolation:settle", id=id, name=name, parts=parts)
    checks = []
    for name, replica in both.items():
        asked: dict[str, Any] = {"id": id, "name": name, "parts": parts}
        checks += await replica.ask("isolation:at_home", done="two tenants use one id", **asked)
    await other.call("clean")
    asked = {"id": id, "name": "one", "parts": parts}
    checks += await one.ask("isolation:at_home", done="remove another tenant", **asked)
    await stage.fleet.end(other)
    return checks


WORKLOAD = Workload("isolation", "threads", "serving many users concurrently", conduct)


# --- in a replica -----------------------------------------------------------------------


async def crowd(
    memory: Memory, tell: Any, people: list[str], users: bool, who: int, begin: float
) -> list[dict[str, Any]]:
    trials = Trials()
    mine = people[who * PEOPLE : (who + 1) * PEOPLE]
    await until(begin)
    await asyncio.gather(*(_person(memory, trials, person, people, users) for person in mine))
    return trials.plain()


async def _person(
    memory: Memory, trials: Trials, person: str, people: list[str], users: bool
) -> None:
    for number in range(ROUNDS):
        other = people[(people.index(person) + 1 + number) % len(people)]
        try:
            if users:
                await within(memory.put_user(person, {"owner": person, "number": number}))
                value, _ = await within(memory.get_user(person))
                case = f"put the state of one of {len(people)} concurrent users, get it"
                own = value.get("owner", person) == person
                trials.hold("a user's own state", own, case, "their own", f"{value}")
                if own:
                    expected = {"owner": person, "number": number}
                    earlier = [{**expected, "number": each} for each in range(number)]
                    trials.compare(WHOLE, case, expected, value, earlier=earlier)
                others, _ = await within(memory.get_user(other))
                owner = others.get("owner", other)
                trials.compare("a user's own state", "get another's state", other, owner)
            text = f"{person} {number}"
            await within(memory.append(person, [message("user", text)], f"{number}"))
            there = contents(await within(memory.load(person, 3)))
            first = max(0, number - 2)
            expected_texts = [f"{person} {n}" for n in range(first, number + 1)]
            case = f"append to one of {len(people)} concurrent conversations, load it"
            if trials.compare("a conversation's own messages", case, [], _foreign(there, person)):
                trials.compare(WHOLE, case, expected_texts, there)
            wrong = _foreign(contents(await within(memory.load(other, 3))), other)
            case = "load another conversation at the same time"
            trials.compare("a conversation's own messages", case, [], wrong)
        except Exception as error:
            # A memory that is busy may say so; one that always does fails other questions.
            trials.refuse("a conversation's own messages", "busy", error)


def _foreign(texts: list[str], person: str) -> list[str]:
    """Return the texts of other people."""
    return [text for text in texts if not text.startswith(f"{person} ")]


async def defaults(memory: Memory, tell: Any, ids: list[str], users: bool) -> list[dict[str, Any]]:
    """Change the default values of one caller, and look at those of others."""
    trials = Trials()
    promise = "default values"
    for one, other in pairwise(ids):
        if users:
            first, _ = await within(memory.get_user(one))
            before = dict(first)
            first["leaked"] = one
            for id in (one, other):
                again, _ = await within(memory.get_user(id))
                case = "get a user that does not exist, change the result, get another one"
                trials.compare(promise, case, before, again)
        raw = await within(memory.call("load", one, None))
        if isinstance(raw, list):
            raw.append({"role": "user", "content": "leaked"})
        for id in (one, other):
            there = contents(await within(memory.load(id)))
            case = "load a conversation that does not exist, change the result, load another"
            trials.compare(promise, case, [], there)
    return trials.plain()


async def settle(memory: Memory, tell: Any, id: str, name: str, parts: list[str]) -> None:
    for number in range(2):
        text = message("user", f"{name} {number}")
        await within(memory.append(id, [text], f"{number}"))
    if "users" in parts:
        await within(memory.put_user(id, {"tenant": name}))
    await _worked(memory, id, name, parts)


async def _worked(memory: Memory, id: str, name: str, parts: list[str]) -> list[Any]:
    """Return the result of a task, which the first caller of a tenant decides."""

    async def function() -> str:
        return name

    return [await within(memory.call("run_once", id, function))] if "tasks" in parts else []


async def at_home(
    memory: Memory, tell: Any, id: str, name: str, parts: list[str], done: str
) -> list[dict[str, Any]]:
    trials, promise = Trials(), "separate tenants"
    with trials.expecting(promise, done, "its own data"):
        there = contents(await within(memory.load(id)))
        trials.compare(promise, f"{done}: messages", [f"{name} 0", f"{name} 1"], there)
        if "users" in parts:
            value, _ = await within(memory.get_user(id))
            trials.compare(promise, f"{done}: a user's state", {"tenant": name}, value)
        result = await _worked(memory, id, f"{name}, again", parts)
        trials.compare(promise, f"{done}: the result of a task", [name] * len(result), result)
    return trials.plain()


class _Odd:
    """Value that no store can serialise."""


async def errors(memory: Memory, tell: Any, ids: list[str], users: bool) -> list[dict[str, Any]]:
    """Check that a failing call leaves nothing, and that the next one works."""
    trials = Trials()
    thread, half, user = ids
    for number in range(3):
        for messages, place in (
            ([{"role": "user", "content": _Odd()}], thread),
            ([message("user", "good"), {"role": "user", "content": _Odd()}], half),
        ):
            failed = ""
            try:
                await within(memory.append(place, messages, f"odd/{number}"))
            except Exception as error:
                failed = words(error)
            if failed:
                case = f"append {len(messages)} messages of which one cannot be stored ({failed})"
                await _loads(memory, trials, place, case, [])
        case = "append after an append that failed"
        try:
            await within(memory.append(user, [message("user", f"{number}")], f"{number}"))
        except Exception as error:
            trials.differ("after an error", case, "stored", error)
            continue
        await _loads(memory, trials, user, case, [f"{n}" for n in range(number + 1)])
        if users:
            case = "put a user's state after a put that failed"
            try:
                await within(memory.put_user(user, {"value": _Odd()}))
            except Exception as error:
                tell(refused=words(error))
            with trials.expecting("after an error", case, "stored"):
                await within(memory.put_user(user, {"number": number}))
                value, _ = await within(memory.get_user(user))
                earlier = [{"number": each} for each in range(number)]
                trials.compare("after an error", case, {"number": number}, value, earlier=earlier)
    return trials.plain()


async def _loads(
    memory: Memory, trials: Trials, thread: str, case: str, expected: list[str]
) -> None:
    with trials.expecting("after an error", case, f"{expected}"):
        trials.compare(
            "after an error", case, expected, contents(await within(memory.load(thread)))
        )


async def kinds(memory: Memory, tell: Any, id: str, parts: list[str]) -> list[dict[str, Any]]:
    """Check that a conversation, a user, a task, a workflow and a lock may share an id."""
    trials = Trials()
    promise = "same id for several kinds"

    async def effect() -> str:
        return "task"

    async def step() -> str:
        return "step"

    async def all_of_them() -> dict[str, Any]:
        stored: dict[str, Any] = {"conversation": contents(await within(memory.load(id)))}
        if "users" in parts:
            stored["user"] = (await within(memory.get_user(id)))[0]
        if "tasks" in parts:
            stored["task"] = await within(memory.call("run_once", id, effect))
        return stored

    expected: dict[str, Any] = {"conversation": ["hello"]}
    with trials.expecting(promise, "use one id for everything", "each is separate"):
        if "users" in parts:
            await within(memory.put_user(id, {"a": 1}))
            expected["user"] = {"a": 1}
        if "tasks" in parts:
            await within(memory.call("run_once", id, effect))
            expected["task"] = "task"
        await within(memory.append(id, [message("user", "hello")], id))
        if "workflows" in parts:
            await within(memory.call("run_workflow", id, [("step", step)]), 30.0)
        if "locks" in parts:
            async with asyncio.timeout(30.0), memory.lock(id, 5.0):
                case = "hold the lock of a conversation whose id a user and a task also have"
                trials.compare(promise, case, expected, await all_of_them())
        case = "use one id for a conversation, a user, a task, etc."
        trials.compare(promise, case, expected, await all_of_them())
    return trials.plain()
