"""Reasons why messages, and facts of a user's documents, were not given to a turn. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from stateward.context.tool_pairs import is_known, ties
from stateward.layers.outage.edits import edits_of
from stateward.ops import Value
from stateward.records import Change
from stateward.repeats.given import document_with, is_answered
from stateward.state.window_record import Knowledge, TurnReceipt
from stateward.why.records import AppendSpan, Reason, Sign, ThreadMoment
from stateward.why.written_order import kept_span


def messages_before(moment: ThreadMoment) -> list[Change]:
    """Return the messages that were written before the turn and not removed since."""
    before: list[Change] = []
    for entry in moment.entries:
        if moment.turn.first <= entry.version <= moment.turn.last:
            break
        before.append(entry)
    return before


def message_reasons(moment: ThreadMoment) -> dict[int, Reason]:
    """Return why each message that was written before the turn was not given; `given` if it was."""
    numbers = [entry.version for entry in messages_before(moment)]
    knew = moment.knew
    if knew is None:
        return dict.fromkeys(numbers, "no_receipt")
    if knew.receipt.unread:
        return dict.fromkeys(numbers, "unread")
    if any(gone.what == "message" and gone.why == "unknown" for gone in knew.gone):
        return dict.fromkeys(numbers, "no_receipt")  # the thread no longer knows
    receipt, window = knew.receipt, {*knew.numbers}
    reasons: dict[int, Reason] = {}
    left, older = left_out_then(moment)
    summarised = {*left[: max(0, receipt.summarised - older)]}
    unpaired = _unpaired(moment.entries, _left_within(left, receipt, knew.numbers))
    for number in numbers:
        if number in window:
            reasons[number] = "given"
        elif number > receipt.version:
            reasons[number] = "later" if kept_span(number, moment.late) is None else "kept"
        elif number in summarised:
            reasons[number] = "summarised"
        elif number in unpaired:
            reasons[number] = "unpaired"
        else:
            reasons[number] = "window"
    return reasons


def left_out_then(moment: ThreadMoment) -> tuple[list[int], int]:
    """Return the messages that the turn was not given, and how many were older than those read.

    Includes messages that were removed since: a receipt counts them.
    """
    assert moment.knew is not None
    receipt, window = moment.knew.receipt, {*moment.knew.numbers}
    there = {entry.version for entry in messages_before(moment)} | {*moment.removed_since}
    left = sorted(number for number in there - window if number <= receipt.version)
    return left, max(0, receipt.omitted - len(left))


def _unpaired(entries: Sequence[Change], skipped: set[int]) -> set[int]:
    """Return tool calls without a result, and results without a call, of those left out.

    The others are steps of a turn that was too long for the window.
    """
    of = {each.version: ties(each.message) for each in entries if each.version in skipped}
    calls = {call for each in of.values() for call in each.calls}
    results = {result for each in of.values() for result in each.results}
    alone = {n for n, each in of.items() if {*each.calls} - results or {*each.results} - calls}
    strange = {each.version for each in entries if not is_known(each.message)}
    return alone | (strange & skipped)


def _left_within(left: list[int], receipt: TurnReceipt, numbers: Sequence[int]) -> set[int]:
    """Return messages left out of the window's own stretch: between its messages, or before."""
    if not receipt.skipped:
        return set()
    stretch = range(receipt.given + len(receipt.skipped))  # counted from the newest
    oldest = max((at for at in stretch if at not in receipt.skipped), default=-1)
    begins = min(numbers[-receipt.given :], default=0) if receipt.given else receipt.version + 1
    before = [number for number in left if number < begins]
    at_its_edge = sum(at > oldest for at in receipt.skipped)
    return {n for n in left if n > begins} | {*before[len(before) - at_its_edge :]}


def with_reason(
    sign: Sign, moment: ThreadMoment, reasons: Mapping[int, Reason], spoken: Sequence[int]
) -> Sign:
    reason: Reason | None = None
    if is_answered_within(sign, moment.turn, spoken):
        reason = "given"
    elif sign.holder is not None:
        reason = reasons.get(sign.holder)
    elif sign.kind != "complaint":
        reason = _slot_reason(sign, moment)
    was_given = sign.given if reason in (None, "no_receipt") else reason == "given"
    return replace(sign, given=was_given, reason=reason)


def is_answered_within(sign: Sign, turn: AppendSpan, spoken: Sequence[int]) -> bool:
    """Return True if the turn itself contains what the agent asked for."""
    return (
        sign.holder is not None
        and turn.first <= sign.holder <= turn.last
        and is_answered(sign.holder, sign.at, spoken)
    )


def _slot_reason(sign: Sign, moment: ThreadMoment) -> Reason:
    """Return why a fact of the user's documents was not given."""
    knew = moment.knew
    if knew is None:
        return "no_receipt"
    if knew.receipt.unread:
        return "unread"
    if document_with(sign.evidence, knew.user) is not None:
        return "given"
    if document_with(sign.evidence, moment.asked_documents) is not None:
        return "other_user"
    return "not_asked" if knew.receipt.documents is None else "later"


def removed_since(edits: Value | None, knew: Knowledge | None) -> tuple[int, ...]:
    """Return the messages that were removed after the thread was read for the turn."""
    if knew is None:
        return ()
    changed = edits_of(edits).after(knew.receipt.commits)
    return tuple(sorted(number for number, why in changed.items() if why == "removed"))


def edited_before(edits: Value | None, knew: Knowledge | None) -> tuple[list[int], list[int]]:
    """Return the messages that were removed and rewritten before the thread was read."""
    commits = -1 if knew is None else knew.receipt.commits
    last_edit = {
        number: removed
        for start, end, made, removed in edits_of(edits).spans
        if made <= commits
        for number in range(start, end + 1)
    }
    removed = [number for number, was_removed in last_edit.items() if was_removed]
    return removed, [number for number, was_removed in last_edit.items() if not was_removed]
