"""A document as the engine returned it: as a record, and the check that it is unchanged. No I/O."""

from __future__ import annotations

from stateward.codec import decode
from stateward.ops import DocumentAt, Value
from stateward.records import Document


def document(value: Value | None) -> Document:
    """Return a stored value as a record; a missing one is `{}` with version 0."""
    if value is None:
        return Document({})
    return Document(decode(value.json), value.version, value.stamp, value.updated)


def document_at(name: str, value: Value | None) -> DocumentAt:
    """Return the check that a document is still the value that was read."""
    return DocumentAt(name, 0) if value is None else DocumentAt(name, value.version, value.stamp)
