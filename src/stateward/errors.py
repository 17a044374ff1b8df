"""All errors that Stateward raises. They derive from `StatewardError`.

Each message says what happened and what to do; the driver's own error, if any, is its
`__cause__`. Unless an error says otherwise, nothing was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal


class StatewardError(Exception):
    """The root of all errors raised by Stateward."""


# --- for the caller to fix ---------------------------------------------------------------


class InvalidInput(StatewardError, ValueError):
    """A value, id, option or URL that cannot be used. Nothing was written."""


class TooLarge(InvalidInput):
    """A message or commit over the configured limit. Nothing was written."""


class NotPermitted(InvalidInput):
    """The key used for the service does not permit this. Nothing was written."""


class WindowTooSmall(StatewardError, ValueError):
    """The messages that a prompt must contain do not fit into the requested window."""


class StoreMisused(StatewardError, RuntimeError):
    """A store used after close, after a fork, or from another event loop."""


class StoreClosed(StoreMisused):
    """The store was closed. Work in progress has not failed: other processes continue it."""


class BackupDamaged(StatewardError):
    """The file is not a complete backup, or has a newer format. Nothing was written."""


# --- refusals by a working store ---------------------------------------------------------


class StateConflictError(StatewardError):
    """Another writer changed the state first. `current` is what is stored now."""

    def __init__(self, message: str, *, expected: Any = None, current: Any = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.current = current


class KeyReusedError(StatewardError):
    """An idempotency key was reused for a different request."""


class NotYoursError(StatewardError):
    """The thread belongs to another user."""


class ConversationDeletedError(StatewardError):
    """The conversation was deleted, its user erased, or its retention ended, after this was begun.

    Nothing was written, and a retry would bring back what was deleted: stop. What is begun from now
    on starts a new conversation.
    """


class TurnStopped(StatewardError):
    """The live answer was stopped: `thread.stop(request)`. Nothing is read of what comes after it.

    The turn can still store what was written until then.
    """


class LeaseLost(StatewardError):
    """The lease was released or taken over, or has expired. Nothing was written."""


class LeaseHeld(StatewardError):
    """Another process holds the lease. `remaining` says for how many seconds at most."""

    def __init__(self, message: str, *, remaining: float, holder: str) -> None:
        super().__init__(message)
        self.remaining = remaining
        self.holder = holder


class WrongReplica(StatewardError):
    """This state lives on another replica: `owner`. Send the request there."""

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__(message)
        self.owner = owner


class WorkflowFinished(StatewardError):
    """The workflow has already ended; it only replays what was recorded."""


class WorkflowCancelled(WorkflowFinished):
    """The workflow was cancelled; the message says why. Its driver gets this at its next step."""


class WorkflowFailed(StatewardError):
    """The workflow whose result was requested, or a child of this workflow, has failed."""


class TaskFailed(StatewardError):
    """The task failed permanently, at an earlier delivery; the message has the failure.

    `task` is its id.
    """

    def __init__(self, message: str = "", *, task: str = "") -> None:
        super().__init__(message)
        self.task = task


class TaskCancelled(TaskFailed):
    """The task was cancelled; the message has the reason. No result was or will be recorded."""


class StepFailed(StatewardError):
    """A step of a workflow failed in an earlier attempt, with an exception type unknown here."""


class EffectUnknown(StatewardError):
    """It is unknown whether an effect happened: it was started, and no outcome was recorded.

    It is not repeated. Check with the other system (`effect` is its id, `key` its idempotency key),
    then record the outcome: `store.effect(id).resolve(...)`, or `stateward effect resolve`. Raise
    it in a function that is run as an effect and cannot know whether it has done anything.
    """

    def __init__(self, message: str = "", *, effect: str = "", key: str = "") -> None:
        super().__init__(message)
        self.effect = effect
        self.key = key


class Permanent(StatewardError):
    """Raise this in a task or step to make its failure final: it is not retried."""


class Reset(StatewardError):
    """The history you were following is gone: deleted and created again, or restored.

    Start again from the beginning: what you read before may no longer be true.
    """


class Truncated(StatewardError):
    """Entries you have not read were trimmed. `base` is the last number that is missing."""

    def __init__(self, message: str, *, base: int) -> None:
        super().__init__(message)
        self.base = base


class NotKept(StatewardError):
    """The requested part of the history is not, or no longer, stored.

    `since` is the time from which it is stored, or None if that is not known.
    """

    def __init__(self, message: str, *, since: datetime | None = None) -> None:
        super().__init__(message)
        self.since = since


# --- the store's failure ----------------------------------------------------------------


class StoreUnavailable(StatewardError):
    """The store did not answer, or failed.

    `applied` says whether the write was applied: "no", or "unknown" (it may have been stored;
    repeating the same call with the same key is safe). `is_busy`: the store serves other calls, so
    this one is worth repeating until its deadline, whatever the number of failures.
    """

    is_busy = False

    def __init__(self, message: str, *, applied: Literal["no", "unknown"] = "no") -> None:
        super().__init__(message)
        self.applied = applied


class NotReplicated(StoreUnavailable):
    """The write is stored on the primary, but too few replicas have confirmed it in time.

    A failover now could lose it. Repeating the call is safe, and waits for the replicas again.
    `outcomes` are those of all operations of the call; engines and layers use them.
    """

    def __init__(
        self,
        message: str,
        *,
        applied: Literal["no", "unknown"] = "unknown",
        outcomes: Sequence[Any] = (),
    ) -> None:
        super().__init__(message, applied=applied)
        self.outcomes = outcomes


class TooFewReplicas(StoreUnavailable):
    """The server takes no writes until it has its replicas back. Reads still work."""


class StoreTooSlow(StoreUnavailable):
    """The store did not answer before the deadline of the call."""


class AccessRefused(StoreUnavailable):
    """The store refuses access, or could not be authenticated.

    A wrong password, role, database or permission; or a certificate, of either side, that the other
    does not accept.

    Waiting does not help, so opening a store raises this immediately.
    """


class EntityBusy(StoreUnavailable):
    """Another program has locked what this call writes to; the store serves all other calls.

    Look for a transaction that was left open.
    """

    is_busy = True


class NotLaidOut(StoreUnavailable):
    """The volume of this replica is not laid out for the current list of replicas.

    Nothing is spilled until it is: the owner of the state is not known yet.
    """


class DiskProblem(StoreUnavailable):
    """The store's disk is full or read-only. Reads still work."""


class StoreFull(StoreUnavailable):
    """The server has no memory left for writes. Reads and deletions still work."""


class SchemaError(StatewardError):
    """The store has a format that this release cannot use; the message says what to do.

    `missing`: the store holds nothing yet, not even a schema.
    """

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing
