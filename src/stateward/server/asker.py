"""The asker of a request and its rights: the one check that every operation passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from stateward.actions.rights import BUILT_IN, ROLE_OF, ROLES, SCOPE_OF, WIDE, Only, Role
from stateward.bounds import check_op
from stateward.codec import shown
from stateward.errors import NotPermitted
from stateward.kinds import AUDIT, KINDS, OPERATIONS, QUESTION, SHARED, USER, ids_of
from stateward.layers.layer import Execute
from stateward.ops import (
    NOWHERE,
    Commit,
    Delete,
    Drop,
    Entity,
    Fetch,
    Fetched,
    List,
    NotYours,
    Op,
    Outcome,
    Put,
    Restore,
    SetHead,
    Sweep,
)
from stateward.owner import UNSAID, Whose
from stateward.state.stream_record import is_settling

SCOPES = tuple(ROLE_OF)  # each permits what those before it do
OWN_NAMESPACE = "stateward.service"  # where the service keeps what is its own


class Rate(Struct, frozen=True):
    """How fast someone may ask."""

    per_second: float
    burst: int  # in one moment, after a pause


class DeviceRights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rights of keys and tokens of one user, beyond their own conversations. "*": any name."""

    documents: tuple[str, ...] = ()  # of the user, that they may write
    starts: tuple[str, ...] = ()  # kinds of workflows
    signals: tuple[str, ...] = ()  # names of signals to their workflows

    def require(self, what: str, name: str) -> None:
        """Refuse a name that the setting `documents`, `starts` or `signals` does not list."""
        listed: tuple[str, ...] = getattr(self, what)
        if name not in listed and "*" not in listed:
            raise NotPermitted(
                f"this key is for one user, and the service's setting devices.{what} does not "
                f"list {shown(name)}"
            )


class Quota(Protocol):
    """A count of what is written, which may refuse more."""

    def check(self, commit: Commit) -> None:
        """Refuse a commit that would be too much."""

    def count(self, ops: Sequence[Op], outcomes: Sequence[Outcome]) -> None:
        """Count what was written."""


class Asker(Struct, frozen=True):
    """The rights of a key or a token."""

    name: str  # the id of the key, or the subject of the token
    scope: str  # or, with a role, the scope that the action needs which is being carried out
    namespaces: frozenset[str] | None = None  # None: every one
    user: str | None = None  # None: everybody's
    by_token: bool = False
    rate: Rate | None = None  # None: the service's own
    expires: float | None = None  # by the service's clock; None: not by itself
    role: Role | None = None  # None: the one that the scope stands for
    only: tuple[Only, ...] = ()  # names that all of them allow; none: any
    # Of a key of one user, by the request:
    rights: DeviceRights = DeviceRights()
    writes: tuple[str, ...] = ()  # kinds
    is_credential: bool = True  # False: whoever is on this machine, without a key
    names_for_it: bool = False  # the service itself names what the request creates
    meter: Quota | None = None  # None: nobody has a quota

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
        if self.role is not None:
            return self.role.by_hand
        return SCOPES.index(self.scope) >= SCOPES.index("operate")

    def require(self, scope: str) -> None:
        """Refuse what needs more than the key permits."""
        if SCOPES.index(self.scope) < SCOPES.index(scope):
            raise NotPermitted(
                f"this key has the scope {self.scope!r}, and this needs {scope!r}: ask with "
                "another key"
            )

    def has_right(self, right: str, least: str) -> bool:
        """Return whether the key's role has a right, of which `least` is the least role."""
        if self.only and right in WIDE:
            return False
        return self.has_right_unnarrowed(right, least)

    def has_right_unnarrowed(self, right: str, least: str) -> bool:
        """Return whether it would have the right if it were not narrowed to names."""
        role = BUILT_IN[self.scope] if self.role is None else self.role
        return role.has(right, least)

    @property
    def role_name(self) -> str:
        """The name of its role, as the reference calls it."""
        if self.role is not None:
            return self.role.name
        return "device" if self.user and self.scope == "write" else ROLE_OF[self.scope]

    def require_right(self, right: str, least: str) -> None:
        """Refuse what needs a right that the key's role does not have."""
        if self.has_right(right, least):
            return
        if self.only and right in WIDE:
            why = f"is only for certain {self.narrowed_to}, and {right} cannot be narrowed"
        elif self.role is not None:
            why = f"has the role {self.role.name!r}, which does not have the right {right}"
        else:
            scope = SCOPE_OF[least]
            why = f"has the scope {self.scope!r}, and {right} needs {scope!r}"
        raise NotPermitted(f"this key {why}: ask with another key")

    @property
    def narrowed_to(self) -> str:
        """The sorts of names that it is narrowed to."""
        sorts = {
            what
            for only in self.only
            for what in Only.__struct_fields__
            if getattr(only, what) is not None
        }
        return " and ".join(sorted(sorts))

    def acting(self, least: str) -> Asker:
        """Return the asker for one action that its role has the right to."""
        if self.role is None:
            return self
        return replace(self, scope=SCOPES[max(self.role.level, ROLES.index(least))])

    def require_name(self, what: str, name: str) -> None:
        """Refuse a name that keys of one user may not use: see `DeviceRights`."""
        if self.user is not None:
            self.rights.require(what, name)

    def whose(self, user: str | None) -> Whose:
        """Return the user whose state is meant: the key's user, or as the request says."""
        if self.user is None:
            return UNSAID if user is None else user
        if user not in (None, self.user):
            raise NotPermitted("this key is for one user, and this is about another")
        return self.user

    def permitted(self, op: Op) -> Op | NotYours:
        """The operation as this key may ask it; or what it is answered unasked.

        Raises `NotPermitted`, and `InvalidInput` for a field out of its bounds. A key of one user
        asks for what is theirs and nothing else, whatever the operation says.
        """
        check_op(op)
        if self.only:
            self._check_documents(op)
        if self.is_unlimited:
            if isinstance(op, Commit) and self.is_credential:
                self._check_writes(op)
            return op
        if isinstance(op, Sweep):
            # Of whatever namespace: it removes nothing that anybody could still read, and an
            # erasure ends with it.
            self.require("write")
            if self.user is not None:
                raise NotPermitted("this key is for one user, and a sweep is for the whole store")
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

    def _check_documents(self, op: Op) -> None:
        """Refuse documents of users, and shared ones, that the key is not narrowed to."""
        if isinstance(op, List):
            kind = op.kind if op.within is None else op.within.kind
            names, asks_for_all = op.documents, op.within is not None
        elif isinstance(op, Commit):
            kind, asks_for_all = op.entity.kind, False
            names = tuple(write.name for write in op.writes if isinstance(write, Put | Delete))
        elif isinstance(op, Fetch):
            kind, names = op.entity.kind, op.documents
            asks_for_all = op.all_documents
        else:
            return
        if kind not in (USER, SHARED):
            return
        for only in self.only:
            if only.documents is not None and asks_for_all:
                raise NotPermitted("this key is only for certain documents: name one")
            for name in names:
                if not only.has("documents", name):
                    raise NotPermitted(
                        f"this key is only for certain documents, and {shown(name)} is none of them"
                    )

    def _check_writes(self, op: Commit) -> None:
        if NOWHERE in op.checks or is_settling(op):
            return  # reading a live answer takes both: the one writes nothing, the other what is so
        kind = op.entity.kind
        if kind == OPERATIONS:
            raise NotPermitted("the operations log is written by the service alone")
        self.require("operate" if kind == AUDIT else "write")
        if self.meter is not None and not self.is_unlimited:
            self.meter.check(op)
        if self.user is None:
            if any(isinstance(write, Restore) for write in op.writes):
                self.require("operate")
            return
        # To take a question of their own back, which an answer does, but never to ask one.
        asks = kind == QUESTION and op.writes != (Drop(),)
        if kind not in self.writes or asks:
            raise NotPermitted(
                f"this key is for one user, and writes no {kind} by this request: an agent, with a "
                "key for all users, does it for them"
            )
        for write in op.writes:
            if isinstance(write, Restore):
                raise NotPermitted(
                    "this key is for one user, and a restore sets what the store itself decides"
                )
            if isinstance(write, SetHead) and write.owner not in (None, self.user):
                raise NotPermitted("this key is for one user: it cannot give to another")
            if kind == USER and isinstance(write, Put | Delete):
                self.rights.require("documents", write.name)

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

    def is_named_by_others(self, entity: Entity) -> bool:
        """Return whether another user, or an agent, could have chosen or still choose the id.

        What a key of one user then finds absent is answered like what belongs to others: neither
        does it learn which ids exist, nor can it take one.
        """
        if self.user is None or self.names_for_it or entity.kind == USER:
            return False
        kind = KINDS.get(entity.kind)
        is_internal = kind is not None and kind.internal
        return not is_internal and not entity.id.startswith(ids_of(self.user))


def with_role(asker: Asker, roles: Mapping[str, Role]) -> Asker:
    """Return the asker with the role that its key or token names, where that is no scope."""
    if asker.scope in SCOPES:
        return asker
    role = roles.get(asker.scope)
    if role is None:
        raise NotPermitted(
            f"this key has the role {asker.scope!r}, which is not known here: the service's "
            f"serve.toml needs a section [roles.{asker.scope}]"
        )
    only = (*asker.only, role.only) if role.only.narrows else asker.only
    return replace(asker, scope=SCOPES[0], role=role, only=only)


async def executed(
    asker: Asker, ops: Sequence[Op], execute: Execute, deadline: float | None = None
) -> list[Outcome]:
    """Execute what the asker may ask, and answer the rest unasked."""
    asked = [asker.permitted(op) for op in ops]
    if asker.user is not None:
        asked = await _of_existing(asker, asked, execute, deadline)
    permitted = [op for op in asked if not isinstance(op, NotYours)]
    results = await execute(permitted, deadline) if permitted else []
    if asker.meter is not None:
        asker.meter.count(permitted, results)
    answered = iter(results)
    outcomes = [each if isinstance(each, NotYours) else next(answered) for each in asked]
    if asker.user is None:
        return outcomes
    return [
        NotYours()
        if isinstance(outcome, Fetched)
        and not outcome.head.exists
        and isinstance(op, Fetch)
        and asker.is_named_by_others(op.entity)
        else outcome
        for op, outcome in zip(ops, outcomes, strict=True)
    ]


async def _of_existing(
    asker: Asker, asked: list[Op | NotYours], execute: Execute, deadline: float | None
) -> list[Op | NotYours]:
    """Return the operations without commits that would create what others may name."""
    named = {
        op.entity: Fetch(op.entity, asker.user)
        for op in asked
        if isinstance(op, Commit) and asker.is_named_by_others(op.entity)
    }
    if not named:
        return asked
    outcomes = await execute(list(named.values()), deadline)
    there = {
        entity
        for entity, outcome in zip(named, outcomes, strict=True)
        if isinstance(outcome, Fetched) and outcome.head.exists
    }
    return [
        NotYours()
        if isinstance(op, Commit) and op.entity in named and op.entity not in there
        else op
        for op in asked
    ]
