"""Records of interventions in a workflow, and of its children. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.codec import canonical, encode
from stateward.errors import KeyReusedError, WorkflowCancelled
from stateward.ops import Append, Fetched, Put, SetHead, Write
from stateward.state.loose_ends import OPEN
from stateward.state.work import error_record
from stateward.state.workflow_record import (
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

NOT_FORKED = frozenset({META, STEP, ERROR, RESULT, WAITS, TROUBLE, DEATHS, OPEN, SNAPSHOT})
UNBORN = "unborn"  # marks a child that was cancelled before it was started


def cancelled(reason: str) -> tuple[Write, ...]:
    error = error_record(WorkflowCancelled(reason))
    return (
        SetHead(status=CANCELLED, due_in=0),
        Append((encode({"cancelled": error["message"]}, "the reason"),)),
        Put(ERROR, encode(error, "the reason")),
    )


def copied_documents(
    fetched: Fetched, machine: dict[str, Any], records: list[dict[str, Any]]
) -> dict[str, str]:
    """Return the documents of a fork, with the machine in its state after these records."""
    documents = {
        name: value.json for name, value in fetched.documents.items() if name not in NOT_FORKED
    }
    if machine:
        moves = [record["transition"][1] for record in records if "transition" in record]
        documents[STEP] = encode({"at": moves[-1] if moves else next(iter(machine))}, "the step")
    return documents


def step_or_wait(record: dict[str, Any]) -> str | None:
    """Return the name of the step or wait that a record belongs to, if any."""
    return record.get("step") or record.get("begun") or record.get("wait")


def check_child(id_: str, meta: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise `KeyReusedError` if the workflow of that id is another one than the child."""
    if meta.get(UNBORN):
        return
    for field in ("parent", "kind", "input"):
        if canonical(meta.get(field), field) != canonical(wanted[field], field):
            raise KeyReusedError(
                f"there is already a workflow {id_!r} with another {field}; give the child another "
                "id"
            )
