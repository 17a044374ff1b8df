"""The asker of a request and its rights: the one check that every operation passes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from stateward.bounds import check_op
from stateward.errors import NotPermitted
from stateward.kinds import (
    AGENT_FRAMEWORK_RUN,
    AUDIT,
    BLOB,
    EFFECT,
    FORK,
    HEARTBEAT,
    JOURNAL,
    LANGGRAPH_ITEM,
    LANGGRAPH_THREAD,
    OPERATIONS,
    QUESTION,
    SUMMARY,
    TASK,
    THREAD,
    TURN,
    USER,
    WORKFLOW,
)
from stateward.ops import (
    Commit,
    Drop,
    Entity,
    Fetch,
    List,
    NotYours,
    Op,
    Outcome,
    Restore,
    SetHead,
    Sweep,
)

SCOPES = ("read", "write", "operate", "admin")  # each permits what those before it do
# What a key of one user may write: nothing by whose name others could be kept out.
PERSONAL = frozenset(
    {
        *(THREAD, USER, WORKFLOW, TASK, JOURNAL, BLOB, LANGGRAPH_THREAD, LANGGRAPH_ITEM),
        *(AGENT_FRAMEWORK_RUN, EFFECT, TURN, SUMMARY, FORK, HEARTBEAT),
    }
)
OWN_NAMESPACE = "stateward.service"  # where the service keeps what is its own


class Rate(Struct, frozen=True):
    """How fast someone may ask."""

    per_second: float
    burst: int  # in one moment, after a pause


class Asker(Struct, frozen=True):
    """The rights of a key or a token."""

    name: str  # the id of the key, or the subject of the token
    scope: str
    namespaces: frozenset[str] | None = None  # None: every one
    user: str | None = None  # None: everybody's
    by_token: bool = False
    rate: Rate | None = None  # None: the service's own
    expires: float | None = None  # by the service's clock; None: not by itself

    @property
    def who(self) -> str:
        """As the operations log has it. No subject of a token can pass for a key."""
        return f"token of {self.name}" if self.by_token else f"key {self.name}"

    @property
    def is_unlimited(self) -> bool:
        return self.scope == "admin" and self.namespaces is None and self.user is None

    @property
    def is_operator(self) -> bool:
        """Return whether its changes count as made by hand, and go into the operations log."""
        return SCOPES.index(self.scope) >= SCOPES.index("operate")

    def require(self, scope: str) -> None:
        """Refuse what needs more than the key permits."""
        if SCOPES.index(self.scope) < SCOPES.index(scope):
            raise NotPermitted(
                f"this key has the scope {self.scope!r}, and this needs {scope!r}: ask with "
                "another key"
            )

    def permitted(self, op: Op) -> Op | NotYours:
        """The operation as this key may ask it; or what it is answered unasked.

        Raises `NotPermitted`, and `InvalidInput` for a field out of its bounds. A key of one user
        asks for what is theirs and nothing else, whatever the operation says.
        """
        check_op(op)
        if self.is_unlimited:
            return op
        if isinstance(op, Sweep):
            # Of whatever namespace: it removes nothing that anybody could still read, and an
            # erasure ends with it.
            self.require("write")
            return op
        if isinstance(op, List):
            self.enter(op.namespace)
            if op.within is not None:
                self.enter(op.within.namespace)
            if self.user is not None and op.owner not in (None, self.user):
                raise NotPermitted("this key is for one user, and the listing is about another")
            return op if self.user is None else replace(op, owner=self.user)
        self.enter(op.entity.namespace)
        if isinstance(op, Commit):
            self._check_writes(op)
        if self.user is None:
            return op
        return self._theirs(op)

    def _check_writes(self, op: Commit) -> None:
        kind = op.entity.kind
        self.require("operate" if kind in (OPERATIONS, AUDIT) else "write")
        # To take a question of their own back, which an answer does, but never to ask one.
        withdraws = kind == QUESTION and op.writes == (Drop(),)
        if self.user is not None and kind not in PERSONAL and not withdraws:
            raise NotPermitted(
                f"this key is for one user, and a {kind} does not belong to one user"
            )
        for write in op.writes:
            if isinstance(write, Restore):
                self.require("operate")
                if self.user is not None:
                    raise NotPermitted(
                        "this key is for one user, and a restore sets what the store itself decides"
                    )
            gives = isinstance(write, SetHead) and write.owner not in (None, self.user)
            if gives and self.user is not None:
                raise NotPermitted("this key is for one user: it cannot give to another")

    def _theirs(self, op: Commit | Fetch) -> Op | NotYours:
        if op.entity.kind == USER and op.entity.id != self.user:
            return NotYours()  # also where no one is yet: a name must not be taken from another
        if op.owner is None:
            return replace(op, owner=self.user)
        return op if op.owner == self.user else NotYours()

    def enter(self, namespace: str) -> None:
        """Refuse a namespace that the key is not for."""
        if namespace == OWN_NAMESPACE and not self.is_unlimited:
            raise NotPermitted("the service's own namespace is only for administrators")
        if self.namespaces is not None and namespace not in self.namespaces:
            raise NotPermitted(f"this key is not for the namespace {namespace!r}")

    def questions(self, entities: Sequence[Entity]) -> list[Fetch]:
        """Return reads that tell whether these entities are the user's; none without a user."""
        for entity in entities:
            self.enter(entity.namespace)
        return [] if self.user is None else [Fetch(each, self.user) for each in entities]


def merged(asked: Sequence[Op | NotYours], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of what was asked of the store, with those that were answered unasked."""
    answered = iter(outcomes)
    return [each if isinstance(each, NotYours) else next(answered) for each in asked]
