"""What is recorded when a workflow is helped from outside, or helps itself by a child."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.codec import canonical, encode
from stateward.errors import KeyReusedError, WorkflowCancelled
from stateward.ops import Append, Fetched, Put, SetHead, Write
from stateward.state.loose_ends import OPEN
from stateward.state.run_record import (
    CANCELLED,
    DEATHS,
    ERROR,
    META,
    RESULT,
    SNAPSHOT,
    STEP,
    TROUBLE,
    WAITS,
)
from stateward.state.work import error_record

NOT_FORKED = frozenset({META, STEP, ERROR, RESULT, WAITS, TROUBLE, DEATHS, OPEN, SNAPSHOT})
UNBORN = "unborn"  # said of a child that was cancelled before it was begun


def cancelled(reason: str) -> tuple[Write, ...]:
    why = error_record(WorkflowCancelled(reason))
    return (
        SetHead(status=CANCELLED, due_in=0),
        Append((encode({"cancelled": why["message"]}, "the reason"),)),
        Put(ERROR, encode(why, "the reason")),
    )


def copied_documents(
    fetched: Fetched, machine: dict[str, Any], kept: list[dict[str, Any]]
) -> dict[str, str]:
    """The documents of a fork: as they are, but that its machine stands where it stood."""
    documents = {
        name: value.json for name, value in fetched.documents.items() if name not in NOT_FORKED
    }
    if machine:
        moves = [record["transition"][1] for record in kept if "transition" in record]
        documents[STEP] = encode({"at": moves[-1] if moves else next(iter(machine))}, "the step")
    return documents


def asked_for(record: dict[str, Any]) -> str | None:
    """The step or wait that an entry is of, if it is of one."""
    return record.get("step") or record.get("begun") or record.get("wait")


def check_child(id_: str, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Another workflow of that id must not be taken for the child."""
    if found.get(UNBORN):
        return
    for what in ("parent", "kind", "input"):
        if canonical(found.get(what), what) != canonical(wanted[what], what):
            raise KeyReusedError(
                f"there is already a workflow {id_!r} with another {what}; give the child another "
                "id"
            )
