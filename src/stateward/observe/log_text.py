"""Log records in sentences: what happened, to which conversation, why, and what to do.

For people. Programs read the name of the event and its fields: see `logs.JsonFormatter`.
"""

from __future__ import annotations

import logging
from typing import Any

from stateward.observe.correlation import correlation_id

_LOOK = "Check the store"
_KEPT = "It will be stored when the store is back"

# By event: what happened, and what to do. {who} is the conversation, user, task … it is about.
# An event that is not here is shown by its name and all its fields.
SENTENCES: dict[str, tuple[str, str]] = {
    "read_failed": ("{who} could not be read", f"{_LOOK}; do not treat this as an empty history"),
    "write_failed": ("a write to {who} failed", "{applied}"),
    "write_refused": ("a write to {who} was refused ({outcome})", "{refused}"),
    "live_answer_failed": (
        "a live answer ended with {error}",
        "Its question is stored; a new delivery of the request answers it",
    ),
    "live_answer_not_stopped": (
        "a live answer whose reader left was not stopped ({error})",
        "It is written to its end: thread.stop(request) stops it",
    ),
    "version_backwards": (
        "{who} went back from {commits_before} commits to {commits}: the state is older",
        "Look for a restore, or for a failover that lost writes",
    ),
    "memory_write_suppressed": ("a turn of {who} was not stored and {fate}", "{remedy}"),
    "memory_write_suppressed_again": (
        "{unlogged} more turns were not stored",
        "store.counters says how many of them were spilled",
    ),
    "memory_write_late": (
        "a spilled turn of {who} was stored after newer ones",
        "thread.late() shows which",
    ),
    "memory_write_discarded": (
        "a spilled turn of {who} was not stored",
        "erased: this is intended. expired: the turn is lost. refused: it is set aside{aside}",
    ),
    "connection_in_plain_text": (
        "{store} is on another machine and is reached without TLS: who is on the network between "
        "can read and change all state",
        "Use {remedy}",
    ),
    "store_not_reached": (
        "the store was not reached; starting without it",
        "Appends are spilled and reads fail until it answers. Start the store, or fix its URL",
    ),
    "store_reached": ("the store has been reached", "Spilled turns are being stored"),
    "store_cannot_be_used": (
        "the store answers, but cannot be used",
        "Waiting does not help: fix this, then restart the service",
    ),
    "request_failed": (
        "a request failed because of an error in the service itself ({error})",
        "The client got a generic error; please report the lines that follow",
    ),
    "tool_failed": (
        "a tool of the MCP server failed ({error})",
        f"{_LOOK}if it did not answer; otherwise please report the lines that follow",
    ),
    "token_keys_unavailable": (
        "the keys for verifying tokens cannot be fetched from {source} ({error})",
        "The previous keys stay valid, and it is retried. Fix the address, or the network",
    ),
    "record_malformed": (
        "the {kind} {id} in the namespace {namespace} is malformed and was left out ({error})",
        "Find out which program wrote it; an export has it as it is stored",
    ),
    "request_refused": (
        "a request was refused with {answer} ({method} {path}, key {key}, from {address})",
        "If that goes on, somebody may be trying keys, or a program has the wrong one",
    ),
    "ended_key_used": (
        "the key {key} was used, and is no longer in force",
        "Find the program that still has it; if nobody knows it, the key has leaked",
    ),
    "key_used_from_new_address": (
        "the key {key} (scope {scope}) was used for the first time from {address}",
        "If nobody knows that address, the key has leaked: revoke it",
    ),
    "quota_exceeded": (
        "the namespace {namespace} keeps {bytes} bytes, and its quota is {quota}: its writes are "
        "refused",
        "Delete or erase what is not needed, or raise the quota",
    ),
    "operations_log_head": (
        "the operations log of the namespace {namespace} ends with {head}",
        "Keep this line where the store's database cannot change it",
    ),
    "operations_log_rewritten": (
        "the operations log of the namespace {namespace} lacks the entry {published}, whose hash "
        "was published",
        "It was rewritten, cut off or restored from a backup: stateward operations verify "
        "--head-file says more",
    ),
    "operations_head_unpublished": (
        "the heads of the operations logs could not be published ({error})",
        "They are kept in memory and it is tried again. Fix what the setting names",
    ),
    "breaker_opened": (
        "the store has failed {failures} times in a row: {of} now fail immediately",
        f"{_LOOK}; it is probed from time to time",
    ),
    "breaker_closed": ("the store answers {of} again", ""),
    "alarm_raised": ("ALARM: {alarm}: {count} in {seconds:g} s", f"{_LOOK} and the lines before"),
    "alarm_cleared": ("the alarm is over: {alarm}", ""),
    "alarm_hook_failed": ("the alarm {alarm} could not be delivered", "Fix what alarm= names"),
    "spill_adopted": (
        "took over {records} turns that another process had spilled on this machine",
        "They are being stored. Find out why that process ended",
    ),
    "spill_refused": (
        "{file} was written by another account and is left alone",
        "If it is yours, chown it to the account of this service",
    ),
    "spill_not_durable": (
        "turns are spilled to memory only",
        "Make {directory} writable, or name another with spill=",
    ),
    "spill_not_replayed": ("spilled turns of {who} cannot be stored", "Fix this; it is retried"),
    "spill_left_behind": (
        "{records} turns were not stored when the store was closed; {lost} of them are lost",
        "The others are on disk, and the next process stores them",
    ),
    "lease_lost": (
        "the lease of {who} was lost: it was taken over, or could not be renewed in time",
        "Its holder is notified; look for a process that was paused",
    ),
    "lease_renewal_failed": ("leases could not be renewed", f"{_LOOK}; it is retried"),
    "effect_unknown": (
        "it is unknown whether the effect {effect} happened: its outcome was not recorded",
        "Check with the service that it called, then: stateward effect resolve",
    ),
    "effect_decided_elsewhere": (
        "the effect {effect} was resolved elsewhere before its outcome could be recorded",
        "What was recorded first counts: stateward effect show",
    ),
    "effect_not_recorded": (
        "the outcome of the effect {effect} could not be recorded",
        f"{_LOOK}; the effect becomes unknown when its lease expires",
    ),
    "workflow_not_tied_up": (
        "what the workflow {workflow} left open elsewhere could not be closed",
        f"{_LOOK}; a worker retries it",
    ),
    "lease_not_released": ("a lease could not be released", "It expires after its ttl"),
    "leases_not_released": ("{leases} leases could not be released", "They expire after their ttl"),
    "replica_not_released": (
        "the volume could not be released",
        "It is free when its lease expires",
    ),
    "heartbeat_failed": (
        "this process could not write its heartbeat",
        f"{_LOOK}; it is retried, and until then others may consider the process gone",
    ),
    "work_interrupted": ("the worker could not fetch work", f"{_LOOK}; it is retried"),
    "workflow_left": ("{who} was interrupted", "This or another replica will continue it"),
    "task_left": ("{who} was interrupted", "This or another replica will continue it"),
    "schedule_missed": (
        "{missed} ticks of {who} were missed, from {first} to {last}: {run_late} run late, "
        "{skipped} do not run",
        "No worker was running then. missed= of the schedule says what happens to them",
    ),
    "schedule_left": ("{who} cannot be read by this worker", "Another worker may"),
    "workflow_steps_not_asked_for": (
        "{who} ended without reaching steps that it had recorded: {steps}",
        "Has the code of the workflow changed since it was started?",
    ),
    "workflow_signals_not_taken": (
        "{who} ended, and its code had not waited for signals that were sent to it: {signals}",
        "Whoever sent them was told that they were accepted. Was one sent too late, or misnamed?",
    ),
    "workflow_signals_not_read": (
        "{who} ended; whether it had been sent signals that its code did not wait for is unknown",
        _LOOK,
    ),
    "message_failed_for_good": (
        "the handler of message {who} failed and has no attempts left",
        'It is acknowledged, and stays in store.tasks("failed")',
    ),
    "summary_failed": (
        "the summary of {who} failed",
        "The window uses the older summary, or none. Check what summarize= calls",
    ),
    "context_break": ("in {who} the agent asked for something it already had", ""),
    "listener_failed": (
        "the listener failed for {who}",
        "Nothing is lost. Fix what listener= names",
    ),
    "background_failed": ("{what} met something unexpected", "Work continues. Please report this"),
    "message_shape_unknown": (
        "{who} has messages in an unknown format: a window may part a tool call from its result",
        "Describe them with shape=",
    ),
    "metrics_not_written": (
        "the metrics of this process could not be written to {folder}: {error}",
        "Make it writable, or name another with metrics= or STATEWARD_METRICS",
    ),
    "metrics_not_read": (
        "the metrics in {file} could not be read and are left out: {error}",
        "Run all workers as one account",
    ),
    "scrape_not_answered": ("a scrape of the metrics was not answered", ""),
}

_FATES = {
    "spilled": ("is spilled on this machine", f"{_KEPT}. {_LOOK}"),
    "dropped": ("is lost", f"There was no room for it: see spill=. {_LOOK}"),
}
_APPLIED = {
    "no": "It was not stored: try again",
    "unknown": "It may have been stored: try again with the same key",
}
_REFUSED = {
    "fenced": "Another process has taken over its lease: look for one that was paused",
    "key_reused": "Its key was used for another request: use a separate key for each",
}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields logged besides the name of the event."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class _Fields(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return "?"


def sentence(record: logging.LogRecord) -> str:
    """Return one line: what happened, why, what to do, and the names to search for."""
    event, fields = record.getMessage(), fields_of(record)
    what, remedy = SENTENCES.get(event, ("", ""))
    if not what:
        pairs = [f"{name}={value!r}" for name, value in fields.items() if value is not None]
        return " ".join([event, *pairs])
    fate, advice = _FATES.get(fields.get("status", ""), ("", ""))
    words = _Fields(
        fields,
        who=who(fields),
        fate=fate,
        remedy=advice,
        applied=_APPLIED.get(fields.get("applied", ""), ""),
        refused=_REFUSED.get(fields.get("outcome", ""), ""),
        aside=f" in {fields['file']}" if fields.get("file") else "",
    )
    why = fields.get("reason") or fields.get("why") or fields.get("error")
    parts = [what.format_map(words) + (f": {why}" if why else ""), remedy.format_map(words)]
    request = fields.get("correlation_id") or correlation_id()
    named = event if request is None else f"{event}, request {request}"
    text = ". ".join(part.rstrip(".") for part in parts if part)
    return " ".join(f"{text}. [{named}]".split())  # whatever an id or error holds: one line


def who(fields: dict[str, Any]) -> str:
    """Return the entity that a record is about, in words."""
    for name in ("thread_id", "workflow", "task", "task_id", "schedule"):
        if name in fields:
            return f"{name.removesuffix('_id')} {fields[name]!r}"
    if "id" in fields:
        return f"{fields['kind']} {fields['id']!r}"
    return "the store"


class TextFormatter(logging.Formatter):
    """Sentences for people, in place of the names of events.

    handler.setFormatter(stateward.observe.log_text.TextFormatter("%(asctime)s %(message)s"))

    Takes what `logging.Formatter` does. Records of others stay as they are.
    """

    def format(self, record: logging.LogRecord) -> str:
        if record.name.partition(".")[0] != "stateward":
            return super().format(record)
        plain = logging.makeLogRecord(vars(record))
        plain.msg, plain.args = sentence(record), None
        return super().format(plain)
