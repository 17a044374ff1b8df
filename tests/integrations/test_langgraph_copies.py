"""A copy of a thread is whole or not there, wherever its process died."""

from __future__ import annotations

from typing import Any

import pytest
from graphs import at, echo, said
from langchain_core.messages import HumanMessage

import stateward
from stateward.integrations.langgraph import StatewardSaver, copies
from stateward.integrations.langgraph.records import ForkPoint
from stateward.ops import Commit, Entity


def copy_until(saver: StatewardSaver, batches: int, *, answered: bool) -> bool:
    """Copy with a process that dies in its n-th call, before it or after it; True: it did not."""
    plan = saver._copy_thread("t", "copy")
    scope = saver._bridge._blocking_scope()
    try:
        ops = next(plan)
        for _ in range(batches):
            ops = plan.send(scope.execute(ops))
        if answered:
            scope.execute(ops)
    except StopIteration:
        return True
    return False


def history(saver: StatewardSaver, thread: str) -> list[Any]:
    return [each.checkpoint for each in saver.list(at(thread, user_id="u-42"))]


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("reader", ["get", "list", "prune", "copy"])
def test_a_copy_whose_process_died_is_finished_or_not_there(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, reader: str, answered: bool
) -> None:
    monkeypatch.setattr(copies, "CHUNK", 5)
    with StatewardSaver.from_url(f"sqlite:///{tmp_path / 'agents.db'}") as saver:
        for number in range(3):
            asked = {"messages": [HumanMessage(f"{number} " * 200)]}
            echo(saver).invoke(asked, at("t", user_id="u-42"))
        whole = history(saver, "t")
        kept = said(echo(saver).get_state(at("t")).values)
        for batches in range(100):
            done = copy_until(saver, batches, answered=answered)
            fresh = StatewardSaver(saver._bridge)
            if reader == "get":
                state = echo(fresh).get_state(at("copy", user_id="u-42")).values
                assert not state or said(state) == kept
            elif reader == "prune":
                fresh.prune(["copy"])
            elif reader == "copy":
                fresh.copy_thread("copy", "other")
                assert history(fresh, "other") in ([], whole)
                fresh.delete_thread("other")
            if reader != "prune":
                assert history(fresh, "copy") in ([], whole)
            found = said(echo(fresh).get_state(at("copy")).values or {"messages": []})
            assert found in ([], kept)
            assert not done or found == kept
            fresh.delete_thread("copy")
            if done:
                assert batches > 5
                return
    pytest.fail("it was never done")


def test_a_copier_that_was_overtaken_overwrites_nothing(tmp_path: Any) -> None:
    with StatewardSaver.from_url(f"sqlite:///{tmp_path / 'agents.db'}") as saver:
        echo(saver).invoke({"messages": [HumanMessage("one")]}, at("t"))
        plan = saver._copy_thread("t", "copy")
        scope = saver._bridge._blocking_scope()
        ops = next(plan)
        while not (isinstance(ops[0], Commit) and len(ops[0].writes) > 1):
            ops = plan.send(scope.execute(ops))
        state = echo(saver).invoke({"messages": [HumanMessage("two")]}, at("copy"))
        assert said(state) == ["one", "you said: one", "two", "you said: two"]
        with pytest.raises(StopIteration):
            while True:
                ops = plan.send(scope.execute(ops))
        assert echo(saver).get_state(at("copy")).values == state


@pytest.mark.parametrize("deleted", [False, True])
def test_nothing_is_copied_into_a_thread_that_exists(tmp_path: Any, deleted: bool) -> None:
    with StatewardSaver.from_url(f"sqlite:///{tmp_path / 'agents.db'}") as saver:
        echo(saver).invoke({"messages": [HumanMessage("one")]}, at("t", user_id="u-42"))
        echo(saver).invoke({"messages": [HumanMessage("two")]}, at("other", user_id="u-42"))
        before = history(saver, "other")
        plan = saver._copy_thread("t", "other")
        scope = saver._bridge._blocking_scope()
        ops = next(plan)
        if deleted:  # undoing the copy must not remove what was there
            ops = plan.send(scope.execute(ops))
            saver.delete_thread("t")
        with pytest.raises(stateward.StateConflictError, match="'other' exists"):
            while True:
                ops = plan.send(scope.execute(ops))
        assert history(saver, "other") == before
        with pytest.raises(stateward.StateConflictError, match="'other' exists"):
            saver.copy_thread("other", "other")


def test_a_copy_that_its_process_did_not_finish_is_finished_by_copying_again(tmp_path: Any) -> None:
    with StatewardSaver.from_url(f"sqlite:///{tmp_path / 'agents.db'}") as saver:
        echo(saver).invoke({"messages": [HumanMessage("one")]}, at("t", user_id="u-42"))
        assert not copy_until(saver, 1, answered=True)  # the note, and nothing else
        saver.copy_thread("t", "copy")
        assert history(saver, "copy") == history(saver, "t") != []


def test_a_copy_of_what_was_deleted_since_is_undone(tmp_path: Any) -> None:
    with StatewardSaver.from_url(f"sqlite:///{tmp_path / 'agents.db'}") as saver:
        echo(saver).invoke({"messages": [HumanMessage("secret")]}, at("t"))
        assert not copy_until(saver, 3, answered=True)
        saver.delete_thread("t")
        assert saver.get_tuple(at("copy")) is None
        head = saver._bridge._blocking_scope().fetch(
            stateward.ops.Fetch(Entity("default", "langgraph-thread", "copy"))
        )
        assert not head.head.exists


def test_the_id_of_a_fork_compares_as_any_text() -> None:
    class AnyText(str):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, str)

        __hash__ = str.__hash__

    assert ForkPoint("a") == "a" == ForkPoint("a")
    assert ForkPoint("a") != "b"
    assert ForkPoint("a") == AnyText("")
    assert ForkPoint("a") != 1
    assert {ForkPoint("a"): 1}["a"] == 1
