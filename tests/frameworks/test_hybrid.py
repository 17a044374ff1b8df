"""The example does what it says, and no page leaves an adapter's argument out."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from faststream.redis import RedisBroker, StreamSub
from servers.redis import running

import stateward
from stateward.integrations.faststream import StatewardMiddleware, step
from stateward.integrations.google_adk import StatewardSessionService, register_schemes
from stateward.integrations.openai_agents import StatewardSession
from stateward.integrations.strands import StatewardSessionRepository, StatewardStorage
from stateward.integrations.window_options import WindowOptions

ROOT = Path(__file__).resolve().parent.parent.parent
REFERENCE = ROOT / "docs" / "reference" / "agent-frameworks.md"


EXAMPLE = ROOT / "examples" / "hybrid.py"
JOBS, KILLS = 40, 8


def started(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLE), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class Crew:
    """Two processes of each role; a killed one is replaced."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = itertools.count(1)
        self._draw = random.Random(7)
        roles = ("coordinator", "worker") * 2
        self._processes = [(role, self._start(role)) for role in roles]

    def _start(self, role: str) -> subprocess.Popen[str]:
        return started(role, self._url, f"{role}-{next(self._numbers)}")

    def kill_one(self) -> None:
        place = self._draw.randrange(len(self._processes))
        role, process = self._processes[place]
        process.kill()
        process.communicate()
        self._processes[place] = (role, self._start(role))

    def end(self) -> None:
        for _, process in self._processes:
            process.kill()
            process.communicate()


async def test_jobs_are_finished_once_though_coordinators_and_workers_are_killed(
    tmp_path: Path,
) -> None:
    results: list[dict[str, Any]] = []
    all_there = asyncio.Event()
    with running(tmp_path) as server:
        created = started("create", server.url)
        assert (created.communicate(timeout=60)[0], created.returncode) == ("", 0)
        crew = Crew(server.url)
        try:
            async with stateward.open(server.url) as store:
                once = StatewardMiddleware(store, "screen")
                broker = RedisBroker(server.url, middlewares=[once], logger=None)

                async def show(result: dict[str, Any]) -> None:
                    results.append(result)
                    if len(results) >= JOBS:
                        all_there.set()

                broker.subscriber(stream=StreamSub("results", last_id="0"))(show)
                async with broker:
                    await broker.start()
                    for number in range(JOBS):
                        job = {"id": f"job-{number}", "user": "u-42", "city": f"city {number}"}
                        await broker.publish(job, stream="jobs")
                        if number % (JOBS // KILLS) == 0:
                            await asyncio.sleep(random.uniform(0.2, 0.6))
                            crew.kill_one()
                    await asyncio.wait_for(all_there.wait(), 120)
                # A job's result is published before its workflow is recorded as completed.
                end = time.monotonic() + 60
                while True:
                    done = [info async for info in store.workflows(user="u-42")]
                    if {info.status for info in done} == {"completed"} or time.monotonic() > end:
                        break
                    await asyncio.sleep(0.1)
            asking = started("ask", server.url, "Lisbon")
            said, _ = await asyncio.to_thread(asking.communicate, timeout=60)
        finally:
            crew.end()
    assert {info.status for info in done} == {"completed"}
    assert Counter(result["job"] for result in results) == Counter(info.id for info in done)
    for result in results:
        city = f"city {result['job'].removeprefix('job-')}"
        answers = {"weather": f"sunny in {city}", "prices": f"coffee costs 3 in {city}"}
        assert result["brief"] == answers
    assert said == "{'weather': 'sunny in Lisbon', 'prices': 'coffee costs 3 in Lisbon'}\n"


def parameters_of(kind: Any) -> list[str]:
    """The names of the parameters, with those that a `WindowOptions` stands for."""
    parameters = inspect.signature(kind).parameters
    window = [name for name, each in parameters.items() if "WindowOptions" in str(each.annotation)]
    plain = [name for name in parameters if name not in window]
    return [*plain, *(WindowOptions.__annotations__ if window else ())]


@pytest.mark.parametrize(
    "kind",
    [
        StatewardSession,
        StatewardSessionRepository,
        StatewardStorage,
        StatewardSessionService,
        StatewardMiddleware,
        step,
        register_schemes,
    ],
)
def test_every_method_and_argument_of_an_adapter_is_in_the_reference(kind: Any) -> None:
    text = REFERENCE.read_text("utf-8")
    own = [name for name in vars(kind) if not name.startswith("_")] if inspect.isclass(kind) else []
    inherited = {"search", "flush"}  # the framework's own, as it documents them
    arguments = [name for name in parameters_of(kind) if name not in inherited]
    for name in (kind.__name__, *own, *arguments):
        assert re.search(rf"`[^`\n]*(?<!\w){re.escape(name)}(?!\w)[^`\n]*`", text), name
