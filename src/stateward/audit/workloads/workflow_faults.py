"""Workflows driven again when finished, by two replicas, after an error, and after kills."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.trials import OnPurpose, Trials, merged, noted, words
from stateward.audit.workloads.workload import Stage, Workload

STEPS = ["reserve", "charge", "ship", "notify", "close"]
ALIKE = ["ship", "Ship", "ship ", "ship1", "ship10", "shipped", "ship/1", "é", "e", "1", "01"]
TAILS = ("0", "A", "a", " ", "/b", ":b", "_b", "-b", "é", "e", "x" * 100 + "1", "x" * 100 + "2")
SHARED = 5  # workflows that all replicas drive concurrently
TWICE = [("began", "charge"), ("began", "notify")]  # when two drivers are killed in turn
LEAST = 20.0  # seconds that a workflow of a killed driver is waited for, at least


class _After(NamedTuple):
    """How a workflow is looked at that was interrupted."""

    trials: Trials
    told: bool  # whether the memory gives results of workflows
    patience: float


async def conduct(stage: Stage) -> None:
    trials = Trials()
    replicas = await stage.fleet.start(3)
    dying = await stage.fleet.start(4, fresh=True)
    names = iter(stage.names("course", 8))
    patience = max(LEAST, stage.sizes.recovery)
    first = next(names)
    told = await _again(replicas, first, trials)
    after = _After(trials, told, patience)
    waiting = {
        "drive one from three replicas": _two_drivers(stage, replicas, trials),
        "drive one with a long step": _long_step(
            replicas, next(names), trials, stage.sizes.long_step
        ),
        "drive one whose step raises": _failing(replicas[1], replicas[2], next(names), after),
        "kill the driver in the first step": _killed(
            dying[:1], replicas[0], next(names), [("began", "reserve")], after
        ),
        "kill the driver after a step": _killed(
            dying[1:2], replicas[1], next(names), [("ended", "charge")], after
        ),
        "kill two drivers in turn": _killed(dying[2:], replicas[2], next(names), TWICE, after),
    }
    await asyncio.gather(
        *(
            noted(trials, "takeover by another replica", what, each)
            for what, each in waiting.items()
        )
    )
    await _later(replicas[1], first, trials)
    await stage.fleet.end(*replicas)
    stage.record.workflow_checks = merged(trials)


async def _driven(replica: Replica, id: str, patience: float, **how: Any) -> dict[str, Any]:
    try:
        said: dict[str, Any] = await replica.ask(
            "workflow_faults:drive", id=id, patience=patience, **how
        )
    except Failed as error:
        return {"result": None, "error": str(error)}
    return said


def _begun(id: str, *replicas: Replica) -> list[str]:
    """The steps that ran, in the order of their beginnings."""
    events = [each for replica in replicas for each in replica.events if each.get("course") == id]
    return [e["began"] for e in sorted(events, key=lambda e: e["at"]) if "began" in e]


def _course(id: str, *replicas: Replica) -> list[str]:
    """Beginnings and ends of steps."""
    events = [each for replica in replicas for each in replica.events if each.get("course") == id]
    return [
        f"{what} {each[what]}"
        for each in sorted(events, key=lambda e: e["at"])
        for what in ("began", "ended")
        if what in each
    ]


def _tells(result: Any) -> bool:
    """Whether what a workflow gives has the results of its steps."""
    said = json.dumps(result, default=str)
    return all(f"{step} done" in said for step in STEPS)


async def _again(replicas: list[Replica], id: str, trials: Trials) -> bool:
    """One that nothing happens to, and then is driven again; whether it tells its results."""
    one, other, _ = replicas
    first = await _driven(one, id, 60.0, seconds=0.01)
    done = "drive a workflow"
    found = first["error"] or str(_begun(id, one))
    trials.hold("steps run in order", found == str(STEPS), done, str(STEPS), found)
    course = [f"{what} {step}" for step in STEPS for what in ("began", "ended")]
    trials.compare("steps run in order", f"{done}: each step ends before the next begins", course,
                   _course(id, one))  # fmt: skip
    told = _tells(first["result"])
    for replica in (one, other):
        before = len(_begun(id, *replicas))
        again = await _driven(replica, id, 60.0)
        ran = _begun(id, *replicas)[before:]
        done = "drive a finished workflow again"
        trials.compare("finished workflows do not run again", done, [], ran)
        if told and not again["error"]:
            trials.hold("results of steps", _tells(again["result"]), f"{done}: its results",
                        str(first["result"]), str(again["result"]))  # fmt: skip
    for tail in (
        "0",
        "A",
        "a",
        " ",
        "/b",
        ":b",
        "_b",
        "-b",
        "é",
        "e",
        f"{'x' * 100}1",
        f"{'x' * 100}2",
    ):
        near = f"{id}{tail}"
        await _driven(other, near, 60.0)
        done = f"drive a workflow with the id of a finished one followed by {tail[-5:]!r}"
        trials.compare("steps run in order", done, STEPS, _begun(near, other))
    alike = f"{id}-alike"
    await _driven(other, alike, 60.0, steps=ALIKE)
    done = "drive a workflow whose steps have similar names"
    trials.compare("steps run in order", done, ALIKE, _begun(alike, other))
    return told


async def _later(replica: Replica, id: str, trials: Trials) -> None:
    """The first one, some seconds after it was done."""
    before = len(_begun(id, replica))
    await _driven(replica, id, 60.0)
    done = "drive a workflow that finished some seconds ago"
    trials.compare("finished workflows do not run again", done, [], _begun(id, replica)[before:])


async def _two_drivers(stage: Stage, replicas: list[Replica], trials: Trials) -> None:
    ids = stage.names("contended", SHARED)
    for id in ids:
        said = await asyncio.gather(
            *(_driven(replica, id, 60.0, seconds=0.03) for replica in replicas)
        )
        done = f"{len(replicas)} replicas drive one workflow concurrently"
        begun = _begun(id, *replicas)
        again = {step: count for step, count in Counter(begun).items() if count > 1}
        trials.hold("concurrent drivers", not again, done, "each step once", f"{begun}")
        completed = [each for each in said if not each["error"]]
        trials.hold("concurrent drivers", bool(completed), done, "one of them finishes it",
                    f"{[each['error'] for each in said]}")  # fmt: skip
        if completed and not again:
            trials.compare("concurrent drivers", f"{done}: in order", STEPS, begun)


async def _long_step(replicas: list[Replica], id: str, trials: Trials, seconds: float) -> None:
    one, *others = replicas
    how = {"slow": "charge", "seconds": seconds}
    first = asyncio.create_task(_driven(one, id, seconds + 60.0, **how))
    await one.until(lambda events: any(_is(e, id, "began", "charge") for e in events))
    said = await asyncio.gather(*(_driven(each, id, seconds + 60.0, **how) for each in others))
    said = [await first, *said]
    begun = _begun(id, *replicas)
    done = f"a step takes {seconds:g} s while two other replicas drive the workflow"
    again = {step: count for step, count in Counter(begun).items() if count > 1}
    trials.hold("long step", not again, done, "each step once", f"{begun}")
    trials.hold("long step", any(not each["error"] for each in said), done,
                "one of them finishes it", f"{[each['error'] for each in said]}")  # fmt: skip


def _met(id: str, what: str, step: str) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda events: any(_is(each, id, what, step) for each in events)


def _is(event: dict[str, Any], id: str, what: str, step: str) -> bool:
    return event.get("course") == id and event.get(what) == step


async def _failing(one: Replica, other: Replica, id: str, after: _After) -> None:
    trials = after.trials
    said = await _driven(one, id, after.patience, fail="ship")
    done = "drive a workflow whose third step raises"
    trials.hold("failed step not recorded as done", said["error"] is not None, done, "an error",
                f"no error; steps {_begun(id, one)}")  # fmt: skip
    before = _begun(id, one)
    trials.compare("failed step not recorded as done", f"{done}: steps", STEPS[:3], before)
    again = await _driven(other, id, after.patience)
    ran = _begun(id, other)
    # A memory may say that the workflow has failed, and that is all; else it must continue.
    good = ran == (STEPS[2:] if not again["error"] else ran[:0]) or ran == STEPS[2:]
    trials.hold("failed step not recorded as done", good, f"{done}, and again",
                f"an error, or {STEPS[2:]}",
                again["error"] or f"it ran {ran}")  # fmt: skip


async def _killed(
    dying: list[Replica],
    other: Replica,
    id: str,
    moments: list[tuple[str, str]],
    after: _After,
) -> None:
    for replica, (what, step) in zip(dying, moments, strict=True):
        # A driver that continues until the kill arrives would be further than is said.
        stop = step if what == "began" else STEPS[STEPS.index(step) + 1]
        how = {"stop": stop}
        replica.send("workflow_faults:drive", id=id, **how)
        await replica.until(_met(id, what, step), after.patience + 10.0)
        await replica.kill()
    what, step = moments[-1]
    left = STEPS[STEPS.index(step) :]
    done = f"kill the driver when the step {step!r} has {what}"
    if len(moments) > 1:
        done = f"kill the driver in the step {moments[0][1]!r}, the next one in {step!r}"
    await _finished(other, id, left, done, after, what == "ended")


async def _finished(
    replica: Replica,
    id: str,
    left: list[str],
    done: str,
    after: _After,
    perhaps: bool = False,
) -> None:
    """Another replica continues with what is left; `perhaps`: the first step of it may be done."""
    trials = after.trials
    said = await _driven(replica, id, after.patience)
    ran = _begun(id, replica)
    promise = "takeover by another replica"
    good = ran == left or (perhaps and ran == left[1:])
    if said["error"]:
        trials.differ(promise, done, f"another replica runs {left}", said["error"])
        return
    trials.hold(promise, good, done, f"another replica runs {left}", f"it ran {ran}")
    if after.told:
        trials.hold("results of steps", _tells(said["result"]), f"{done}: the results at the end",
                    "those of all steps", str(said["result"]))  # fmt: skip
    again = await _driven(replica, id, after.patience)
    if not again["error"]:
        trials.compare("finished workflows do not run again",
                       f"{done}, finish it, and drive it again", ran,
                       _begun(id, replica))  # fmt: skip


WORKLOAD = Workload(
    "workflow-faults",
    "workflows",
    "driving workflows from several replicas",
    conduct,
    checks="workflow_checks",
    timed=("concurrent drivers", "long step", "takeover by another replica"),
)


# --- in a replica -----------------------------------------------------------------------


async def drive(
    memory: Memory,
    tell: Any,
    id: str,
    stop: str | None = None,
    fail: str | None = None,
    slow: str | None = None,
    seconds: float = 0.0,
    steps: list[str] = STEPS,
) -> dict[str, Any]:
    def step(name: str) -> Any:
        async def effect() -> str:
            tell(began=name, course=id, at=time.monotonic())
            if name == stop:
                await asyncio.Event().wait()  # until it is killed
            if slow in (None, name):
                await asyncio.sleep(seconds)
            if name == fail:
                raise OnPurpose("on purpose")
            tell(ended=name, course=id, at=time.monotonic())
            return f"{name} done"

        return effect

    try:
        given = [(name, step(name)) for name in steps]
        return {"result": await memory.call("run_workflow", id, given), "error": None}
    except Exception as error:
        return {"result": None, "error": words(error)}
