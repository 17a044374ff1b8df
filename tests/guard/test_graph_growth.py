"""What a checkpoint costs does not grow with the conversation, nor what a turn stores.

Counted are executed bytecodes of Stateward. That every message is still what it was when it was
stored is asked in a few calls of the interpreter's own, whose time does grow: see decision 16.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

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


def put(saver: StatewardSaver, config: Any, messages: list[AIMessage]) -> Any:
    version = f"{len(messages):012}.0"
    new: Any = {
        "v": 4,
        "id": str(uuid6()),
        "ts": "2026-11-15T12:00:00+00:00",
        "channel_values": {"messages": messages},
        "channel_versions": {"messages": version},
        "versions_seen": {},
    }
    return saver.put(config, new, {"source": "loop", "step": 1}, {"messages": version})


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
