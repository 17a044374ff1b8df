"""What is recorded of a workflow: its steps, signals and waits, and how it is begun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateward.codec import check_id, decode
from stateward.errors import InvalidInput
from stateward.ops import Entry, Found
from stateward.records import WorkflowInfo, moment

ACTIVE, COMPLETED, FAILED = "active", "completed", "failed"
META, STATE, STEP, ERROR = "meta", "state", "step", "error"
READING = (META, STATE, STEP, ERROR)

Machine = Mapping[str, tuple[str, ...] | list[str]]


class Parked(BaseException):
    """Leaves the block of a workflow that waits; the workflow's own exit takes it in."""


class RunRecord:
    """What a workflow has recorded, by what it answers."""

    def __init__(self) -> None:
        self.version = 0
        self.steps: dict[str, Any] = {}
        self.waits: dict[str, dict[str, Any]] = {}
        self.begun: dict[str, float] = {}  # when a wait or sleep was first parked
        self.signals: list[tuple[int, str, Any]] = []
        self.taken: set[int] = set()

    def add(self, entry: Entry) -> None:
        """Take in the next entry; entries come in order, each once."""
        self.version = entry.seq
        record = decode(entry.body)
        if "step" in record:
            self.steps[record["step"]] = record["value"]
        elif "signal" in record:
            self.signals.append((entry.seq, record["signal"], record["value"]))
        elif "wait" in record:
            self.waits[record["wait"]] = record
            self.taken.add(record.get("taken", 0))
        elif "begun" in record:
            self.begun[record["begun"]] = entry.at

    def signal(self, name: str) -> tuple[int, Any] | None:
        """The oldest signal of this name that nobody has taken."""
        for seq, said, value in self.signals:
            if said == name and seq not in self.taken:
                return seq, value
        return None


def check_machine(machine: Machine | None) -> dict[str, tuple[str, ...]]:
    """A declared machine: every state and where it leads; the first is where it begins."""
    if machine is None:
        return {}
    states = {check_id(at, "a step"): tuple(ways) for at, ways in machine.items()}
    for at, ways in states.items():
        for way in ways:
            if way not in states:
                raise InvalidInput(f"the machine leads from {at!r} to {way!r}, which it lacks")
    return states


def workflow_info(found: Found) -> WorkflowInfo:
    """A workflow as listed."""
    documents = found.documents
    step = decode(documents[STEP].json)["at"] if STEP in documents else None
    error = decode(documents[ERROR].json) if ERROR in documents else None
    return WorkflowInfo(
        found.entity.id,
        decode(documents[META].json)["kind"] if META in documents else "",
        found.head.owner or None,
        found.head.status,
        step,
        decode(documents[STATE].json) if STATE in documents else {},
        moment(found.head.updated),
        f"{error['type']}: {error['message']}" if error else None,
    )
