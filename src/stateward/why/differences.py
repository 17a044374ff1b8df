"""Differences of a turn's knowledge to the turn before, and to what is stored now. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stateward.records import Document
from stateward.why.records import KnowledgeDifference, ThreadMoment
from stateward.why.words import bounds, naming, quoted


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
    before = {name: each[0] for name, each in (old.receipt.documents or {}).items()}
    after = {name: each[0] for name, each in (new.receipt.documents or {}).items()}
    sentences += _versions(before, after, old.user, new.user)
    sentences += _names("Workflow", old.receipt.workflows or {}, new.receipt.workflows or {})
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
        before = {name: each[0] for name, each in knew.receipt.documents.items()}
        after = {name: each.version for name, each in moment.documents.items()}
        sentences += _versions(before, after, knew.user, moment.documents)
    return KnowledgeDifference(moment.version, added, (), tuple(sentences))


def _changed(old: Iterable[int], new: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    before, after = {*old}, {*new}
    return tuple(sorted(after - before)), tuple(sorted(before - after))


def _versions(
    old: Mapping[str, int],
    new: Mapping[str, int],
    before: Mapping[str, Document],
    after: Mapping[str, Document],
) -> list[str]:
    sentences = []
    for name in sorted({*old, *new}):
        if name not in new:
            sentences.append(f"Document {quoted(name)}: not there any more.")
        elif name not in old:
            sentences.append(f"Document {quoted(name)}: new, version {new[name]}.")
        elif old[name] != new[name]:
            keys = _keys(before.get(name), after.get(name))
            sentences.append(f"Document {quoted(name)}: version {old[name]} to {new[name]}{keys}.")
    return sentences


def _keys(old: Document | None, new: Document | None) -> str:
    """Name the fields of a document that have other values."""
    if old is None or new is None:
        return ""
    names = [n for n in {**old.value, **new.value} if old.value.get(n) != new.value.get(n)]
    return f" ({', '.join(sorted(names)[:8])})" if names else ""


def _names(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    came = [f"{what} {quoted(name)}: new." for name in sorted({*new} - {*old})]
    return came + [f"{what} {quoted(name)}: ended." for name in sorted({*old} - {*new})]
