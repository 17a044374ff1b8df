"""Tools that act in the world, and processes that are killed or paused around the act."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from stateward.audit.replicas.fleet import Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.trials import OnPurpose, Trials, merged, noted, words
from stateward.audit.workloads.workload import Stage, Workload

LEAST = 20.0  # seconds that the work of a killed process is waited for, at least
ALIKE = ("a", "A", "a/b", "a/b/c", "a:b", "a b", "ab", "a1", "a11", "é", "e")
STEPS = ("pay", "Pay", "b", "b/c", "c", "pay1", "1")

ACTS = "every tool acts"
ONCE = "completed work is not repeated"
SAME = "same key for every attempt"
OTHER = "different keys for different actions"
TOLD = "repeated actions can be detected"


async def conduct(stage: Stage) -> None:
    trials = Trials()
    one, other = await stage.fleet.start(2)
    before, after, recorded, paused, flow = await stage.fleet.start(5, fresh=True)
    keys, patience = stage.provides("effects"), max(LEAST, stage.sizes.recovery)
    names = iter(stage.names("act", 8))
    looked = _Looked(trials, keys, patience)
    # Each of them waits for the work of a process that is gone, so they do it concurrently.
    waiting = {
        "kill the worker before its tool acts": _killed(looked, before, one, next(names), "began"),
        "kill it as soon as its tool has acted": _killed(looked, after, one, next(names), "acted"),
        "kill it when the task is done": _recorded(looked, recorded, one, next(names)),
        "pause it before its tool acts": _paused(looked, paused, other, next(names)),
        "let a tool act and raise": _raising(looked, one, other, next(names)),
    }
    if stage.provides("workflows"):
        waiting["kill the driver when the tool of a step has acted"] = _killed(
            looked, flow, other, next(names), "acted", step=True
        )
    await asyncio.gather(*(noted(trials, ACTS, what, each) for what, each in waiting.items()))
    said = []
    if keys:
        how = {"base": next(names), "workflows": stage.provides("workflows")}
        said.append(await other.ask("effects:keys", patience=120.0, **how))
    await flow.kill()
    await stage.fleet.end(one, other)
    stage.record.effects = merged(trials, *said)


class _Looked:
    """How it is looked at what a tool has done."""

    def __init__(self, trials: Trials, keys: bool, patience: float) -> None:
        self.trials = trials
        self.keys = keys  # whether the memory gives keys
        self.patience = patience

    def repeated(self, done: str, acts: list[str | None]) -> None:
        """It has acted, or acted again: then whoever was acted on must be able to tell."""
        self.trials.hold(ACTS, bool(acts), done, "the tool acts", "it never acted")
        if len(acts) < 2:
            return
        if self.keys:
            same = len(set(acts)) == 1 and acts[0] is not None
            self.trials.hold(SAME, same, done, "one key", f"the keys {acts}")
        else:
            self.trials.hold(TOLD, False, done, "the same key for every attempt",
                             f"it acts {len(acts)} times, undetectably")  # fmt: skip


def _acts(work: str, *replicas: Replica) -> list[str | None]:
    """The keys of what was done, in the order in which it was told."""
    return [e["key"] for each in replicas for e in each.events if e.get("acted") == work]


async def _asked(replica: Replica, work: str, patience: float, **how: Any) -> dict[str, Any]:
    try:
        said: dict[str, Any] = await replica.ask("effects:act", work=work, patience=patience, **how)
    except Failed as error:
        return {"result": None, "error": str(error)}
    return said


def _met(what: str, work: str) -> Any:
    return lambda events: any(each.get(what) == work for each in events)


async def _killed(
    looked: _Looked, dying: Replica, other: Replica, work: str, when: str, step: bool = False
) -> None:
    dying.send("effects:act", work=work, stop=when, step=step)
    await dying.until(_met(when, work))
    await dying.kill()
    said = await _asked(other, work, looked.patience, step=step)
    what = "the driver of a workflow" if step else "a worker"
    moment = "before its tool acts" if when == "began" else "as soon as its tool has acted"
    done = f"kill {what} {moment}, ask for the work in another replica"
    if said["error"]:
        # Told, and someone can look after it: that is not silence.
        told = "did not finish" not in said["error"]
        looked.trials.hold(ACTS, told, done, "it is done, or an error says so", said["error"])
        return
    acts = _acts(work, dying, other)
    looked.repeated(done, acts)
    if when == "began":
        looked.trials.compare(ACTS, f"{done}: acts", 1, len(acts))


async def _recorded(looked: _Looked, dying: Replica, other: Replica, work: str) -> None:
    first = await _asked(dying, work, looked.patience)
    await dying.kill()
    said = await _asked(other, work, looked.patience)
    done = "a tool acts, its task is acknowledged, kill the process, ask for it elsewhere"
    found = [first["error"], said["error"], len(_acts(work, dying, other))]
    looked.trials.compare(ONCE, done, [None, None, 1], found)


async def _paused(looked: _Looked, paused: Replica, other: Replica, work: str) -> None:
    """Another takes its work over; then it wakes, and its tool acts, too."""
    waking = paused.send("effects:act", work=work, wait=True)
    await paused.until(_met("began", work))
    paused.signal(signal.SIGSTOP)
    try:
        said = await _asked(other, work, looked.patience / 2)
    finally:
        paused.send("effects:go", work=work)
        paused.signal(signal.SIGCONT)
    try:
        await asyncio.wait_for(waking, 10.0)
    except (Failed, TimeoutError):
        pass  # told that it is too late
    done = "pause a worker before its tool acts, let another do the work, resume the first"
    if not said["error"]:  # else it is not taken over while its process lives
        looked.repeated(done, _acts(work, paused, other))
    await paused.kill()


async def _raising(looked: _Looked, one: Replica, other: Replica, work: str) -> None:
    await _asked(one, work, looked.patience, fail=True)
    said = await _asked(other, work, looked.patience)
    done = "a tool acts and raises, ask for its task again in another replica"
    if said["error"] is None:
        looked.repeated(done, _acts(work, one, other))


WORKLOAD = Workload(
    "effects",
    "tasks",
    "killing processes before and after tools act",
    conduct,
    checks="effects",
    timed=(ACTS,),
)


# --- in a replica -----------------------------------------------------------------------

_go: dict[str, asyncio.Event] = {}


async def go(memory: Memory, tell: Any, work: str) -> None:
    _go.setdefault(work, asyncio.Event()).set()


async def act(
    memory: Memory,
    tell: Any,
    work: str,
    stop: str = "",
    wait: bool = False,
    fail: bool = False,
    step: bool = False,
) -> dict[str, Any]:
    """A task, or a step between two others, whose tool acts."""

    async def tool() -> str:
        tell(began=work)
        if stop == "began":
            await asyncio.Event().wait()  # until it is killed
        if wait:
            await _go.setdefault(work, asyncio.Event()).wait()
        tell(acted=work, key=await memory.call("effect_key"))
        if stop == "acted":
            await asyncio.Event().wait()
        if fail:
            raise OnPurpose("after the act")
        return "done"

    async def nothing() -> None:
        return None

    steps = [("before", nothing), ("act", tool), ("after", nothing)]
    try:
        if step:
            result = await memory.call("run_workflow", work, steps)
        else:
            result = await memory.call("run_once", work, tool)
    except Exception as error:
        return {"result": None, "error": words(error)}
    return {"result": result, "error": None}


async def keys(memory: Memory, tell: Any, base: str, workflows: bool) -> list[dict[str, Any]]:
    """No two acts have one key, however alike their names are."""
    trials = Trials()
    found: dict[str, str] = {}

    def acting(name: str) -> Any:
        async def tool() -> None:
            key = await memory.call("effect_key")
            same = found.setdefault(str(key), name)
            trials.hold(OTHER, same == name and bool(key), f"the keys of {same} and of {name}",
                        "two keys", f"both have {key!r}")  # fmt: skip

        return tool

    try:
        for tail in ALIKE:
            work = f"{base}-{tail}"
            await memory.call("run_once", work, acting(f"the task {work!r}"))
            if workflows:
                given = [(name, acting(f"the step {name!r} of {work!r}")) for name in STEPS]
                await memory.call("run_workflow", work, given)
    except Exception as error:
        trials.differ(OTHER, "run tasks and workflows that ask for their keys", "keys",
                      words(error))  # fmt: skip
    return trials.plain()
