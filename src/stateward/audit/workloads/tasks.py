"""Tasks whose worker is killed, whose function fails or takes long, and what comes of them."""

from __future__ import annotations

import asyncio
from typing import Any

from stateward.audit.differences import RESULT, class_of_work
from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads import odd_values
from stateward.audit.workloads.trials import OnPurpose, Trials, difference, merged, outcome, try_one
from stateward.audit.workloads.workload import Stage, Workload
from stateward.pages.words import plural

RESULTS: tuple[Any, ...] = (
    None, False, 0, "", [], {}, True, "é😀", 2**53 + 1, 0.123456789012, {"a": [1, {"b": None}]},
    "x" * 5000,
)  # fmt: skip
TWINS = 8  # tasks that one replica is asked for twice concurrently
LEAST = 20.0  # seconds that a task of a killed worker is waited for, at least
SOON = 4.0  # seconds for a task that nothing holds up


async def conduct(stage: Stage) -> None:
    trials = Trials()
    replicas = await stage.fleet.start(3)
    dying = await stage.fleet.start(2, fresh=True)
    names = iter(stage.names("fault", 8))
    patience = max(LEAST, stage.sizes.recovery)
    # These wait, each for something else, so they do it concurrently.
    dies, died, long, fails, results = (next(names) for _ in range(5))
    waiting = {
        "kill the worker": _killed_meanwhile(dying[0], replicas[1], dies, trials, patience),
        "kill it afterwards": _killed_afterwards(dying[1], replicas[2], died, trials, patience),
        "run a long task": _long(replicas, long, trials, stage.sizes.long_task),
        "run one that fails": _failing(replicas[1], replicas[2], fails, trials, patience),
        "run several": _results(replicas[0], replicas[1], results, trials),
    }
    await asyncio.gather(
        *(try_one(trials, "killed worker", what, each) for what, each in waiting.items())
    )
    checks = [await replicas[0].ask("tasks:twins", base=next(names))]
    how: dict[str, Any] = {"base": next(names), "bare": stage.is_apart}
    checks += [
        await replica.ask("tasks:look_alike", again=again, **how)
        for replica, again in ((replicas[0], False), (replicas[1], True))
    ]
    for number in range(3):  # some seconds and tasks later
        again = await _ran(replicas[2], f"{results}-{number}", SOON + 10.0, result="wrong")
        case = f"a task with the result {RESULTS[number]!r}, asked for again some seconds later"
        _compare(trials, "results unchanged", case, RESULTS[number], 0, again)
    await stage.fleet.end(*replicas)
    stage.record.task_checks = merged(trials, *checks)


async def _ran(replica: Replica, task: str, patience: float, **how: Any) -> dict[str, Any]:
    """Return the result or error, and how often the function ran in this replica."""
    before = _begun(replica, task)
    answer = await replica.attempt("tasks:run", task=task, patience=patience, **how)
    return {**answer, "ran": _begun(replica, task) - before}


def _compare(
    trials: Trials, promise: str, case: str, result: Any, runs: int, answer: dict[str, Any]
) -> None:
    """Compare an answer, which is a result or an error, and how often the function ran for it."""
    kind = class_of_work(answer["error"], answer["ran"], runs)
    got = [answer["error"], answer["result"], answer["ran"]]
    if difference([None, result, runs], got) is None:
        trials.hold(promise, True, case, "", "")
        return
    expected = f"{result!r}, the function running {plural(runs, 'time')}"[:200]
    actual = answer["error"] or f"{answer['result']!r}, it ran {plural(answer['ran'], 'time')}"
    trials.differ(promise, case, expected, actual, kind)


def _begun(replica: Replica, task: str) -> int:
    return sum(each.get("began") == task for each in replica.events)


async def _killed_meanwhile(
    dying: Replica, other: Replica, task: str, trials: Trials, patience: float
) -> None:
    dying.send("tasks:run", task=task, seconds=600.0)
    await dying.until_event(began=task)
    await dying.kill()
    answer = await _ran(other, task, patience, result="done by the second")
    case = "kill a replica while the function of a task runs, ask for the task in another"
    _compare(trials, "killed worker", case, "done by the second", 1, answer)


async def _killed_afterwards(
    dying: Replica, other: Replica, task: str, trials: Trials, patience: float
) -> None:
    """Kill a replica as its function ends, which may or may not be recorded by then."""
    dying.send("tasks:run", task=task, result="done")
    await dying.until_event(ended=task)
    await dying.kill()
    answer = await _ran(other, task, patience, result="done")
    case = "kill a replica as soon as the function of a task has ended, ask for it in another"
    # Whether it was recorded by then, or runs again, is the memory's affair.
    _compare(trials, "killed worker", case, "done", min(answer["ran"], 1), answer)


async def _long(replicas: list[Replica], task: str, trials: Trials, seconds: float) -> None:
    """Run a long task while others ask for the same one and for other tasks."""
    one, *others = replicas
    how: dict[str, Any] = {"seconds": seconds, "result": "long"}
    first = asyncio.create_task(_ran(one, task, seconds + 60.0, **how))
    await one.until_event(began=task)
    waiting = [asyncio.create_task(_ran(each, task, seconds + 60.0, **how)) for each in others]
    for near in (f"{task}0", task.upper()):
        beside = await _ran(others[0], near, SOON + 5.0, result="near")
        case = f"ask for the task …{near[-4:]} while …{task[-4:]} runs elsewhere"
        _compare(trials, "independent tasks", case, "near", 1, beside)
    answers = [await first, *await asyncio.gather(*waiting)]
    runs = sum(each["ran"] for each in answers)
    case = f"run a task that takes {seconds:g} s, ask for it in two other replicas"
    trials.compare("long task", f"{case}: runs", 1, runs)
    for each in answers:
        # Who would rather not wait may say so, but it is better to wait.
        if each["error"]:
            trials.differ("waiting callers get the result", case, "the result", each["error"])
        else:
            trials.hold("waiting callers get the result", True, "", "", "")
            got = each["result"]
            trials.compare("long task", f"{case}: a result", "long", got, kind=RESULT)
    again = await _ran(others[-1], task, SOON + 5.0, result="again")
    case = "ask for a long task after it has finished"
    _compare(trials, "long task", case, "long", 0, again)


async def _failing(
    one: Replica, other: Replica, task: str, trials: Trials, patience: float
) -> None:
    answer = await _ran(one, task, patience, fail=True)
    case = "run a task whose function raises"
    trials.hold(
        "failed task not recorded as done",
        answer["error"] is not None,
        case,
        "an error",
        repr(answer["result"]),
    )
    end = asyncio.get_running_loop().time() + patience
    while True:
        again = await _ran(other, task, patience, result="at last")
        if not again["error"] or asyncio.get_running_loop().time() > end:
            break
        await asyncio.sleep(0.5)
    case = "retry a task whose function raised"
    if again["error"] and "did not finish" not in again["error"]:
        trials.differ("failed task can be retried", case, "its result", again["error"])
        return
    promise = "failed task not recorded as done"
    _compare(trials, promise, case, "at last", 1, again)
    third = await _ran(one, task, patience, result="once more")
    _compare(trials, promise, f"{case}, and once more", "at last", 0, third)


async def _results(one: Replica, other: Replica, base: str, trials: Trials) -> None:
    for number, result in enumerate(RESULTS):
        task = f"{base}-{number}"
        answer = await _ran(one, task, SOON + 10.0, result=result)
        for replica, by in ((one, "the same replica"), (other, "another replica")):
            again = await _ran(replica, task, SOON + 10.0, result="wrong")
            case = f"a task with the result {str(result)[:40]!r}, asked for again by {by}"
            wrong = answer if answer["error"] else again
            _compare(trials, "results unchanged", case, result, 0, wrong)


WORKLOAD = Workload(
    "tasks",
    "tasks",
    "killing workers in the middle of tasks",
    conduct,
    checks="task_checks",
    timed=("killed worker", "independent tasks", "long task", "waiting callers get the result"),
)


# --- in a replica -----------------------------------------------------------------------


async def run(
    memory: Memory,
    tell: Any,
    task: str,
    seconds: float = 0.0,
    result: Any = None,
    fail: bool = False,
) -> dict[str, Any]:
    async def function() -> Any:
        tell(began=task)
        await asyncio.sleep(seconds)
        if fail:
            raise OnPurpose("on purpose")
        tell(ended=task)
        return result

    return await outcome(memory.call("run_once", task, function))


async def look_alike(
    memory: Memory, tell: Any, base: str, bare: bool, again: bool
) -> list[dict[str, Any]]:
    """Run tasks that look alike but all differ: first all of them, then in another replica."""
    trials = Trials()
    for odd in odd_values.ids(base, bare):
        if odd.extreme:
            continue
        ran: list[str] = []

        async def function(label: str = odd.label, ran: list[str] = ran) -> str:
            ran.append(label)
            return label

        case = f"run a task with {odd.label}" + (", again in another replica" if again else "")
        try:
            result = await asyncio.wait_for(memory.call("run_once", odd.value, function), 20)
        except Exception as error:
            trials.differ("independent tasks", case, odd.label, error)
            continue
        answer = {"error": None, "result": result, "ran": len(ran)}
        _compare(trials, "independent tasks", case, odd.label, 0 if again else 1, answer)
    return trials.plain()


async def twins(memory: Memory, tell: Any, base: str) -> list[dict[str, Any]]:
    trials = Trials()
    for number in range(TWINS):
        ran: list[int] = []

        async def function(number: int = number, ran: list[int] = ran) -> str:
            ran.append(number)
            await asyncio.sleep(0.02)
            return f"{number}"

        task = f"{base}-{number}"
        calls = [asyncio.wait_for(memory.call("run_once", task, function), 20) for _ in range(3)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        results = [each for each in answers if not isinstance(each, BaseException)]
        case = "start a task three times concurrently in one replica"
        for result in results or [f"{number}"]:
            answer = {"error": None, "result": result, "ran": len(ran)}
            _compare(trials, "concurrent calls in one process", case, f"{number}", 1, answer)
    return trials.plain()
