"""Tools that act in the world, and processes that are killed or paused around the act."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from stateward.audit.differences import class_of_work
from stateward.audit.replicas.fleet import PATIENCE, Failed, Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.trials import OnPurpose, Trials, merged, outcome, try_one
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
    look = _Looked(trials, keys, patience)
    # Each of them waits for the work of a process that is gone, so they do it concurrently.
    waiting = {
        "kill the worker before its tool acts": _killed(look, before, one, next(names), "began"),
        "kill it as soon as its tool has acted": _killed(look, after, one, next(names), "acted"),
        "kill it when the task is done": _recorded(look, recorded, one, next(names)),
        "pause it before its tool acts": _paused(look, paused, other, next(names)),
        "let a tool act and raise": _raising(look, one, other, next(names)),
    }
    if stage.provides("workflows"):
        waiting["kill the driver when the tool of a step has acted"] = _killed(
            look, flow, other, next(names), "acted", step=True
        )
    await asyncio.gather(*(try_one(trials, ACTS, what, each) for what, each in waiting.items()))
    checks = []
    if keys:
        how = {"base": next(names), "workflows": stage.provides("workflows")}
        checks.append(await other.ask("effects:keys", patience=120.0, **how))
    await flow.kill()
    await stage.fleet.end(one, other)
    stage.record.effects = merged(trials, *checks)


class _Looked:
    """Trials of what a tool has done."""

    def __init__(self, trials: Trials, keys: bool, patience: float) -> None:
        self.trials = trials
        self.keys = keys  # True if the memory gives keys
        self.patience = patience

    def repeated(self, case: str, acts: list[str | None]) -> None:
        """Check that the tool acted, and that a repeated act can be detected by its key."""
        self.trials.hold(ACTS, bool(acts), case, "the tool acts", "it never acted")
        if len(acts) < 2:
            return
        if self.keys:
            same = len(set(acts)) == 1 and acts[0] is not None
            self.trials.hold(SAME, same, case, "one key", f"the keys {acts}")
        else:
            self.trials.hold(TOLD, False, case, "the same key for every attempt",
                             f"it acts {len(acts)} times, undetectably")  # fmt: skip


def _acts(work: str, *replicas: Replica) -> list[str | None]:
    """Return the keys of what was done, in the order of the reports."""
    return [e["key"] for each in replicas for e in each.events if e.get("acted") == work]


async def _killed(
    look: _Looked, dying: Replica, other: Replica, work: str, when: str, step: bool = False
) -> None:
    dying.send("effects:act", work=work, stop=when, step=step)
    await dying.until_event(PATIENCE, **{when: work})
    await dying.kill()
    answer = await other.attempt("effects:act", work=work, patience=look.patience, step=step)
    what = "the driver of a workflow" if step else "a worker"
    moment = "before its tool acts" if when == "began" else "as soon as its tool has acted"
    case = f"kill {what} {moment}, ask for the work in another replica"
    if answer["error"]:
        # Told, and someone can look after it: that is not silence.
        is_reported = "did not finish" not in answer["error"]
        look.trials.hold(
            ACTS, is_reported, case, "it is done, or an error says so", answer["error"]
        )
        return
    acts = _acts(work, dying, other)
    look.repeated(case, acts)
    if when == "began":
        look.trials.compare(ACTS, f"{case}: acts", 1, len(acts))


async def _recorded(look: _Looked, dying: Replica, other: Replica, work: str) -> None:
    first = await dying.attempt("effects:act", work=work, patience=look.patience)
    await dying.kill()
    answer = await other.attempt("effects:act", work=work, patience=look.patience)
    case = "a tool acts, its task is acknowledged, kill the process, ask for it elsewhere"
    outcome = [first["error"], answer["error"], len(_acts(work, dying, other))]
    kind = class_of_work(first["error"] or answer["error"], outcome[2], 1)
    look.trials.compare(ONCE, case, [None, None, 1], outcome, kind=kind)


async def _paused(look: _Looked, paused: Replica, other: Replica, work: str) -> None:
    """Let another replica take over the work of a paused one, which wakes up and acts too."""
    waking = paused.send("effects:act", work=work, wait=True)
    await paused.until_event(began=work)
    paused.signal(signal.SIGSTOP)
    try:
        answer = await other.attempt("effects:act", work=work, patience=look.patience / 2)
    finally:
        paused.send("effects:go", work=work)
        paused.signal(signal.SIGCONT)
    try:
        await asyncio.wait_for(waking, 10.0)
    except (Failed, TimeoutError):
        pass  # told that it is too late
    case = "pause a worker before its tool acts, let another do the work, resume the first"
    if not answer["error"]:  # else it is not taken over while its process lives
        look.repeated(case, _acts(work, paused, other))
    await paused.kill()


async def _raising(looked: _Looked, one: Replica, other: Replica, work: str) -> None:
    await one.attempt("effects:act", work=work, patience=looked.patience, fail=True)
    answer = await other.attempt("effects:act", work=work, patience=looked.patience)
    case = "a tool acts and raises, ask for its task again in another replica"
    if answer["error"] is None:
        looked.repeated(case, _acts(work, one, other))


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
    """Run a task, or a step between two others, whose tool acts."""

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
    if step:
        return await outcome(memory.call("run_workflow", work, steps))
    return await outcome(memory.call("run_once", work, tool))


async def keys(memory: Memory, tell: Any, base: str, workflows: bool) -> list[dict[str, Any]]:
    """Check that no two acts have the same key, however alike their names are."""
    trials = Trials()
    names: dict[str, str] = {}

    def acting(name: str) -> Any:
        async def tool() -> None:
            key = await memory.call("effect_key")
            same = names.setdefault(str(key), name)
            trials.hold(OTHER, same == name and bool(key), f"the keys of {same} and of {name}",
                        "two keys", f"both have {key!r}")  # fmt: skip

        return tool

    with trials.expecting(OTHER, "run tasks and workflows that ask for their keys", "keys"):
        for tail in ALIKE:
            work = f"{base}-{tail}"
            await memory.call("run_once", work, acting(f"the task {work!r}"))
            if workflows:
                steps = [(name, acting(f"the step {name!r} of {work!r}")) for name in STEPS]
                await memory.call("run_workflow", work, steps)
    return trials.plain()
