"""A memory that says how long it keeps a conversation: not less, and not more by reading it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from stateward.audit.replicas.fleet import Replica
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.samples import contents, message
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import Stage, Workload

GRACE = 0.35  # share of the retention after which a conversation must be gone
LEAST = 2.0  # seconds of grace


async def conduct(stage: Stage) -> None:
    (replica,) = await stage.fleet.start()
    seconds = float(await replica.ask("retention:kept_for"))
    if not 0 < seconds <= stage.sizes.retention:
        stage.record.notes["retention"] = (
            f"it keeps a conversation for {seconds:g} s, and this profile waits for "
            f"{stage.sizes.retention:g} s at most: set the size `retention`"
        )
        await stage.fleet.end(replica)
        return
    trials = Trials()
    untouched, looked_at, prolonged = stage.names("retained", 3)
    for thread in (untouched, looked_at, prolonged):
        await replica.ask("retention:add", thread=thread, name="first")
    began = time.monotonic()
    await _until(began + 0.6 * seconds)
    await replica.ask("retention:add", thread=prolonged, name="second")
    await _until(began + 0.75 * seconds)
    texts = await _there(replica, looked_at)
    case = f"load a conversation after {0.75 * seconds:g} s of {seconds:g} s"
    trials.compare("kept until it expires", case, ["first"], texts)
    late = seconds + max(LEAST, GRACE * seconds)
    await _until(began + min(late, 1.4 * seconds))
    texts = await _there(replica, prolonged)
    case = f"append again after {0.6 * seconds:g} s, load after {min(late, 1.4 * seconds):g} s"
    trials.compare("a turn resets the expiry", case, True, "second" in texts)
    await _until(began + late)
    for promise, thread in (
        ("gone after it expires", untouched),
        ("a read does not reset the expiry", looked_at),
    ):
        texts = await _there(replica, thread)
        case = f"load a conversation {late:g} s after its last turn, which is kept {seconds:g} s"
        trials.compare(promise, case, [], texts)
    await stage.fleet.end(replica)
    stage.record.retention = merged(trials)


async def _until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - time.monotonic()))


async def _there(replica: Replica, thread: str) -> Any:
    return await replica.ask("retention:look", thread=thread)


WORKLOAD = Workload("retention", "retention", "waiting for conversations to expire", conduct)


# --- in a replica -----------------------------------------------------------------------


async def kept_for(memory: Memory, tell: Any) -> float:
    return float(memory.inner.retain)


async def add(memory: Memory, tell: Any, thread: str, name: str) -> None:
    await within(memory.append(thread, [message("user", name)], name))


async def look(memory: Memory, tell: Any, thread: str) -> list[str]:
    try:
        return contents(await within(memory.load(thread)))
    except Exception as error:
        return [words(error)]
