"""From what was read to what is said: which message was not given, and why. No I/O.

What a turn might have known is all that was written before it. Of that, its receipt says what it
was given; for everything else there is exactly one reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from msgspec.structs import replace

from stateward.records import Change, Document, TurnReceipt
from stateward.repeats.given import document_with, is_answered, users_numbers
from stateward.repeats.lexicon import COMMON, PLAIN
from stateward.repeats.messages import said, speaker
from stateward.repeats.words import split_words
from stateward.why.differences import since_before, until_now
from stateward.why.records import (
    AppendSpan,
    Cause,
    Explanation,
    Judgement,
    MessageSight,
    Reason,
    Sign,
    ThreadMoment,
)
from stateward.why.words import (
    bounds,
    clock,
    count,
    listed,
    naming,
    quoted,
    were,
)
from stateward.why.written_order import kept_span, written

TEXT = 400  # characters of a message that are shown
# What is worst for whoever asks comes first.
ORDER: Sequence[Reason] = (
    *("no_receipt", "unread", "kept", "later", "window", "summarised", "unpaired"),
    *("removed", "rewritten", "other_user", "not_asked", "given"),
)


def strongest(signs: Iterable[Sign]) -> Sign | None:
    """The sign to look at first: of what was never given, then the surest, then the newest."""
    ranked = sorted(signs, key=lambda sign: (sign.given is False, sign.score, sign.at))
    return ranked[-1] if ranked else None


def explain(moment: ThreadMoment) -> Explanation:
    """What is to be said of the turn."""
    reasons = message_reasons(moment)
    spoken = users_numbers(moment.entries)
    signs = tuple(
        _with_reason(sign, moment, reasons, spoken)
        for sign in moment.signs
        if _is_of(sign, moment.turn)
    )
    causes = _causes(moment, reasons, signs, spoken)
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
        since_before(moment),
        until_now(moment),
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
        return dict.fromkeys(numbers, "no_receipt")  # the thread no longer knows
    receipt, given = knew.receipt, {*knew.numbers}
    reasons: dict[int, Reason] = {}
    left = [n for n in sorted(numbers) if n <= receipt.version and n not in given]
    summarised = {*left[: max(0, receipt.summarised - moment.older)]}
    unpaired = _unpaired_of(left, receipt, knew.numbers)
    for number in numbers:
        if number in given:
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


def _with_reason(
    sign: Sign, moment: ThreadMoment, reasons: Mapping[int, Reason], spoken: Sequence[int]
) -> Sign:
    reason: Reason | None = None
    if _is_own(sign, moment.turn, spoken):
        reason = "given"
    elif sign.holder is not None:
        reason = reasons.get(sign.holder)
    elif sign.kind != "complaint":
        reason = _slot_reason(sign, moment)
    given = sign.given if reason in (None, "no_receipt") else reason == "given"
    return replace(sign, given=given, reason=reason)


def _is_own(sign: Sign, turn: AppendSpan, spoken: Sequence[int]) -> bool:
    """Whether what it asked for was in the very turn."""
    return (
        sign.holder is not None
        and turn.first <= sign.holder <= turn.last
        and is_answered(sign.holder, sign.at, spoken)
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
    moment: ThreadMoment,
    reasons: Mapping[int, Reason],
    signs: Sequence[Sign],
    spoken: Sequence[int],
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
    own = sorted({it.holder for it in signs if it.holder and _is_own(it, moment.turn, spoken)})
    if own:
        sentence = f"{naming(tuple(own))} {'is' if len(own) == 1 else 'are'} part of this turn."
        found.append(Cause("given", sentence, tuple(own), matters=True))
    if moment.knew is None and not found:
        found.append(Cause("no_receipt", _no_receipt(moment, ())))
    for host, turns in moment.waiting:
        sentence = f"{count(turns, 'turn')} wait on {host} for the store, of this thread or others."
        found.append(Cause("kept", sentence.replace("1 turn wait", "1 turn waits")))
    found += _gone_before(moment)
    found += _document_causes(moment, signs)
    return tuple(sorted(found, key=lambda it: (not it.matters, ORDER.index(it.reason))))


def _receipt(moment: ThreadMoment) -> TurnReceipt:
    assert moment.knew is not None
    return moment.knew.receipt


def _window(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    receipt = _receipt(moment)
    more = max(0, moment.older - receipt.summarised)
    older = f", and so were {more:,} older ones" if more else ""
    return f"{were(numbers)} outside of its window ({bounds(receipt)}){older}."


def _summarised(moment: ThreadMoment, numbers: tuple[int, ...]) -> str:
    summary = None if moment.knew is None else moment.knew.summary
    long = "" if summary is None else f" of {count(len(summary), 'character')}"
    return f"A summary{long} was given instead of {naming(numbers, capital=False)}."


def _in_summary(moment: ThreadMoment, held: Set[int]) -> str:
    """Whether the summary has the words of the message that matters."""
    summary = None if moment.knew is None else moment.knew.summary
    texts = [said(entry.message) for entry in moment.entries if entry.version in held]
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
    kept = frozenset(numbers)
    entries = [entry for entry in moment.entries if entry.version in kept]
    begun = min(written(entry, moment.late) for entry in entries)
    arrived = max(entry.at for entry in entries)
    return (
        f"{were(numbers)} written at {clock(begun)} and kept on a machine that could not reach "
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
            "What the model was given is no longer known: messages were removed in a way that the "
            "thread has no record of, or too many were removed since."
        )
    kept = " It was kept on a machine that could not reach the store." if moment.turn.kept else ""
    forked = ""
    if moment.origin is not None and moment.turn.first == 1:
        forked = f" It was copied from the thread {quoted(moment.origin)}: look there."
    return f"The turn has no receipt, so what the model was given is unknown.{kept}{forked}"


def _given(_: ThreadMoment, numbers: tuple[int, ...]) -> str:
    return f"{were(numbers)} in its window: the model was given what it asked for."


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
        sentence = f"{naming(moment.removed)} had been removed before it read the thread."
        found.append(Cause("removed", sentence, moment.removed))
    if moment.rewritten:
        sentence = f"{naming(moment.rewritten)} had been rewritten before it read the thread."
        found.append(Cause("rewritten", sentence, moment.rewritten))
    if moment.trimmed:
        sentence = f"Messages up to {moment.trimmed} are no longer stored."
        found.append(Cause("removed", sentence))
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
        whose = "no user" if moment.user is None else moment.user
        text = (
            f"The thread belongs to {whose}, so the {_documents(theirs)} of {moment.asked_user} "
            "could not be given."
        )
        add("other_user", theirs, moment.asked_documents, text)
    elif moment.asked_user not in (None, moment.user):
        text = f"There are no documents of {moment.asked_user}: check the id."
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
        return "given", f"{said_so} {main.sentence} Nothing was lost before it reached the model."
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
        known = main.reason != "no_receipt"
        return "lost" if known else "unknown", f"{said_so} {main.sentence}"
    if not lost:
        return "given", f"{said_so} But the model was given everything that was stored."
    return "lost", " ".join([said_so, *(cause.sentence for cause in lost[:2])])


def _sign(sign: Sign, moment: ThreadMoment) -> str:
    if sign.kind == "complaint":
        return f"The user complained about this turn in message {sign.at}: {quoted(sign.evidence)}."
    if sign.kind == "tool_call":
        return f"The agent ran {quoted(sign.evidence)} again, as in message {sign.earlier}."
    if sign.kind == "restarted":
        return f"The agent restarted what it had finished in message {sign.earlier}."
    if sign.holder is None:
        whose = moment.asked_user if sign.reason == "other_user" else "the user"
        return f"The agent asked for {quoted(sign.evidence)}, which the documents of {whose} have."
    text = next((said(it.message) for it in moment.entries if it.version == sign.holder), "")
    return f"The agent asked again for what message {sign.holder} says: {quoted(text)}."
