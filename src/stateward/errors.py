"""Every error Stateward raises. All derive from `StatewardError`.

Each message says what happened and what to do; the driver's own error, where there is one, is
kept as `__cause__`. Unless an error says otherwise, nothing was written.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal


class StatewardError(Exception):
    """The root of all errors raised by Stateward."""


# --- the caller's to mend ---------------------------------------------------------------


class InvalidInput(StatewardError, ValueError):
    """A value, id, option or URL that cannot be used. Nothing was written."""


class TooLarge(InvalidInput):
    """A message or commit over the configured limit. Nothing was written."""


class NotPermitted(InvalidInput):
    """The key that a service was asked with does not permit this. Nothing was written."""


class WindowTooSmall(StatewardError, ValueError):
    """What a prompt cannot do without does not fit into the window that was asked for."""


class StoreMisused(StatewardError, RuntimeError):
    """A store used after close, after a fork, or from another event loop."""


class StoreClosed(StoreMisused):
    """The store was closed. Work that this met is left to others: it has not failed."""


class BackupDamaged(StatewardError):
    """The file is no complete backup, or one of a newer format. Nothing was written."""


# --- refusals: the store works and says no ----------------------------------------------


class StateConflictError(StatewardError):
    """Somebody else changed the state first. `current` is what is there now."""

    def __init__(self, message: str, *, expected: Any = None, current: Any = None) -> None:
        super().__init__(message)
        self.expected = expected
        self.current = current


class KeyReusedError(StatewardError):
    """An idempotency key was used again for something else."""


class NotYoursError(StatewardError):
    """The thread belongs to another user."""


class LeaseLost(StatewardError):
    """The lease was released or taken over, or its holder's time is up; nothing was written."""


class LeaseHeld(StatewardError):
    """Somebody else holds the lease. `remaining` says for how many seconds at most."""

    def __init__(self, message: str, *, remaining: float, holder: str) -> None:
        super().__init__(message)
        self.remaining = remaining
        self.holder = holder


class WrongReplica(StatewardError):
    """This state lives with another replica: `owner`. Send the request there."""

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__(message)
        self.owner = owner


class WorkflowFinished(StatewardError):
    """The workflow has already come to its end; it only replays what was recorded."""


class WorkflowCancelled(WorkflowFinished):
    """The workflow was cancelled: its driver is told so at its next step. The message says why."""


class WorkflowFailed(StatewardError):
    """The workflow whose result was asked for, or a child of this one, has failed."""


class TaskFailed(StatewardError):
    """The task failed for good, at an earlier delivery; the message says how."""


class TaskCancelled(TaskFailed):
    """The task was cancelled; the message says why. Nothing of it was or will be recorded."""


class StepFailed(StatewardError):
    """A step of a workflow failed at an earlier try, by an exception that is not known here."""


class EffectUnknown(StatewardError):
    """Nobody knows whether an effect happened: it was begun, and its end is not recorded.

    It is not repeated. Look at the other side (`effect` is its id, `key` its idempotency key), then
    say what is true: `store.effect(id).resolve(...)`, or `stateward effect resolve`. Raise it in a
    function that is run as an effect and cannot tell whether it has done anything.
    """

    def __init__(self, message: str = "", *, effect: str = "", key: str = "") -> None:
        super().__init__(message)
        self.effect = effect
        self.key = key


class Permanent(StatewardError):
    """Raise this in a task or step whose failure no retry can mend: it is recorded at once."""


class Reset(StatewardError):
    """The history you were following is gone: erased and begun anew, restored or rewound.

    Start again from the beginning: what you read before may no longer be true.
    """


class Truncated(StatewardError):
    """Entries you have not read were trimmed. `base` is the last number that is missing."""

    def __init__(self, message: str, *, base: int) -> None:
        super().__init__(message)
        self.base = base


class NotKept(StatewardError):
    """The past that was asked for is not kept: any more, or it never was.

    `since` is from when on it is kept, or None if that is not known.
    """

    def __init__(self, message: str, *, since: datetime | None = None) -> None:
        super().__init__(message)
        self.since = since


# --- the store's failure ----------------------------------------------------------------


class StoreUnavailable(StatewardError):
    """The store did not answer, or failed.

    `applied` says what became of the write: "no", or "unknown" (it may have been stored;
    repeating the same call with the same key is safe).
    """

    def __init__(self, message: str, *, applied: Literal["no", "unknown"] = "no") -> None:
        super().__init__(message)
        self.applied = applied


class StoreTooSlow(StoreUnavailable):
    """The store did not answer within the time a call may take."""


class AccessRefused(StoreUnavailable):
    """The store is there and lets nobody in, or is not who it should be.

    A wrong password, role, database or permission; or a certificate, of either side, that the other
    does not accept.

    Waiting does not help, so a store that meets it when it starts raises it at once.
    """


class EntityBusy(StoreUnavailable):
    """Somebody outside has locked what this call writes to; the store answers all others.

    Look for a transaction that was left open.
    """


class NotLaidOut(StoreUnavailable):
    """The volume of this replica is not laid out for the present list of replicas.

    Nothing is kept locally meanwhile: it is not known whose it will be.
    """


class DiskProblem(StoreUnavailable):
    """The disk under the store is full or read-only. Reads go on."""


class StoreFull(StoreUnavailable):
    """The server has no memory left for writes. Reads go on, and so does what makes room."""


class SchemaError(StatewardError):
    """The store holds something this release cannot use; the message says what to do."""
