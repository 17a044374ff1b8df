"""What a checkpoint costs does not grow with the conversation, nor what a turn stores.

Counted are executed bytecodes of Stateward, and for a search steps of SQLite's virtual machine.
That every message is still what it was when it was stored is asked in a few calls of the
interpreter's own, whose time does grow: see decision 16.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base.id import uuid6

import stateward
from stateward import sync
from stateward.integrations.langgraph import StatewardSaver

SHORT, LONG = 10, 1_000  # messages
PACKAGE = str(Path(stateward.__file__).parent)


class Bytecodes:
    """Executed by this thread in Stateward's own code."""

    count = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.count = 0
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)

    def _called(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._inside

    def _inside(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        self.count += event == "opcode"
        return self._inside


def put(saver: StatewardSaver, config: Any, messages: list[AIMessage], step: int = 1) -> Any:
    version = f"{len(messages):012}.0"
    new: Any = {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-11-15T12:00:00+00:00",
        "channel_values": {"messages": messages},
        "channel_versions": {"messages": version},
        "versions_seen": {},
    }
    return saver.put(config, new, {"source": "loop", "step": step}, {"messages": version})


def message(text: str) -> AIMessage:
    return AIMessage(text * 100, response_metadata={"model": "m", "usage": {"tokens": 7}})


def cost(length: int) -> int:
    with sync.open("memory://") as store:
        saver, counter = StatewardSaver(store), Bytecodes()
        messages = [message(f"{number}") for number in range(length)]
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for _ in range(3):
            config = put(saver, config, messages)
            messages = [*messages, message("next")]
        with counter.counting():
            put(saver, config, messages)
        return counter.count


def test_a_put_executes_as_much_at_a_thousand_messages_as_at_ten() -> None:
    short, long = cost(SHORT), cost(LONG)
    assert 0 < long <= 1.1 * short, (short, long)


@pytest.mark.parametrize("place", [0, SHORT // 2, SHORT - 1])
def test_a_message_that_was_changed_in_place_is_found(place: int) -> None:
    with sync.open("memory://") as store:
        saver, config = StatewardSaver(store), {"configurable": {"thread_id": "t"}}
        messages = [message(f"{number}") for number in range(SHORT)]
        config = put(saver, config, messages)
        messages[place].response_metadata["usage"]["tokens"] = 8
        config = put(saver, config, [*messages, message("next")])
        found = StatewardSaver(store).get_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"][:SHORT] == messages


# --- searches ---------------------------------------------------------------------------

FEW, MANY = 100, 1_000  # checkpoints; the short list is already longer than a page
SEARCHED: dict[str, tuple[Any, bool]] = {  # and whether the newest is the one that is found
    "the newest": (None, True),
    "the newest of many that match": ({"source": "loop"}, True),
    "the one that matches, the newest": ({"step": -1}, True),
    "the one that matches, the oldest": ({"step": 0}, False),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A thread of few and one of many checkpoints."""
    url = f"sqlite:///{tmp_path_factory.mktemp('searched')}/a.db?durability=relaxed"
    with sync.open(url, heartbeat=None, spill=False) as store:
        saver, said = StatewardSaver(store), [message("said")]
        for length in (FEW, MANY):
            config: Any = {"configurable": {"thread_id": f"of {length}", "checkpoint_ns": ""}}
            for number in range(length):
                config = put(saver, config, said, number if number < length - 1 else -1)
    return url


@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_for_one_checkpoint_does_not_read_all(name: str, file: str) -> None:
    wanted, newest = SEARCHED[name]
    steps = 0

    def ran(event: dict[str, Any]) -> None:
        nonlocal steps
        steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def attach(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, ran)

    costs = []
    apsw.connection_hooks.append(attach)
    try:
        with sync.open(file, heartbeat=None, spill=False) as store:
            for length in (FEW, FEW, MANY):  # by the second time statements are ready
                config: Any = {"configurable": {"thread_id": f"of {length}", "checkpoint_ns": ""}}
                before = steps
                (found,) = StatewardSaver(store).list(config, filter=wanted, limit=1)
                assert found.metadata["step"] == (-1 if newest else 0)
                costs.append(steps - before)
    finally:
        apsw.connection_hooks.remove(attach)
    _, short, long = costs
    assert 0 < long <= (2 if newest else 1.5 * MANY / FEW) * short, (short, long)
