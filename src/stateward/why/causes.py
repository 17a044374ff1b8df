"""The causes that an explanation lists, each a reason in a sentence. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

from stateward.records import Document
from stateward.repeats.given import document_with
from stateward.repeats.lexicon import COMMON, PLAIN
from stateward.repeats.messages import text_of
from stateward.repeats.words import split_words
from stateward.state.window_record import TurnReceipt
from stateward.why.reasons import is_answered_within, left_out_then
from stateward.why.records import Cause, Reason, Sign, ThreadMoment
from stateward.why.words import bounds, clock, count, listed, naming, quoted, were
from stateward.why.written_order import written

# What is worst for whoever asks comes first.
ORDER: Sequence[Reason] = (
    *("no_receipt", "unread", "kept", "later", "window", "summarised", "unpaired"),
    *("removed", "rewritten", "other_user", "not_asked", "given"),
)


def causes_of(
    moment: ThreadMoment,
    reasons: Mapping[int, Reason],
    signs: Sequence[Sign],
    spoken: Sequence[int],
) -> tuple[Cause, ...]:
    holders = {sign.holder for sign in signs if sign.holder is not None}
    causes = []
    for reason in dict.fromkeys(reasons.values()):
        numbers = tuple(sorted(n for n in reasons if reasons[n] == reason))
        matters = bool(holders & {*numbers})
        if reason == "given":
            numbers = tuple(n for n in numbers if n in holders)
        if numbers:
            sentence = _SENTENCES[reason](moment, numbers)
            if reason == "summarised":
                sentence += _in_summary(moment, holders & {*numbers})
            causes.append(Cause(reason, sentence, numbers, matters=matters))
    answered = [sign for sign in signs if is_answered_within(sign, moment.turn, spoken)]
    own = sorted({sign.holder for sign in answered if sign.holder})
    if own:
        sentence = f"{naming(tuple(own))} {'is' if len(own) == 1 else 'are'} part of this turn."
        causes.append(Cause("given", sentence, tuple(own), matters=True))
    if moment.knew is None and not causes:
        causes.append(Cause("no_receipt", no_receipt(moment, ())))
    for host, turns in moment.waiting:
        sentence = f"{count(turns, 'turn')} wait on {host} for the store, of this thread or others."
        causes.append(Cause("kept", sentence.replace("1 turn wait", "1 turn waits")))
    causes += _gone_before(moment)
    causes += _document_causes(moment, signs)
    return tuple(sorted(causes, key=lambda one: (not one.matters, ORDER.index(one.reason))))


def _receipt(moment: ThreadMoment) -> TurnReceipt:
    assert moment.knew is not None
    return moment.knew.receipt


def _window(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    receipt = _receipt(moment)
    more = max(0, left_out_then(moment)[1] - receipt.summarised)
    older = f", and so were {more:,} older ones" if more else ""
    return f"{were(numbers)} outside of its window ({bounds(receipt)}){older}."


def _summarised(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    summary = None if moment.knew is None else moment.knew.summary
    long = "" if summary is None else f" of {count(len(summary), 'character')}"
    return f"A summary{long} was given instead of {naming(numbers, capital=False)}."


def _in_summary(moment: ThreadMoment, held: Set[int]) -> str:
    """Return a sentence with the words of the messages that the summary lacks."""
    summary = None if moment.knew is None else moment.knew.summary
    texts = [text_of(entry.message) for entry in moment.entries if entry.version in held]
    words = [word.strip(".,;:!?\"'()") for text in texts for word in text.split()]
    own = [word for word in dict.fromkeys(words) if {*split_words(word)} - PLAIN - COMMON]
    if summary is None or not own:
        return ""
    missing = [word for word in own if word.lower() not in summary.lower()]
    if not missing:
        return " The summary has all the words of what was asked for."
    return f" The summary does not say {listed(quoted(word) for word in missing[:5])}."


def _unpaired(_: ThreadMoment, numbers: tuple[int, ...]) -> str:
    return f"{were(numbers)} left out: a tool call without its result, or the other way round."


def _later(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    version = _receipt(moment).version
    later = frozenset(numbers)
    stored = [entry.at for entry in moment.entries if entry.version in later]
    return (
        f"{were(numbers)} stored by another request at {clock(min(stored))}, after this turn had "
        f"read the thread (at version {version}) and before it was stored."
    )


def _kept_away(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    entries = [entry for entry in moment.entries if entry.version in numbers]
    begun = min(written(entry, moment.late) for entry in entries)
    arrived = max(entry.at for entry in entries)
    return (
        f"{were(numbers)} written at {clock(begun)} and kept on a machine that could not reach "
        f"the store: not there before {clock(arrived)}."
    )


def unread(_: ThreadMoment, numbers: tuple[int, ...]) -> str:
    return (
        "The store could not be read, and the policy suppressed that: the model was given nothing "
        f"of {count(len(numbers), 'stored message')}."
    )


def no_receipt(moment: ThreadMoment, _: tuple[int, ...]) -> str:
    if moment.knew is not None:
        return (
            "What the model was given is no longer known: messages were removed in a way that the "
            "thread has no record of, or too many were removed since."
        )
    spilled = (
        " It was kept on a machine that could not reach the store." if moment.turn.kept else ""
    )
    forked = ""
    if moment.origin is not None and moment.turn.first == 1:
        forked = f" It was copied from the thread {quoted(moment.origin)}: look there."
    return f"The turn has no receipt, so what the model was given is unknown.{spilled}{forked}"


def _given(_: ThreadMoment, numbers: tuple[int, ...]) -> str:
    return f"{were(numbers)} in its window: the model was given what it asked for."


_SENTENCES: dict[Reason, Callable[[ThreadMoment, tuple[int, ...]], str]] = {
    "window": _window,
    "summarised": _summarised,
    "unpaired": _unpaired,
    "later": _later,
    "kept": _kept_away,
    "unread": unread,
    "no_receipt": no_receipt,
    "given": _given,
}


def _gone_before(moment: ThreadMoment) -> list[Cause]:
    causes = []
    if moment.removed:
        sentence = f"{naming(moment.removed)} had been removed before it read the thread."
        causes.append(Cause("removed", sentence, moment.removed))
    if moment.rewritten:
        sentence = f"{naming(moment.rewritten)} had been rewritten before it read the thread."
        causes.append(Cause("rewritten", sentence, moment.rewritten))
    if moment.trimmed:
        sentence = f"Messages up to {moment.trimmed} are no longer stored."
        causes.append(Cause("removed", sentence))
    return causes


def _document_causes(moment: ThreadMoment, signs: Sequence[Sign]) -> list[Cause]:
    knew = moment.knew
    slots = [sign.evidence for sign in signs if sign.holder is None and sign.kind != "complaint"]
    causes: list[Cause] = []

    def add(reason: Reason, names: Sequence[str], held: Mapping[str, Document], text: str) -> None:
        matters = {document_with(slot, {n: held[n] for n in names}) for slot in slots} != {None}
        causes.append(Cause(reason, text, (), tuple(names), bool(slots) and matters))

    theirs = sorted(moment.asked_documents)
    if theirs:
        whose = "no user" if moment.user is None else moment.user
        text = (
            f"The thread belongs to {whose}, so the {_documents(theirs)} of {moment.asked_user} "
            "could not be given."
        )
        add("other_user", theirs, moment.asked_documents, text)
    elif moment.asked_user not in (None, moment.user):
        text = f"There are no documents of {moment.asked_user}: check the id."
        causes.append(Cause("other_user", text))
    then = moment.documents_then
    if knew is None or knew.receipt.unread or not then:
        return causes
    if knew.receipt.documents is None:
        names = sorted(then)
        text = f"Only the thread was asked for: the {_documents(names)} of {moment.user} "
        text += f"{'was' if len(names) == 1 else 'were'} not given."
        add("not_asked", names, then, text)
        return causes
    for name, document in sorted(then.items()):
        receipt = knew.receipt.documents.get(name)
        if receipt is not None and receipt[1] == document.stamp:
            continue
        at = "" if document.updated_at is None else f" at {clock(document.updated_at)}"
        had = "did not find it" if receipt is None else f"had read version {receipt[0]}"
        text = f"The document {quoted(name)} was changed{at}, after this turn {had}."
        add("later", [name], then, text)
    having = dict.fromkeys(document_with(slot, knew.user) for slot in slots)
    names = [name for name in having if name is not None]
    if names:
        text = f"The {_documents(names)} had what it asked for, and the model was given it."
        add("given", names, knew.user, text)
    return causes


def _documents(names: Sequence[str]) -> str:
    noun = "document" if len(names) == 1 else "documents"
    return f"{noun} {listed(quoted(name) for name in names)}"
