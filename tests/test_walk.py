"""The page that walks through the code names functions that run, in the order in which they run."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from audit.auditing import judged, recorded, small

import stateward
from stateward.audit.forms.page import html
from stateward.server.service import app
from stateward.store import Store

PACKAGE = Path(stateward.__file__).parent
PAGE = PACKAGE.parents[1] / "docs" / "explanation" / "walk.md"
STEP = re.compile(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`: ", re.MULTILINE)
FILE = re.compile(r"`([\w/]+\.py)`")
MESSAGE = {"role": "user", "content": "Where is my parcel?"}

Step = tuple[str, str]  # a file below the package, and a function in it


def sections() -> dict[str, str]:
    """Return the text of each walk of the page, by its heading."""
    _, *parts = re.split(r"^## (.+)\n", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


class Trace:
    """The functions of the package that were called, in every thread that has started since."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._is_on = False

    def __enter__(self) -> Trace:
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @contextmanager
    def walk(self) -> Iterator[None]:
        self._is_on = True
        yield
        self._is_on = False

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if self._is_on and event == "call" and code.co_filename.startswith(str(PACKAGE)):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            self.steps.append((file, code.co_qualname))


def missing(steps: list[Step], trace: Trace) -> list[Step]:
    """Return the steps that did not run at all, or only before an earlier step of the page."""
    calls = iter(trace.steps)
    return [step for step in steps if step not in calls]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Store, Trace]]:
    with Trace() as trace:
        url = f"sqlite:///{folder}/walk.db?durability=relaxed"
        async with stateward.open(url, heartbeat=None, spill=False) as store:
            yield store, trace


async def append(folder: Path) -> Trace:
    async with opened(folder) as (store, trace):
        thread = store.thread("t")
        await thread.append(MESSAGE)
        await thread.append(MESSAGE)
        with trace.walk():
            await thread.append(MESSAGE)
    return trace


async def turn(folder: Path) -> Trace:
    async with opened(folder) as (store, trace):
        thread = store.thread("t")
        await thread.append(MESSAGE)
        with trace.walk():
            async with thread.turn(key="delivery", last=20) as turn:
                await turn.store(MESSAGE)
    return trace


async def step(folder: Path) -> Trace:
    async with opened(folder) as (store, trace), store.workflow("w", kind="order") as run:
        with trace.walk():
            await run.step("charge", lambda: 1)
    return trace


async def request(folder: Path) -> Trace:
    body = json.dumps({"messages": [MESSAGE]}).encode()
    incoming = [{"type": "http.request", "body": body}]
    statuses: list[int] = []

    async def receive() -> Any:
        return incoming.pop() if incoming else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/threads/t/messages",
        "raw_path": b"/v1/threads/t/messages",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    async with opened(folder) as (store, trace):
        await store.thread("t").append(MESSAGE)
        service = app(store, insecure_local=True)
        with trace.walk():
            await service(scope, receive, send)
    assert statuses == [201]
    return trace


@pytest.mark.parametrize("walk", [append, turn, step, request], ids=lambda walk: walk.__name__)
async def test_a_call_runs_through_the_functions_of_the_page(walk: Any, tmp_path: Path) -> None:
    steps = STEP.findall(sections()[walk.__name__.capitalize()])
    trace = await walk(tmp_path)
    assert missing(steps, trace) == []
    assert trace.steps[0] == steps[0]


async def test_an_append_passes_no_file_that_the_page_does_not_name(tmp_path: Path) -> None:
    trace = await append(tmp_path)
    assert {file for file, _ in trace.steps} <= set(FILE.findall(sections()["Append"]))


@pytest.mark.verify
def test_an_audit_runs_through_the_functions_of_the_page(tmp_path: Path) -> None:
    with Trace() as question, question.walk():
        report = judged(recorded(small(f"sqlite:///{tmp_path}/audited.db", "keys")))
    with Trace() as page, page.walk():
        html(report)
    for heading, trace in (("Question", question), ("Page", page)):
        assert missing(STEP.findall(sections()[heading]), trace) == [], heading


def test_every_step_of_the_page_is_tried() -> None:
    walks = sections()
    assert list(walks) == ["Append", "Turn", "Step", "Question", "Request", "Page"]
    for text in walks.values():
        numbered = re.findall(r"^\d+\. ", text, re.MULTILINE)
        assert len(numbered) == len(STEP.findall(text)) > 5


def test_a_step_that_does_not_run_is_found_out() -> None:
    trace = Trace()
    trace.steps = [("a.py", "one"), ("a.py", "two"), ("b.py", "one")]
    assert missing([("a.py", "one"), ("b.py", "one")], trace) == []
    assert missing([("b.py", "one"), ("a.py", "two")], trace) == [("a.py", "two")]
    assert missing([("a.py", "three")], trace) == [("a.py", "three")]
