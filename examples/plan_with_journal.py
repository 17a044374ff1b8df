"""Several agents work on one plan. A journal records what each of them found.

    pip install stateward
    python plan_with_journal.py

A planner writes down tasks, and workers do them, each task once. Every worker is a process; one is
killed with `kill -9` while it works, and another does its task. The plan is what all events fold
to, in whichever process.
"""

import asyncio
import os
import subprocess
import sys

import stateward

URL = os.environ.get("STATEWARD_URL", "sqlite:///plan.db")
PLAN = "trip-to-lisbon"
TASKS = ("flights", "hotel", "restaurant", "weather", "budget")
TTL = 1.0  # seconds until a dead worker's task is taken over; use 30 in production
NAME = sys.argv[1] if len(sys.argv) > 1 else ""


def plan(state: dict, event: dict) -> dict:
    """What is known about each task after one more event."""
    match event:
        case {"is": "planned", "task": task}:
            return {**state, task: None}
        case {"is": "done", "task": task, "result": result}:
            return {**state, task: result}
    return state  # an event of newer code


async def do(task: str) -> dict:
    """Replace it with your agent: the model and its tools go here."""
    print(f"{NAME} works on {task}", flush=True)
    await asyncio.sleep(60 if NAME == "clumsy" else 0.05)  # clumsy is killed before that is over
    return {"by": NAME, "found": f"the best {task}"}


async def worker() -> None:
    async with stateward.open(URL) as store:
        journal = store.journal(PLAN)
        for wait in (0, None):  # first free tasks, then those that another worker has claimed
            for task, known in (await journal.fold(plan, {})).state.items():
                if known is not None:
                    continue
                try:  # one worker at a time; later callers get the recorded result
                    result = await store.once(f"{PLAN} {task}", do, task, ttl=TTL, wait=wait)
                except stateward.LeaseHeld:
                    continue
                done = {"is": "done", "task": task, "result": result}
                await journal.append(done, key=f"done {task}")  # a second time does not count


async def planner() -> None:
    async with stateward.open(URL) as store:
        for task in TASKS:  # with a key: a planner that is started again plans nothing twice
            await store.journal(PLAN).append({"is": "planned", "task": task}, key=f"plan {task}")


async def show() -> None:
    async with stateward.open(URL) as store:
        folded = await store.journal(PLAN).fold(plan, {})
    for task, result in folded.state.items():
        print(f"  {task:<11} {result['found']}, by {result['by']}")
    print(f"✓ {len(folded.state)} tasks done, in {folded.version} events")


def start(name: str, **how: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, name], text=True, **how)


def main() -> None:
    asyncio.run(planner())
    with start("clumsy", stdout=subprocess.PIPE) as clumsy:
        print(clumsy.stdout.readline(), end="")
        clumsy.kill()
    print("clumsy was killed")
    others = [start("ann"), start("ben")]
    assert [process.wait() for process in others] == [0, 0]
    asyncio.run(show())


if __name__ == "__main__":
    if NAME:
        asyncio.run(worker())
    else:
        main()
