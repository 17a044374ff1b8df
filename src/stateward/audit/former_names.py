"""Names that promises had in saved records of formats 1 to 4, and their names now."""

from __future__ import annotations

from msgspec.structs import replace

from stateward.audit.record import FORMAT, Check, Record

# By the field of the record that holds the checks.
RENAMED: dict[str, dict[str, str]] = {
    "version_checks": {
        "the right version": "current version accepted",
        "too old": "old version refused",
        "too new": "future version refused",
        "nought": "expect=0 only creates",
        "refused changes nothing": "a refused put changes nothing",
        "told": "versions are reported",
        "raised by a put": "a put increments the version",
        "raised by an update": "an update increments the version",
        "a version that another changed": "another replica's change is detected",
        "one of many wins": "one of several concurrent puts wins",
    },
    "context": {
        "the instruction": "system instruction",
        "the newest message": "newest message",
        "the question that is worked on": "current question",
        "calls with their results": "tool calls with their results",
        "no more than asked for": "no more messages than requested",
        "as it was stored": "messages as stored",
        "all that there is room for": "everything that fits",
    },
    "effects": {
        "it acts": "every tool acts",
        "what is recorded is not done again": "completed work is not repeated",
        "the key is the same at every try": "same key for every attempt",
        "another act has another key": "different keys for different actions",
        "an act that is repeated is told apart": "repeated actions can be detected",
    },
    "erasure": {
        "gone at once": "gone immediately",
        "gone for a new process": "gone in a new process",
        "others stay": "other people's data stays",
        "nothing of it is stored": "no trace in the store",
        "nothing of it in the server's files": "no trace in the server's files",
        "turns kept for later": "spilled turns",
        "a new beginning": "id used again",
        "a backup made afterwards": "a later backup",
    },
    "fidelity": {
        "many messages at once": "many messages in one append",
        "what is refused leaves nothing": "a refused write leaves nothing behind",
    },
    "isolation": {
        "one's own state": "a user's own state",
        "one's own conversation": "a conversation's own messages",
        "all of one's own": "own writes complete",
        "what is not there yet": "default values",
        "one id for several kinds": "same id for several kinds",
        "one's own tenant": "separate tenants",
    },
    "keys": {
        "once at once": "redelivered immediately",
        "another conversation": "same key in another conversation",
        "the same words": "same text with another key",
        "the place": "order kept",
        "no error": "redelivery raises no error",
        "keys that look alike": "similar keys",
        "once later": "redelivered later",
        "once in flight": "delivered concurrently",
        "once after a restart": "redelivered after a restart",
    },
    "kill_checks": {
        "what was acknowledged": "acknowledged turns",
        "all or none": "whole turns",
        "readable": "data stays readable",
        "delivered again after a kill": "redelivery after a kill",
        "users' state that was acknowledged": "acknowledged users' state",
        "tasks that were acknowledged": "completed tasks",
    },
    "lock_checks": {
        "one at a time": "one holder at a time",
        "as long as asked": "held for its ttl",
        "let go": "free after release",
        "another conversation": "other conversations not blocked",
        "the holder is killed": "free after its holder is killed",
        "a former holder frees nothing": "a former holder cannot release it",
        "a former holder writes nothing": "a former holder's writes are refused",
    },
    "orphans": {
        "a turn with a tool call": "tool call and result after a kill",
        "the call is known": "acknowledged tool calls",
        "a result that comes later": "results added later",
        "a window of its own making": "windows that leave messages out",
        "a window that a model takes": "windows that models accept",
    },
    "retention": {
        "kept so long": "kept until it expires",
        "prolonged by a turn": "a turn resets the expiry",
        "gone afterwards": "gone after it expires",
        "not prolonged by a read": "a read does not reset the expiry",
    },
    "task_checks": {
        "the worker is killed": "killed worker",
        "a task that takes long": "long task",
        "a failure": "failed task not recorded as done",
        "a failure can be tried again": "failed task can be retried",
        "others are given the result": "waiting callers get the result",
        "results": "results unchanged",
        "another task": "independent tasks",
        "once in one process": "concurrent calls in one process",
    },
    "update_checks": {
        "a put replaces": "a put replaces the document",
        "an update replaces": "an update can remove fields",
        "an update sees what is stored": "an update gets the stored value",
        "an update that raises": "a failed update changes nothing",
        "what a caller changes stays his own": "callers get their own copy",
        "no half of an update": "no partial updates",
    },
    "windows": {
        "the newest": "newest message",
        "the last ones": "last K messages",
        "the whole": "all messages",
        "the last ones of a long conversation": "last K messages of a long conversation",
        "the whole of a long conversation": "all messages of a long conversation",
        "in the order of appends": "order of appends",
        "a window of none": "load(last=0)",
        "an unknown conversation": "unknown conversation",
        "what a caller changes stays his own": "callers get their own copy",
    },
    "workflow_checks": {
        "in order": "steps run in order",
        "done is done": "finished workflows do not run again",
        "two drivers": "concurrent drivers",
        "a step that takes long": "long step",
        "a step that fails": "failed step not recorded as done",
        "another goes on": "takeover by another replica",
        "results": "results of steps",
    },
}


def with_current_names(record: Record) -> Record:
    """The same record, so that the questions of this version can judge it."""
    if record.format >= FORMAT:
        return record
    changes = {
        field: [_renamed(check, names) for check in checks]
        for field, names in RENAMED.items()
        if (checks := getattr(record, field)) is not None
    }
    return replace(record, **changes)


def _renamed(check: Check, names: dict[str, str]) -> Check:
    return replace(check, promise=names.get(check.promise, check.promise))
