"""The table of public methods has them all: a new one cannot be forgotten by what sweeps it."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stateward
from conformance.state.methods import METHODS
from conformance.state.numbers import COUNTS, MADE, MAY_BE_OVER, NUMBERS, wrong
from stateward.errors import InvalidInput
from stateward.state.documents import DocumentHandle
from stateward.state.effects import Effect
from stateward.state.journals import Journal
from stateward.state.operations_log import OperationsLog
from stateward.state.run import Run
from stateward.state.schedules import Schedule
from stateward.state.tasks import Task
from stateward.state.threads import Thread
from stateward.state.turns import Turn
from stateward.state.users import Documents, Shared, User
from stateward.state.workflows import Workflow
from stateward.store import Store

CLASSES: dict[str, type] = {
    "Thread": Thread,
    "Turn": Turn,
    "User": User,
    "Journal": Journal,
    "Schedule": Schedule,
    "Task": Task,
    "Workflow": Workflow,
    "Run": Run,
    "Effect": Effect,
    "OperationsLog": OperationsLog,
    "Store": Store,
}
READ = {
    "Thread.branches",
    "Thread.changes",
    "Thread.late",
    "Thread.live",
    "Thread.lives",
    "Thread.messages_as",  # as `load`, which is in the table
    "Thread.origin",
    "Thread.replaced",
    "Thread.summary",
    "User.diff",
    "User.get",
    "User.history",
    "User.list",
    "User.export",
    "Journal.changes",
    "Journal.fold",
    "Schedule.info",
    "Task.info",
    "Workflow.info",
    "Effect.info",
    "Workflow.result",
    "OperationsLog.entries",
    "OperationsLog.stored_entries",
    "OperationsLog.verify",
    "Store.changes",
    "Store.context",
    "Store.counts",
    "Store.describe",
    "Store.effects",
    "Store.health",
    "Store.knew",
    "Store.metrics",
    "Store.paused",
    "Store.ready",
    "Store.replicas",
    "Store.signals",
    "Store.schedules",
    "Store.tasks",
    "Store.threads",
    "Store.users",
    "Store.waiting",
    "Store.workflows",
}
# What leads to the others; `work` does what `once` and `Run` do, `lock` holds a lease and nothing
# else, `close`, `sweep`, `pause` and `resume` write nothing of anybody's.
LEADS_ON = {
    f"Store.{name}"
    for name in (
        *("thread", "user", "shared", "journal", "workflow", "work"),
        *("effect", "schedule", "task"),
        *("lock", "elect", "close", "sweep", "within", "pause", "resume"),
    )
} | {"User.document", "Run.leave"}  # the latter is what the block itself calls at its end
# Streams hold what the block of a turn writes, for an hour: cases of their own, in `live.py`.
LIVE = {"Thread.stop", "Turn.give_up", "Turn.write"}
# How an owner comes to be or goes: cases of their own, in `threads.py` and `belongings.py`.
OWNERSHIP = {"Thread.claim", "User.erase"}


def public(cls: type) -> set[str]:
    """The methods of a class, and the properties that lead to more methods."""
    found = {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if name[0] != "_"}
    return found | ({"vars"} if hasattr(cls, "vars") else set())


def test_every_public_method_is_in_the_table_or_only_reads() -> None:
    there = {f"{name}.{method}" for name, cls in CLASSES.items() for method in public(cls)}
    tabled = {name.split(" ")[0] for name in METHODS if name.split(".")[0] in CLASSES}
    assert there == (tabled - {"Workflow.begun"}) | READ | LEADS_ON | OWNERSHIP | LIVE
    assert public(Documents) == public(Shared) == public(User) - {"export", "erase"}
    assert public(DocumentHandle) == public(Documents) - {"list", "document"}


NUMERIC = re.compile(r"\b(int|float|Position|Retention|datetime|timedelta)\b")
# What is no number of the caller's: a function that counts; the name of a reducer's version; or
# a number that is looked at by others on the way: `User.update` and `patch` take those of `update`.
OTHER = {
    "Thread.load count",
    "Thread.turn count",
    "Store.context count",
    "Thread.changes after",  # generators refuse at the first step: see `feeds.py`
    "Journal.changes after",
    "Journal.fold version",
    "Journal.snapshot version",
}
# Named by what takes them, and made by the store alone.
GIVEN_BACK = {"AlarmEvent", "Cursor", "Lock", "Thread"}
RETURNED = tuple(
    f"stateward.{name}"
    for name in ("records", "state.window_record", "state.stream_record", "state.replaced_record")
)  # modules of what is returned


def parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


def numeric(function: Any) -> set[str]:
    """The names of the parameters that may be numbers."""
    return {each.name for each in parameters(function) if NUMERIC.search(str(each.annotation))}


def functions() -> dict[str, Any]:
    """All that anybody may call, by the name that it has in the table."""
    classes = (*CLASSES.values(), DocumentHandle)
    methods = {
        f"{cls.__name__}.{name}": getattr(cls, name)
        for cls in classes
        for name in public(cls) - {"vars"}
    }
    return {"open": stateward.open, **methods}


def options() -> dict[str, type]:
    """The classes of what may be passed to them, e.g. a `Policy`."""
    given = [each for call in functions().values() for each in parameters(call)]
    named = set(re.findall(r"\w+", " ".join(str(each.annotation) for each in given)))
    public = named & set(stateward.__all__) - GIVEN_BACK
    found = {name: getattr(stateward, name) for name in public}
    return {
        name: cls
        for name, cls in found.items()
        if inspect.isclass(cls) and cls.__module__ not in RETURNED
    }


def test_every_number_a_caller_may_give_is_tried_at_its_edges() -> None:
    given = {**functions(), **options()}
    there = {f"{name} {number}" for name, call in given.items() for number in numeric(call)}
    assert there - OTHER == COUNTS.keys() | NUMBERS.keys() | MADE.keys()


BELOW = st.integers(max_value=-1) | st.floats(max_value=-1e-300)
TOO_MUCH = st.integers(min_value=2**63) | st.floats(min_value=1e12)


@pytest.mark.soak
def test_no_number_that_means_nothing_is_taken() -> None:
    store = stateward.open("memory://", heartbeat=None, spill=False)
    with asyncio.Runner() as runner:
        runner.run(store.thread("t").append({"n": 1}))

        @settings(max_examples=20_000)
        @given(st.sampled_from(sorted(COUNTS | NUMBERS)), st.data())
        def refused(name: str, data: st.DataObject) -> None:
            numbers = st.sampled_from(wrong(name))
            numbers = numbers if name in MAY_BE_OVER else numbers | BELOW
            number = data.draw(numbers if name in COUNTS else numbers | TOO_MUCH)

            async def call() -> None:
                await (COUNTS | NUMBERS)[name](store, number)

            with pytest.raises(InvalidInput):
                runner.run(call())

        refused()
        assert runner.run(store.thread("t").load()).version == 1
        runner.run(store.close())
