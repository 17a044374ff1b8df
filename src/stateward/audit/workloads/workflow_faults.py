"""Workflows driven again when finished, by two replicas, after an error, and after kills."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from typing import Any, NamedTuple

from stateward.audit.differences import AGAIN, ERROR, MISSING, NEVER, OWN, TOLD, class_of_work
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.trials import OnPurpose, Trials, merged, outcome, try_one
from stateward.audit.workloads.workload import Stage, Workload

STEPS = ["reserve", "charge", "ship", "notify", "close"]
ALIKE = ["ship", "Ship", "ship ", "ship1", "ship10", "shipped", "ship/1", "é", "e", "1", "01"]
TAILS = ("0", "A", "a", " ", "/b", ":b", "_b", "-b", "é", "e", "x" * 100 + "1", "x" * 100 + "2")
SHARED = 5  # workflows that all replicas drive concurrently
TWICE = [("began", "charge"), ("began", "notify")]  # when two drivers are killed in turn
DRIVE = "workflow_faults:drive"
LEAST = 20.0  # seconds that a workflow of a killed driver is waited for, at least


class _After(NamedTuple):
    """Settings for the look at a workflow after its interruption."""

    trials: Trials
    has_results: bool  # True if the memory gives results of workflows
    patience: float


async def conduct(stage: Stage) -> None:
    trials = Trials()
    replicas = await stage.fleet.start(3)
    dying = await stage.fleet.start(4, fresh=True)
    names = iter(stage.names("course", 8))
    patience = max(LEAST, stage.sizes.recovery)
    first = next(names)
    has_results = await _again(replicas, first, trials)
    after = _After(trials, has_results, patience)
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
            try_one(trials, "takeover by another replica", what, each)
            for what, each in waiting.items()
        )
    )
    await _later(replicas[1], first, trials)
    await stage.fleet.end(*replicas)
    stage.record.workflow_checks = merged(trials)


def _begun(id: str, *replicas: Replica) -> list[str]:
    """The steps that ran, in the order of their beginnings."""
    events = [each for replica in replicas for each in replica.events if each.get("course") == id]
    return [e["began"] for e in sorted(events, key=lambda e: e["at"]) if "began" in e]


def _course(id: str, *replicas: Replica) -> list[str]:
    """Return beginnings and ends of steps."""
    events = [each for replica in replicas for each in replica.events if each.get("course") == id]
    return [
        f"{what} {each[what]}"
        for each in sorted(events, key=lambda e: e["at"])
        for what in ("began", "ended")
        if what in each
    ]


def _tells(result: Any) -> bool:
    """Return True if the result of a workflow has the results of its steps."""
    text = json.dumps(result, default=str)
    return all(f"{step} done" in text for step in STEPS)


async def _again(replicas: list[Replica], id: str, trials: Trials) -> bool:
    """Drive an undisturbed workflow twice; return True if its result has those of its steps."""
    one, other, _ = replicas
    first = await one.attempt(DRIVE, id=id, patience=60.0, seconds=0.01)
    case = "drive a workflow"
    order = first["error"] or str(_begun(id, one))
    kind = class_of_work(first["error"], 0, 0) if first["error"] else OWN
    trials.hold("steps run in order", order == str(STEPS), case, str(STEPS), order, kind)
    course = [f"{what} {step}" for step in STEPS for what in ("began", "ended")]
    trials.compare("steps run in order", f"{case}: each step ends before the next begins", course,
                   _course(id, one))  # fmt: skip
    has_results = _tells(first["result"])
    for replica in (one, other):
        before = len(_begun(id, *replicas))
        again = await replica.attempt(DRIVE, id=id, patience=60.0)
        ran = _begun(id, *replicas)[before:]
        case = "drive a finished workflow again"
        trials.compare("finished workflows do not run again", case, [], ran)
        if has_results and not again["error"]:
            trials.hold("results of steps", _tells(again["result"]), f"{case}: its results",
                        str(first["result"]), str(again["result"]))  # fmt: skip
    for tail in TAILS:
        near = f"{id}{tail}"
        await other.attempt(DRIVE, id=near, patience=60.0)
        case = f"drive a workflow with the id of a finished one followed by {tail[-5:]!r}"
        trials.compare("steps run in order", case, STEPS, _begun(near, other))
    alike = f"{id}-alike"
    await other.attempt(DRIVE, id=alike, patience=60.0, steps=ALIKE)
    case = "drive a workflow whose steps have similar names"
    trials.compare("steps run in order", case, ALIKE, _begun(alike, other))
    return has_results


async def _later(replica: Replica, id: str, trials: Trials) -> None:
    """Ask for the first workflow again some seconds after its end."""
    before = len(_begun(id, replica))
    await replica.attempt(DRIVE, id=id, patience=60.0)
    case = "drive a workflow that finished some seconds ago"
    trials.compare("finished workflows do not run again", case, [], _begun(id, replica)[before:])


async def _two_drivers(stage: Stage, replicas: list[Replica], trials: Trials) -> None:
    ids = stage.names("contended", SHARED)
    for id in ids:
        answers = await asyncio.gather(
            *(replica.attempt(DRIVE, id=id, patience=60.0, seconds=0.03) for replica in replicas)
        )
        case = f"{len(replicas)} replicas drive one workflow concurrently"
        begun = _begun(id, *replicas)
        again = {step: count for step, count in Counter(begun).items() if count > 1}
        trials.hold("concurrent drivers", not again, case, "each step once", f"{begun}", AGAIN)
        completed = [each for each in answers if not each["error"]]
        trials.hold("concurrent drivers", bool(completed), case, "one of them finishes it",
                    f"{answers[0]['error']}", ERROR)  # fmt: skip
        if completed and not again:
            trials.compare("concurrent drivers", f"{case}: in order", STEPS, begun)


async def _long_step(replicas: list[Replica], id: str, trials: Trials, seconds: float) -> None:
    one, *others = replicas
    how = {"id": id, "slow": "charge", "seconds": seconds, "patience": seconds + 60.0}
    first = asyncio.create_task(one.attempt(DRIVE, **how))
    await one.until_event(course=id, began="charge")
    answers = await asyncio.gather(*(each.attempt(DRIVE, **how) for each in others))
    answers = [await first, *answers]
    begun = _begun(id, *replicas)
    case = f"a step takes {seconds:g} s while two other replicas drive the workflow"
    again = {step: count for step, count in Counter(begun).items() if count > 1}
    trials.hold("long step", not again, case, "each step once", f"{begun}", AGAIN)
    trials.hold("long step", any(not each["error"] for each in answers), case,
                "one of them finishes it", f"{answers[0]['error']}", ERROR)  # fmt: skip


async def _failing(one: Replica, other: Replica, id: str, after: _After) -> None:
    trials = after.trials
    answer = await one.attempt(DRIVE, id=id, patience=after.patience, fail="ship")
    case = "drive a workflow whose third step raises"
    trials.hold("failed step not recorded as done", answer["error"] is not None, case, "an error",
                f"no error; steps {_begun(id, one)}", TOLD)  # fmt: skip
    before = _begun(id, one)
    trials.compare("failed step not recorded as done", f"{case}: steps", STEPS[:3], before)
    again = await other.attempt(DRIVE, id=id, patience=after.patience)
    ran = _begun(id, other)
    # A memory may say that the workflow has failed, and that is all; else it must continue.
    good = ran == (STEPS[2:] if not again["error"] else ran[:0]) or ran == STEPS[2:]
    trials.hold("failed step not recorded as done", good, f"{case}, and again",
                f"an error, or {STEPS[2:]}",
                f"it ran {ran}, {again['error'] or 'and ended'}",
                AGAIN if set(ran) & set(STEPS[:2]) else NEVER)  # fmt: skip


async def _killed(
    dying: list[Replica], other: Replica, id: str, moments: list[tuple[str, str]], after: _After
) -> None:
    for replica, (what, step) in zip(dying, moments, strict=True):
        # A driver that continues until the kill arrives would be further than is said.
        stop = step if what == "began" else STEPS[STEPS.index(step) + 1]
        replica.send(DRIVE, id=id, stop=stop)
        await replica.until_event(after.patience + 10.0, course=id, **{what: step})
        await replica.kill()
    what, step = moments[-1]
    left = STEPS[STEPS.index(step) :]
    case = f"kill the driver when the step {step!r} has {what}"
    if len(moments) > 1:
        case = f"kill the driver in the step {moments[0][1]!r}, the next one in {step!r}"
    await _finished(other, id, left, case, after, what == "ended")


async def _finished(
    replica: Replica, id: str, left: list[str], case: str, after: _After, perhaps: bool = False
) -> None:
    """Finish the steps `left` in another replica; `perhaps`: the first may be done already."""
    trials = after.trials
    answer = await replica.attempt(DRIVE, id=id, patience=after.patience)
    ran = _begun(id, replica)
    promise = "takeover by another replica"
    good = ran == left or (perhaps and ran == left[1:])
    if answer["error"]:
        kind = class_of_work(answer["error"], 0, 0)
        trials.differ(promise, case, f"another replica runs {left}", answer["error"], kind)
        return
    kind = AGAIN if set(ran) - set(left) or len(ran) > len(left) else MISSING if ran else NEVER
    trials.hold(promise, good, case, f"another replica runs {left}", f"it ran {ran}", kind)
    if after.has_results:
        trials.hold("results of steps", _tells(answer["result"]), f"{case}: the results at the end",
                    "those of all steps", str(answer["result"]))  # fmt: skip
    again = await replica.attempt(DRIVE, id=id, patience=after.patience)
    if not again["error"]:
        trials.compare("finished workflows do not run again",
                       f"{case}, finish it, and drive it again", ran,
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

    functions = [(name, step(name)) for name in steps]
    return await outcome(memory.call("run_workflow", id, functions))
