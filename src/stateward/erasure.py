"""Where it is remembered that a user was erased."""

from __future__ import annotations

from hashlib import sha256

from stateward.ops import Entity

MARK = "erased"  # the kind of the entity, and the name of its document, that remember an erasure


def mark_of(namespace: str, user: str) -> Entity:
    """The entity of the mark: under a digest, so that it does not name the user."""
    return Entity(namespace, MARK, sha256(user.encode()).hexdigest())
