"""From what was read to what is said: which message was not given, and why. No I/O.

What a turn might have known is all that was written before it. Of that, its receipt says what it
was given; for everything else there is exactly one reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from stateward.records import Change, Document, Late, TurnReceipt
from stateward.repeats.given import document_with, is_answered
from stateward.repeats.lexicon import COMMON, PLAIN
from stateward.repeats.messages import said, speaker
from stateward.repeats.words import split_words
from stateward.why.records import (
    AppendSpan,
    Cause,
    Explanation,
    Judgement,
    KnowledgeDifference,
    MessageSight,
    Reason,
    Sign,
    ThreadMoment,
)
from stateward.why.words import bounds, clock, count, listed, quoted, spans

TEXT = 400  # characters of a message that are shown
# What is worst for whoever asks comes first.
ORDER: Sequence[Reason] = (
    *("no_receipt", "unread", "kept", "later", "window", "summarised", "unpaired"),
    *("removed", "rewritten", "other_user", "not_asked", "given"),
)


def as_written(entries: Iterable[Change], late: Sequence[Late]) -> tuple[Change, ...]:
    """The messages in the order in which they were written, not in which they arrived."""

    def place(it: Change) -> tuple[float, bool, int]:
        return _written(it, late), _kept(it.version, late) is not None, it.version

    return tuple(sorted(entries, key=place))


def not_before(
    late: Iterable[Late], read: Mapping[int, int], entries: Sequence[Change]
) -> tuple[Late, ...]:
    """Late turns, none written before what its receipt says it had read.

    When it was written is estimated, to milliseconds; what it had read is known. `read` has the
    version that each of them had read, by its first message.
    """
    found = []
    for span in late:
        version = read.get(span.first, 0)
        seen = [entry.at for entry in entries if entry.version <= version]
        found.append(replace(span, written_at=max([span.written_at, *seen[-1:]])))
    return tuple(found)


def _written(entry: Change, late: Sequence[Late]) -> float:
    found = _kept(entry.version, late)
    return (entry.at if found is None else found.written_at).timestamp()


def _kept(number: int, late: Sequence[Late]) -> Late | None:
    return next((span for span in late if span.first <= number <= span.last), None)


def appends_of(entries: Sequence[Change], late: Sequence[Late]) -> list[AppendSpan]:
    """The appends that these messages came with, in the order in which they were written."""
    together: dict[str | None, list[Change]] = {}
    for entry in entries:
        together.setdefault(entry.cursor.stamp, []).append(entry)
    found = []
    for group in together.values():
        first, last = group[0], group[-1]
        kept = _kept(first.version, late)
        at = first.at if kept is None else kept.written_at
        speaks = any(speaker(entry.message) == "assistant" for entry in group)
        span = (first.version, last.version, at, last.at, kept is not None, speaks)
        found.append(AppendSpan(*span))
    return found


def span_of(number: int, spans: Sequence[AppendSpan]) -> AppendSpan | None:
    return next((span for span in spans if span.first <= number <= span.last), None)


def strongest(signs: Iterable[Sign]) -> Sign | None:
    """The sign to look at first: of what was never given, then the surest, then the newest."""
    ranked = sorted(signs, key=lambda sign: (sign.given is False, sign.score, sign.at))
    return ranked[-1] if ranked else None


def explain(moment: ThreadMoment) -> Explanation:
    """What is to be said of the turn."""
    reasons = message_reasons(moment)
    signs = tuple(
        _with_reason(sign, moment, reasons) for sign in moment.signs if _is_of(sign, moment.turn)
    )
    causes = _causes(moment, reasons, signs)
    judgement, answer = _answer(moment, causes, signs, reasons)
    knew = moment.knew
    return Explanation(
        moment.thread,
        moment.user,
        moment.turn,
        judgement,
        answer,
        next((cause.advice for cause in causes if cause.sentence in answer), ""),
        causes,
        signs,
        tuple(_sight(entry, reasons) for entry in _known_then(moment)),
        None if knew is None else knew.receipt,
        None if knew is None else knew.summary,
        {} if knew is None else {name: each.value for name, each in knew.user.items()},
        () if knew is None else tuple(each.id for each in knew.workflows),
        () if knew is None else knew.gone,
        _since_before(moment),
        _until_now(moment),
        tuple(sign for sign in moment.signs if not _is_of(sign, moment.turn)),
    )


def _is_of(sign: Sign, turn: AppendSpan) -> bool:
    return turn.first <= sign.turn <= turn.last


# --- messages ---------------------------------------------------------------------------


def _known_then(moment: ThreadMoment) -> list[Change]:
    """What was written before the turn, and was not removed since."""
    found: list[Change] = []
    for entry in moment.entries:
        if moment.turn.first <= entry.version <= moment.turn.last:
            break
        found.append(entry)
    return found


def message_reasons(moment: ThreadMoment) -> dict[int, Reason]:
    """Why each message that was written before the turn was not given; `given` if it was."""
    numbers = [entry.version for entry in _known_then(moment)]
    knew = moment.knew
    if knew is None:
        return dict.fromkeys(numbers, "no_receipt")
    if knew.receipt.unread:
        return dict.fromkeys(numbers, "unread")
    if any(gone.what == "message" and gone.why == "unknown" for gone in knew.gone):
        return dict.fromkeys(numbers, "no_receipt")  # the thread does not tell any more
    receipt, given = knew.receipt, {*knew.numbers}
    reasons: dict[int, Reason] = {}
    left = [n for n in sorted(numbers) if n <= receipt.version and n not in given]
    summarised = {*left[: max(0, receipt.summarised - moment.older)]}
    unpaired = _unpaired_of(left, receipt, knew.numbers)
    for number in numbers:
        if number in given:
            reasons[number] = "given"
        elif number > receipt.version:
            reasons[number] = "later" if _kept(number, moment.late) is None else "kept"
        elif number in summarised:
            reasons[number] = "summarised"
        elif number in unpaired:
            reasons[number] = "unpaired"
        else:
            reasons[number] = "window"
    return reasons


def _unpaired_of(left: list[int], receipt: TurnReceipt, numbers: Sequence[int]) -> set[int]:
    """Those that were left out of the window's own stretch: between its messages, or before."""
    if not receipt.skipped:
        return set()
    stretch = range(receipt.given + len(receipt.skipped))  # counted from the newest
    oldest = max((at for at in stretch if at not in receipt.skipped), default=-1)
    begins = min(numbers[-receipt.given :], default=0) if receipt.given else receipt.version + 1
    before = [number for number in left if number < begins]
    at_its_edge = sum(at > oldest for at in receipt.skipped)
    return {n for n in left if n > begins} | {*before[len(before) - at_its_edge :]}


def _sight(entry: Change, reasons: Mapping[int, Reason]) -> MessageSight:
    reason = reasons[entry.version]
    given = None if reason == "no_receipt" else reason == "given"
    text = said(entry.message)
    shown = text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"
    role = speaker(entry.message) or str(entry.message.get("role") or "")
    return MessageSight(
        entry.version, entry.at, role, shown, given, None if reason == "given" else reason
    )


# --- reasons ----------------------------------------------------------------------------


def _with_reason(sign: Sign, moment: ThreadMoment, reasons: Mapping[int, Reason]) -> Sign:
    reason: Reason | None = None
    if _is_own(sign, moment):
        reason = "given"
    elif sign.holder is not None:
        reason = reasons.get(sign.holder)
    elif sign.kind != "complaint":
        reason = _slot_reason(sign, moment)
    given = sign.given if reason in (None, "no_receipt") else reason == "given"
    return replace(sign, given=given, reason=reason)


def _is_own(sign: Sign, moment: ThreadMoment) -> bool:
    """Whether what it asked for was in the very turn."""
    return (
        sign.holder is not None
        and moment.turn.first <= sign.holder <= moment.turn.last
        and is_answered(sign.holder, sign.at, moment.entries)
    )


def _slot_reason(sign: Sign, moment: ThreadMoment) -> Reason:
    """Why what the user's state holds was not given."""
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


def _causes(
    moment: ThreadMoment, reasons: Mapping[int, Reason], signs: Sequence[Sign]
) -> tuple[Cause, ...]:
    held = {sign.holder for sign in signs if sign.holder is not None}
    found = []
    for reason in dict.fromkeys(reasons.values()):
        numbers = tuple(sorted(n for n in reasons if reasons[n] == reason))
        matters = bool(held & {*numbers})
        if reason == "given":
            numbers = tuple(n for n in numbers if n in held)
        if numbers:
            sentence = _SENTENCES[reason](moment, numbers)
            if reason == "summarised":
                sentence += _in_summary(moment, held & {*numbers})
            found.append(Cause(reason, sentence, numbers, matters=matters))
    own = sorted({sign.holder for sign in signs if sign.holder and _is_own(sign, moment)})
    if own:
        sentence = f"{_messages(tuple(own))} {'is' if len(own) == 1 else 'are'} of this very turn."
        found.append(Cause("given", sentence, tuple(own), matters=True))
    if moment.knew is None and not found:
        found.append(Cause("no_receipt", _no_receipt(moment, ())))
    for host, turns in moment.waiting:
        sentence = f"{count(turns, 'turn')} wait on {host} for the store, of this thread or others."
        found.append(Cause("kept", sentence.replace("1 turn wait", "1 turn waits")))
    found += _gone_before(moment)
    found += _document_causes(moment, signs)
    return tuple(sorted(found, key=lambda it: (not it.matters, ORDER.index(it.reason))))


def _window(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    receipt = _receipt(moment)
    more = max(0, moment.older - receipt.summarised)
    older = f", and so were {more:,} older ones" if more else ""
    return f"{_were(numbers)} outside of its window ({bounds(receipt)}){older}."


def _summarised(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    summary = None if moment.knew is None else moment.knew.summary
    long = "" if summary is None else f" of {count(len(summary), 'character')}"
    return f"A summary{long} was given in the place of {_messages(numbers, capital=False)}."


def _in_summary(moment: ThreadMoment, held: Iterable[int]) -> str:
    """Whether the summary has the words of the message that matters."""
    summary = None if moment.knew is None else moment.knew.summary
    texts = [said(entry.message) for entry in moment.entries if entry.version in {*held}]
    words = [word.strip(".,;:!?\"'()") for text in texts for word in text.split()]
    own = [word for word in dict.fromkeys(words) if {*split_words(word)} - PLAIN - COMMON]
    if summary is None or not own:
        return ""
    missing = [word for word in own if word.lower() not in summary.lower()]
    if not missing:
        return " The summary has all the words of what was asked for."
    return f" The summary does not say {listed(quoted(word) for word in missing[:5])}."


def _unpaired(_: ThreadMoment, numbers: tuple[int, ...]) -> str:
    return f"{_were(numbers)} left out: a tool call without its result, or the other way round."


def _later(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    version = _receipt(moment).version
    stored = [entry.at for entry in moment.entries if entry.version in numbers]
    return (
        f"{_were(numbers)} stored by another request at {clock(min(stored))}, after this turn had "
        f"read the thread (at version {version}) and before it was stored."
    )


def _kept_away(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    entries = [entry for entry in moment.entries if entry.version in numbers]
    written = min(_written(entry, moment.late) for entry in entries)
    arrived = max(entry.at for entry in entries)
    return (
        f"{_were(numbers)} written at {clock(written)} and kept on a machine that could not reach "
        f"the store: not there before {clock(arrived)}."
    )


def _unread(_: ThreadMoment, numbers: tuple[int, ...]) -> str:
    return (
        "The store could not be read, and the policy suppressed that: the model was given nothing "
        f"of {count(len(numbers), 'stored message')}."
    )


def _no_receipt(moment: ThreadMoment, _: tuple[int, ...]) -> str:
    if moment.knew is not None:
        return (
            "What the model was given is not known any more: messages were removed in a way that "
            "the thread has no record of, or too many since."
        )
    kept = " It was kept on a machine that could not reach the store." if moment.turn.kept else ""
    forked = ""
    if moment.origin is not None and moment.turn.first == 1:
        forked = f" It was copied from the thread {quoted(moment.origin)}: ask there."
    return f"The turn has no receipt, so what the model was given is not known.{kept}{forked}"


def _given(_: ThreadMoment, numbers: tuple[int, ...]) -> str:
    return f"{_were(numbers)} in its window: the model was given what it asked for."


_SENTENCES: dict[Reason, Callable[[ThreadMoment, tuple[int, ...]], str]] = {
    "window": _window,
    "summarised": _summarised,
    "unpaired": _unpaired,
    "later": _later,
    "kept": _kept_away,
    "unread": _unread,
    "no_receipt": _no_receipt,
    "given": _given,
}


def _gone_before(moment: ThreadMoment) -> list[Cause]:
    found = []
    if moment.removed:
        sentence = f"{_messages(moment.removed)} had been removed before it read the thread."
        found.append(Cause("removed", sentence, moment.removed))
    if moment.rewritten:
        sentence = f"{_messages(moment.rewritten)} had been rewritten before it read the thread."
        found.append(Cause("rewritten", sentence, moment.rewritten))
    if moment.trimmed:
        sentence = f"{_messages(tuple(range(1, moment.trimmed + 1)))} are not kept any more."
        found.append(Cause("removed", sentence, (1, moment.trimmed)))
    return found


# --- documents --------------------------------------------------------------------------


def _document_causes(moment: ThreadMoment, signs: Sequence[Sign]) -> list[Cause]:
    knew = moment.knew
    slots = [sign.evidence for sign in signs if sign.holder is None and sign.kind != "complaint"]
    found: list[Cause] = []

    def add(reason: Reason, names: Sequence[str], held: Mapping[str, Document], text: str) -> None:
        matters = {document_with(slot, {n: held[n] for n in names}) for slot in slots} != {None}
        found.append(Cause(reason, text, (), tuple(names), bool(slots) and matters))

    theirs = sorted(moment.asked_documents)
    if theirs:
        whose = "nobody" if moment.user is None else moment.user
        text = (
            f"The thread belongs to {whose}, so the {_documents(theirs)} of {moment.asked_user} "
            "could not be given."
        )
        add("other_user", theirs, moment.asked_documents, text)
    elif moment.asked_user not in (None, moment.user):
        text = f"No documents are kept of {moment.asked_user}: check the id."
        found.append(Cause("other_user", text))
    then = moment.documents_then
    if knew is None or knew.receipt.unread or not then:
        return found
    if knew.receipt.documents is None:
        names = sorted(then)
        text = f"Only the thread was asked for: the {_documents(names)} of {moment.user} "
        text += f"{'was' if len(names) == 1 else 'were'} not given."
        add("not_asked", names, then, text)
        return found
    for name, document in sorted(then.items()):
        given = knew.receipt.documents.get(name)
        if given is not None and given[1] == document.stamp:
            continue
        at = "" if document.updated_at is None else f" at {clock(document.updated_at)}"
        had = "did not find it" if given is None else f"had read version {given[0]}"
        text = f"The document {quoted(name)} was changed{at}, after this turn {had}."
        add("later", [name], then, text)
    having = dict.fromkeys(document_with(slot, knew.user) for slot in slots)
    names = [name for name in having if name is not None]
    if names:
        text = f"The {_documents(names)} had what it asked for, and the model was given it."
        add("given", names, knew.user, text)
    return found


def _documents(names: Sequence[str]) -> str:
    noun = "document" if len(names) == 1 else "documents"
    return f"{noun} {listed(quoted(name) for name in names)}"


# --- the answer -------------------------------------------------------------------------


def _answer(
    moment: ThreadMoment,
    causes: Sequence[Cause],
    signs: Sequence[Sign],
    reasons: Mapping[int, Reason],
) -> tuple[Judgement, str]:
    sign = strongest(signs)
    lost = [cause for cause in causes if cause.reason not in ("given", "no_receipt")]
    main = next((cause for cause in causes if cause.matters), None)
    given = sum(reason == "given" for reason in reasons.values())
    if sign is not None and main is not None and main.reason == "given":
        said_so = _sign(sign, moment)
        return "given", f"{said_so} {main.sentence} Nothing was lost on the way to it."
    if moment.knew is None:
        what = "" if sign is None else f"{_sign(sign, moment)} "
        return "unknown", f"{what}{_no_receipt(moment, ())}"
    if sign is None:
        if moment.knew.receipt.unread:
            return "lost", _unread(moment, tuple(reasons))
        share = f"{given} of {count(len(reasons), 'message')} written before it"
        return "nothing", f"This turn shows no sign of lost context. It was given {share}."
    said_so = _sign(sign, moment)
    if main is not None:
        return "lost", f"{said_so} {main.sentence}"
    if not lost:
        return "given", f"{said_so} But the model was given all that was there."
    return "lost", " ".join([said_so, *(cause.sentence for cause in lost[:2])])


def _sign(sign: Sign, moment: ThreadMoment) -> str:
    if sign.kind == "complaint":
        return f"The user complained of this turn in message {sign.at}: {quoted(sign.evidence)}."
    if sign.kind == "tool_call":
        return f"The agent ran {quoted(sign.evidence)} again, as in message {sign.earlier}."
    if sign.kind == "restarted":
        return f"The agent began anew what it had finished in message {sign.earlier}."
    if sign.holder is None:
        whose = moment.asked_user if sign.reason == "other_user" else "the user"
        return f"The agent asked for {quoted(sign.evidence)}, which the documents of {whose} have."
    text = next((said(it.message) for it in moment.entries if it.version == sign.holder), "")
    return f"The agent asked again for what message {sign.holder} says: {quoted(text)}."


# --- differences ------------------------------------------------------------------------


def _since_before(moment: ThreadMoment) -> KnowledgeDifference | None:
    """What this turn was given and the one before was not, and the other way round."""
    old, new = moment.before, moment.knew
    if old is None or new is None:
        return None
    came, left = _changed(old.numbers, new.numbers)
    told = []
    if old.receipt.unread != new.receipt.unread:
        which = "This turn" if new.receipt.unread else "The turn before"
        told.append(f"{which} could not read the store.")
    if old.receipt.summary is None and new.receipt.summary is not None:
        told.append("There is a summary now.")
    elif old.receipt.summary != new.receipt.summary:
        told.append(f"{'No' if new.receipt.summary is None else 'Another'} summary is given now.")
    if bounds(old.receipt) != bounds(new.receipt):
        told.append(f"Asked for: {bounds(new.receipt)}; before: {bounds(old.receipt)}.")
    before = {name: each[0] for name, each in (old.receipt.documents or {}).items()}
    after = {name: each[0] for name, each in (new.receipt.documents or {}).items()}
    told += _versions(before, after, old.user, new.user)
    told += _names("Workflow", old.receipt.workflows or {}, new.receipt.workflows or {})
    return KnowledgeDifference(old.version, came, left, tuple(told))


def _until_now(moment: ThreadMoment) -> KnowledgeDifference | None:
    """What became of what this turn was given."""
    knew = moment.knew
    if knew is None:
        return None
    told = []
    own = range(moment.turn.first, moment.turn.last + 1)
    read = moment.turn.last if knew.receipt.unread else knew.receipt.version
    since = (it.version for it in moment.entries if it.version > read)
    came = tuple(sorted(number for number in since if number not in own))
    gone = [g for g in knew.gone if g.what == "message"]
    for why in dict.fromkeys(g.why for g in gone):
        numbers = tuple(sorted(int(g.name) for g in gone if g.why == why and g.name))
        if numbers:
            told.append(f"{_messages(numbers)}: {why} since.")
    others = [g for g in knew.gone if g.what in ("summary", "workflow")]
    told += [f"{f'The {g.what} {g.name}'.rstrip()}: {g.why} since." for g in others]
    if knew.receipt.documents is not None:
        before = {name: each[0] for name, each in knew.receipt.documents.items()}
        after = {name: each.version for name, each in moment.documents.items()}
        told += _versions(before, after, knew.user, moment.documents)
    return KnowledgeDifference(moment.version, came, (), tuple(told))


def _changed(old: Iterable[int], new: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    before, after = {*old}, {*new}
    return tuple(sorted(after - before)), tuple(sorted(before - after))


def _versions(
    old: Mapping[str, int],
    new: Mapping[str, int],
    before: Mapping[str, Document],
    after: Mapping[str, Document],
) -> list[str]:
    told = []
    for name in sorted({*old, *new}):
        if name not in new:
            told.append(f"Document {quoted(name)}: not there any more.")
        elif name not in old:
            told.append(f"Document {quoted(name)}: new, version {new[name]}.")
        elif old[name] != new[name]:
            keys = _keys(before.get(name), after.get(name))
            told.append(f"Document {quoted(name)}: version {old[name]} to {new[name]}{keys}.")
    return told


def _keys(old: Document | None, new: Document | None) -> str:
    """Which names of a document have other values."""
    if old is None or new is None:
        return ""
    names = [n for n in {**old.value, **new.value} if old.value.get(n) != new.value.get(n)]
    return f" ({', '.join(sorted(names)[:8])})" if names else ""


def _names(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    came = [f"{what} {quoted(name)}: new." for name in sorted({*new} - {*old})]
    return came + [f"{what} {quoted(name)}: ended." for name in sorted({*old} - {*new})]


# --- words ------------------------------------------------------------------------------


def _receipt(moment: ThreadMoment) -> TurnReceipt:
    assert moment.knew is not None
    return moment.knew.receipt


def _messages(numbers: tuple[int, ...], *, capital: bool = True) -> str:
    noun = "message" if len(numbers) == 1 else "messages"
    return f"{noun.capitalize() if capital else noun} {spans(numbers)}"


def _were(numbers: tuple[int, ...]) -> str:
    return f"{_messages(numbers)} {'was' if len(numbers) == 1 else 'were'}"
