"""Log records in sentences: what happened, to which conversation, why, and what to do.

For people. Programs read the name of the event and its fields: see `logs.JsonFormatter`.
"""

from __future__ import annotations

import logging
from typing import Any

from stateward.observe.correlation import correlation_id

_LOOK = "Look at the store"
_KEPT = "It is stored when the store is back"

# By event: what happened, and what to do. {who} is the conversation, user, task … it is about,
# What is not here is told by its name and all its fields.
SENTENCES: dict[str, tuple[str, str]] = {
    "read_failed": ("{who} could not be read", f"{_LOOK}; never take this for an empty history"),
    "write_failed": ("a write to {who} failed", "{applied}"),
    "write_refused": ("a write to {who} was refused ({outcome})", "{refused}"),
    "version_backwards": (
        "{who} went back from {commits_before} commits to {commits}: the store shows what was",
        "Look for a restore, or for a failover that lost writes",
    ),
    "memory_write_suppressed": ("a turn of {who} was not stored and {fate}", "{remedy}"),
    "memory_write_suppressed_again": (
        "{unlogged} more turns were not stored",
        "store.counters says how many of them were kept",
    ),
    "memory_write_late": (
        "a turn of {who} that was kept on this machine was stored behind newer ones",
        "thread.late() shows which",
    ),
    "memory_write_discarded": (
        "a turn of {who} that was kept on this machine was left out",
        "erased: as it should be. expired or refused: it is lost",
    ),
    "store_not_reached": (
        "the store was not reached, and the start goes on without it",
        "Appends are kept and reads fail until it answers. Start the store, or mend its URL",
    ),
    "store_reached": ("the store is reached now", "What was kept is on its way to it"),
    "store_cannot_be_used": (
        "the store answers now and cannot be used",
        "Waiting does not help: mend this, then restart the service",
    ),
    "request_failed": (
        "a request to the service failed by a fault of the service itself ({error})",
        "Its client was told so, and nothing else; please report the lines that follow",
    ),
    "tool_failed": (
        "a tool of the MCP server failed ({error})",
        f"{_LOOK}, if it did not answer; otherwise please report the lines that follow",
    ),
    "token_keys_unavailable": (
        "the keys that tokens are checked with cannot be had from {source} ({error})",
        "The last ones stay in force, and it is tried again. Mend the address, or the network",
    ),
    "breaker_opened": (
        "the store has failed {failures} times in a row: from now on {of} fail at once",
        f"{_LOOK}; a call finds out now and then whether it is back",
    ),
    "breaker_closed": ("the store answers {of} again", ""),
    "alarm_raised": (
        "ALARM: {alarm}: {count} in {seconds:g} s",
        f"{_LOOK}, and at the lines before",
    ),
    "alarm_cleared": ("the alarm is over: {alarm}", ""),
    "alarm_hook_failed": ("the alarm {alarm} could not be told", "Mend what alarm= names"),
    "spill_adopted": (
        "{records} turns that another process had kept on this machine were taken over",
        "They go to the store now. Find out why that process ended",
    ),
    "spill_refused": (
        "{file} was written by another account and is left alone",
        "If it is yours, chown it to the account of this service",
    ),
    "spill_not_durable": (
        "turns that the store cannot take are kept in memory alone",
        "Make {directory} writable, or name another with spill=",
    ),
    "spill_not_replayed": (
        "what was kept of {who} cannot be stored",
        "Mend this; it is tried again",
    ),
    "spill_left_behind": (
        "{records} turns were not stored when the store was closed; {lost} of them are lost",
        "The others are in their file, and the next process stores them",
    ),
    "lease_lost": (
        "the lease of {who} was lost: it was taken over, or could not be renewed in time",
        "Its holder is told; look for a process that stood still",
    ),
    "lease_renewal_failed": ("leases could not be renewed", f"{_LOOK}; it is tried again"),
    "effect_unknown": (
        "nobody knows whether the effect {effect} happened: it was begun, and its end not recorded",
        "Look at the service that it was meant for, then: stateward effect resolve",
    ),
    "effect_decided_elsewhere": (
        "the effect {effect} was decided elsewhere before its end could be recorded",
        "What was recorded first counts: stateward effect show",
    ),
    "effect_not_recorded": (
        "how the effect {effect} ended could not be recorded",
        f"{_LOOK}; it is unknown when its lease ends",
    ),
    "workflow_not_tied_up": (
        "what the workflow {workflow} left open elsewhere could not be closed",
        f"{_LOOK}; a worker tries it again",
    ),
    "lease_not_released": (
        "a lease could not be given back",
        "It ends by itself when its time is up",
    ),
    "leases_not_released": (
        "{leases} leases could not be given back",
        "They end by themselves when their time is up",
    ),
    "replica_not_released": (
        "the volume could not be given back",
        "It is free when its time is up",
    ),
    "heartbeat_failed": (
        "this process could not write to the store that it lives",
        f"{_LOOK}; it is tried again, and until then others may take the process for gone",
    ),
    "work_interrupted": ("the worker could not ask for work", f"{_LOOK}; it is tried again"),
    "workflow_left": ("{who} was left", "Another replica goes on with it, or this one does"),
    "task_left": ("{who} was left", "Another replica goes on with it, or this one does"),
    "schedule_missed": (
        "{missed} ticks of {who} were missed, from {first} to {last}: {run_late} run late, "
        "{skipped} do not run",
        "No worker was there in their time. What becomes of them is missed= of the schedule",
    ),
    "schedule_left": ("{who} cannot be read by this worker", "Another one may"),
    "workflow_steps_not_asked_for": (
        "{who} ended without asking for steps that it had recorded: {steps}",
        "Has the code of the workflow changed since it began?",
    ),
    "message_failed_for_good": (
        "the handler of message {who} failed as often as it may",
        'It is acknowledged, and stays in store.tasks("failed")',
    ),
    "summary_failed": (
        "the summary of {who} failed",
        "The window has the older summary, or none. Look at what summarize= calls",
    ),
    "context_break": ("in {who} the agent asked again for what it had been told", ""),
    "listener_failed": (
        "the listener failed for {who}",
        "Nothing is lost. Mend what listener= names",
    ),
    "background_failed": ("{what} met something that it does not know", "It goes on. Report this"),
    "message_shape_unknown": (
        "{who} has messages of a form that windows do not know: they may part a tool call from its "
        "result",
        "Say what they are with shape=",
    ),
    "metrics_not_written": (
        "the metrics of this process could not be kept in {folder}: {error}",
        "Make it writable, or name another with metrics= or STATEWARD_METRICS",
    ),
    "metrics_not_read": (
        "the metrics in {file} could not be read and are left out: {error}",
        "Let all workers run as one account",
    ),
    "scrape_not_answered": ("a scrape of the metrics was not answered", ""),
}

_FATES = {
    "spilled": ("is kept on this machine", f"{_KEPT}. {_LOOK}"),
    "dropped": ("is lost", f"There was no room for it: see spill=. {_LOOK}"),
}
_APPLIED = {
    "no": "It was not stored: try again",
    "unknown": "It may be stored or not: try again with the same key",
}
_REFUSED = {
    "fenced": "Another process has taken its lease over: look for one that stood still",
    "key_reused": "Its key was used for something else: give each request a key of its own",
}
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What was logged besides the name of the event."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class _Fields(dict[str, Any]):
    def __missing__(self, name: str) -> str:
        return "?"


def sentence(record: logging.LogRecord) -> str:
    """One line: what happened, why, what to do, and the names to search for."""
    event, fields = record.getMessage(), fields_of(record)
    what, remedy = SENTENCES.get(event, ("", ""))
    if not what:
        told = [f"{name}={value!r}" for name, value in fields.items() if value is not None]
        return " ".join([event, *told])
    fate, kept = _FATES.get(fields.get("status", ""), ("", ""))
    words = _Fields(
        fields,
        who=who(fields),
        fate=fate,
        remedy=kept,
        applied=_APPLIED.get(fields.get("applied", ""), ""),
        refused=_REFUSED.get(fields.get("outcome", ""), ""),
    )
    why = fields.get("reason") or fields.get("why") or fields.get("error")
    parts = [what.format_map(words) + (f": {why}" if why else ""), remedy.format_map(words)]
    request = fields.get("correlation_id") or correlation_id()
    named = event if request is None else f"{event}, request {request}"
    said = ". ".join(part.rstrip(".") for part in parts if part)
    return " ".join(f"{said}. [{named}]".split())  # whatever an id or error holds: one line


def who(fields: dict[str, Any]) -> str:
    """Whom a record is about."""
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
        told = logging.makeLogRecord(vars(record))
        told.msg, told.args = sentence(record), None
        return super().format(told)
