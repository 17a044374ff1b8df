"""What a workflow has open outside of itself: questions to people, and children.

No commit spans two entities. So a workflow says first, in a document of its own, what it is about
to open. Whoever ends it finds that there, and what is found is closed before the ended workflow is
no longer due: if one who does that dies, a worker does it.
"""

from __future__ import annotations

from typing import Any

from stateward.codec import decode, encode
from stateward.kinds import QUESTION, WORKFLOW
from stateward.ops import DocumentAt, Entity, Found, Put, Value
from stateward.records import OpenQuestion, moment

OPEN = "open"


class LooseEnds:
    """The document, as its driver has it. Changes are stored with whatever is committed next."""

    def __init__(self, json: str | None = None) -> None:
        record = {} if json is None else decode(json)
        self.questions: dict[str, str] = record.get("questions", {})  # by wait: its id
        self.children: dict[str, dict[str, Any]] = record.get("children", {})  # by step: id, kind
        self.changed = False

    def __bool__(self) -> bool:
        return bool(self.questions or self.children)

    def asks(self, wait: str, question: str) -> None:
        """A question is about to be asked."""
        self.questions[wait] = question
        self.changed = True

    def has(self, step: str, child: str, kind: str) -> None:
        """A child is about to be started."""
        self.children[step] = {"id": child, "kind": kind}
        self.changed = True

    def close(self, id: str) -> None:
        """What was open under this wait or step is not any more."""
        if self.questions.pop(id, None) or self.children.pop(id, None):
            self.changed = True

    @property
    def put(self) -> Put:
        """What stores it."""
        return Put(OPEN, encode({"questions": self.questions, "children": self.children}, OPEN))


def question_of(found: Found) -> OpenQuestion:
    """A question as listed."""
    record = decode(found.documents[QUESTION].json)
    return OpenQuestion(
        found.entity.id,
        record["workflow"],
        record["kind"],
        found.head.owner or None,
        record["signal"],
        record["ask"],
        record["for"],
        moment(record["asked"]),
        None if record["until"] is None else moment(record["until"]),
    )


def opened_by(namespace: str, value: Value) -> list[Entity]:
    """The entities that a workflow's document names."""
    loose = LooseEnds(value.json)
    questions = [Entity(namespace, QUESTION, id) for id in loose.questions.values()]
    children = [Entity(namespace, WORKFLOW, child["id"]) for child in loose.children.values()]
    return questions + children


def open_as(value: Value | None) -> DocumentAt:
    """The check that a workflow has opened nothing else since its document was read."""
    return DocumentAt(OPEN, 0) if value is None else DocumentAt(OPEN, value.version, value.stamp)
