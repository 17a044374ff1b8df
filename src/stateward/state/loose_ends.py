"""Everything that hangs on a workflow: questions to people, children, and effects.

No commit spans two entities. So a workflow first records in its own document what it is about to
open. When the workflow ends, everything in that document is closed before the workflow is no longer
due: if the process that closes it dies, a worker takes over.

One rule holds for all of it, and for the effects of a thread: it does not expire while its owner
may need it, and then expires, and is deleted, with its owner. `dependents` carries that out.
"""

from __future__ import annotations

from typing import Any

from stateward.codec import decode, encode
from stateward.kinds import QUESTION, WORKFLOW
from stateward.ops import Entity, Found, Put, Value
from stateward.records import OpenQuestion, moment

OPEN = "open"


class LooseEnds:
    """The document in its driver's memory. Changes are stored with the driver's next commit."""

    def __init__(self, json: str | None = None) -> None:
        record = {} if json is None else decode(json)
        self.questions: dict[str, str] = record.get("questions", {})  # id of the question by wait
        self.children: dict[str, dict[str, Any]] = record.get("children", {})  # id, kind by step
        self.ended: dict[str, dict[str, Any]] = record.get("ended", {})  # children, by step
        self.effects: bool = record.get("effects", False)  # whether effects expire with it
        self.changed = False

    def __bool__(self) -> bool:
        return bool(self.questions or self.children or self.ended or self.effects)

    def asks(self, wait: str, question: str) -> None:
        """Note a question that is about to be asked."""
        self.questions[wait] = question
        self.changed = True

    def has(self, step: str, child: str, kind: str) -> None:
        """Note a child that is about to be started."""
        self.children[step] = {"id": child, "kind": kind}
        self.changed = True

    def acts(self) -> None:
        """Note that the workflow has effects, which expire with it."""
        self.changed |= not self.effects
        self.effects = True

    def close(self, id: str) -> None:
        """Note that the question or child of this wait or step is no longer open."""
        if child := self.children.pop(id, None):
            self.ended[id] = child
        if self.questions.pop(id, None) or child:
            self.changed = True

    @property
    def put(self) -> Put:
        """The write that stores the document."""
        record = {"questions": self.questions, "children": self.children, "ended": self.ended}
        return Put(OPEN, encode(record | {"effects": self.effects}, OPEN))


def question_of(question: Found) -> OpenQuestion:
    """Return a question as it is listed."""
    record = decode(question.documents[QUESTION].json)
    return OpenQuestion(
        question.entity.id,
        record["workflow"],
        record["kind"],
        question.head.owner or None,
        record["signal"],
        record["ask"],
        record["for"],
        moment(record["asked"]),
        None if record["until"] is None else moment(record["until"]),
    )


def opened_by(namespace: str, value: Value) -> list[Entity]:
    """Return the entities that a workflow's document names."""
    loose = LooseEnds(value.json)
    questions = [Entity(namespace, QUESTION, id) for id in loose.questions.values()]
    children = [Entity(namespace, WORKFLOW, child["id"]) for child in loose.children.values()]
    return questions + children
