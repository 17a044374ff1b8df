"""No public method takes the square of what is there: ten times as much, ten times the calls.

The methods are those of the table in `conformance.state.methods`, in blocking calls on a store in
memory, so that all that happens for one happens on one thread and can be counted.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from conformance import blocking  # makes the blocking twins of the cases

from stateward import sync

assert blocking.CASES
from blocking_cases.methods import METHODS, prepare, says  # noqa: E402

LENGTHS = (60, 600)
LINEAR = 25  # what is short fits into one page or one summary; the square would be a hundred times


def grown(store: sync.Store, length: int) -> None:
    """A conversation, a journal, a workflow and documents that have become long."""
    prepare(store, "u", "said")
    turn = (says("question"), {"role": "assistant", "content": "answer"})
    for _ in range(length // 2):
        store.thread("t", user="u").append(*turn)
        store.journal("j", user="u").append({"said": "more"})
        store.workflow("w", user="u").signal("news", 1)
    store.user("u").put({f"slot {n}": n for n in range(length)})


def cost(name: str, length: int) -> int:
    calls = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    with sync.open("memory://") as store:
        grown(store, length)
        sys.setprofile(note)
        try:
            METHODS[name].call(store, "u", says("new"))
        finally:
            sys.setprofile(None)
    return calls


@pytest.mark.parametrize("name", METHODS)
def test_a_method_costs_at_most_what_is_there(name: str) -> None:
    short, long = (cost(name, length) for length in LENGTHS)
    assert 0 < long <= LINEAR * short, (short, long)
