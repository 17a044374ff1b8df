"""Differences of a turn's knowledge to the turn before, and to what is stored now. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stateward.ops import List
from stateward.records import Document
from stateward.state.window_record import Knowledge
from stateward.why.records import KnowledgeDifference, ThreadMoment
from stateward.why.words import bounds, naming, quoted

Versions = Mapping[str, tuple[int, str | None]]  # of documents, with stamps
MOST_WORKFLOWS = List("-").limit  # that a context holds


def since_before(moment: ThreadMoment) -> KnowledgeDifference | None:
    """Compare what this turn was given with what the turn before was given."""
    old, new = moment.before, moment.knew
    if old is None or new is None:
        return None
    added, removed = _changed(old.numbers, new.numbers)
    sentences = []
    if old.receipt.unread != new.receipt.unread:
        which = "This turn" if new.receipt.unread else "The turn before"
        sentences.append(f"{which} could not read the store.")
    if old.receipt.summary is None and new.receipt.summary is not None:
        sentences.append("There is a summary now.")
    elif old.receipt.summary != new.receipt.summary:
        sentences.append(
            f"{'No' if new.receipt.summary is None else 'Another'} summary is given now."
        )
    if bounds(old.receipt) != bounds(new.receipt):
        sentences.append(f"Asked for: {bounds(new.receipt)}; before: {bounds(old.receipt)}.")
    sentences += _contexts(old, new)
    return KnowledgeDifference(old.version, added, removed, tuple(sentences))


def until_now(moment: ThreadMoment) -> KnowledgeDifference | None:
    """Compare what this turn was given with what is stored now."""
    knew = moment.knew
    if knew is None:
        return None
    sentences = []
    own = range(moment.turn.first, moment.turn.last + 1)
    read = moment.turn.last if knew.receipt.unread else knew.receipt.version
    since = (entry.version for entry in moment.entries if entry.version > read)
    added = tuple(sorted(number for number in since if number not in own))
    gone = [g for g in knew.gone if g.what == "message"]
    for why in dict.fromkeys(g.why for g in gone):
        numbers = tuple(sorted(int(g.name) for g in gone if g.why == why and g.name))
        if numbers:
            sentences.append(f"{naming(numbers)}: {why} since.")
    others = [g for g in knew.gone if g.what in ("summary", "workflow")]
    sentences += [f"{f'The {g.what} {g.name}'.rstrip()}: {g.why} since." for g in others]
    if knew.receipt.documents is not None:
        after = {name: (each.version, each.stamp) for name, each in moment.documents.items()}
        sentences += _versions(knew.receipt.documents, after, knew.user, moment.documents)
    return KnowledgeDifference(moment.version, added, (), tuple(sentences))


def _changed(old: Iterable[int], new: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    before, after = {*old}, {*new}
    return tuple(sorted(after - before)), tuple(sorted(before - after))


def _contexts(old: Knowledge, new: Knowledge) -> list[str]:
    """Compare documents and workflows, if both turns were given them."""
    before, after = old.receipt, new.receipt
    if before.documents is None or after.documents is None:
        if before.unread or after.unread or before.documents is after.documents:
            return []
        which = ("this turn", "the one before")[:: 1 if before.documents is None else -1]
        return [f"Documents and workflows were asked for by {which[0]}, not by {which[1]}."]
    sentences = _versions(before.documents, after.documents, old.user, new.user)
    active, now = {*(before.workflows or {})}, {*(after.workflows or {})}
    sentences += [f"Workflow {quoted(name)}: new." for name in sorted(now - active)]
    gone = "not active any more" if len(now) < MOST_WORKFLOWS else "not among those given"
    return sentences + [f"Workflow {quoted(name)}: {gone}." for name in sorted(active - now)]


def _versions(
    old: Versions, new: Versions, before: Mapping[str, Document], after: Mapping[str, Document]
) -> list[str]:
    sentences = []
    for name in sorted({*old, *new}):
        if name not in new:
            sentences.append(f"Document {quoted(name)}: not there any more.")
        elif name not in old:
            sentences.append(f"Document {quoted(name)}: new, version {new[name][0]}.")
        elif old[name] != new[name]:
            keys = _keys(before.get(name), after.get(name))
            versions = f"version {old[name][0]} to {new[name][0]}"
            if new[name][0] <= old[name][0]:  # versions count from a document's creation
                versions = f"removed and put again, version {new[name][0]}"
            sentences.append(f"Document {quoted(name)}: {versions}{keys}.")
    return sentences


def _keys(old: Document | None, new: Document | None) -> str:
    """Name the fields of a document that have other values."""
    if old is None or new is None:
        return ""
    names = [n for n in {**old.value, **new.value} if old.value.get(n) != new.value.get(n)]
    return f" ({', '.join(sorted(names)[:8])})" if names else ""
