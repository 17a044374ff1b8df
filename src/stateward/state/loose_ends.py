"""Open questions to people and open children of a workflow.

No commit spans two entities. So a workflow first records in its own document what it is about to
open. When the workflow ends, everything in that document is closed before the workflow is no longer
due: if the process that closes it dies, a worker takes over.
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
        self.changed = False

    def __bool__(self) -> bool:
        return bool(self.questions or self.children)

    def asks(self, wait: str, question: str) -> None:
        """Note a question that is about to be asked."""
        self.questions[wait] = question
        self.changed = True

    def has(self, step: str, child: str, kind: str) -> None:
        """Note a child that is about to be started."""
        self.children[step] = {"id": child, "kind": kind}
        self.changed = True

    def close(self, id: str) -> None:
        """Forget the question or child that was open under this wait or step."""
        if self.questions.pop(id, None) or self.children.pop(id, None):
            self.changed = True

    @property
    def put(self) -> Put:
        """The write that stores the document."""
        return Put(OPEN, encode({"questions": self.questions, "children": self.children}, OPEN))


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
