"""The explanation of a turn: which message was not given, and why. No I/O.

A turn could have known all that was written before it. Its receipt has the part that it was
given; each other message has exactly one reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stateward.records import Change
from stateward.repeats.given import users_numbers
from stateward.repeats.messages import speaker, text_of
from stateward.why.causes import causes_of, no_receipt, unread
from stateward.why.differences import since_before, until_now
from stateward.why.reasons import message_reasons, messages_before, with_reason
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
from stateward.why.words import count, quoted

TEXT = 400  # characters of a message that are shown


def strongest(signs: Iterable[Sign]) -> Sign | None:
    """Return the sign to look at first: of content never given, then the surest, the newest."""
    ranked = sorted(signs, key=lambda sign: (sign.given is False, sign.score, sign.at))
    return ranked[-1] if ranked else None


def explain(moment: ThreadMoment) -> Explanation:
    """Explain the turn: the judgement, its causes, and what differs from other turns."""
    reasons = message_reasons(moment)
    spoken = users_numbers(moment.entries)
    signs = tuple(
        with_reason(sign, moment, reasons, spoken)
        for sign in moment.signs
        if _is_of(sign, moment.turn)
    )
    causes = causes_of(moment, reasons, signs, spoken)
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
        tuple(_sight(entry, reasons) for entry in messages_before(moment)),
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


def _sight(entry: Change, reasons: Mapping[int, Reason]) -> MessageSight:
    reason = reasons[entry.version]
    was_given = None if reason == "no_receipt" else reason == "given"
    text = text_of(entry.message)
    shown = text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"
    role = speaker(entry.message) or str(entry.message.get("role") or "")
    return MessageSight(
        entry.version, entry.at, role, shown, was_given, None if reason == "given" else reason
    )


def _answer(
    moment: ThreadMoment,
    causes: Sequence[Cause],
    signs: Sequence[Sign],
    reasons: Mapping[int, Reason],
) -> tuple[Judgement, str]:
    sign = strongest(signs)
    lost = [cause for cause in causes if cause.reason not in ("given", "no_receipt")]
    main = next((cause for cause in causes if cause.matters), None)
    count_given = sum(reason == "given" for reason in reasons.values())
    if sign is not None and main is not None and main.reason == "given":
        sentence = _sign(sign, moment)
        return "given", f"{sentence} {main.sentence} Nothing was lost before it reached the model."
    if moment.knew is None:
        what = "" if sign is None else f"{_sign(sign, moment)} "
        return "unknown", f"{what}{no_receipt(moment, ())}"
    if sign is None:
        if moment.knew.receipt.unread:
            return "lost", unread(moment, tuple(reasons))
        share = f"{count_given} of {count(len(reasons), 'message')} written before it"
        return "nothing", f"This turn shows no sign of lost context. It was given {share}."
    sentence = _sign(sign, moment)
    if main is not None:
        judgement: Judgement = "unknown" if main.reason == "no_receipt" else "lost"
        return judgement, f"{sentence} {main.sentence}"
    if not lost:
        return "given", f"{sentence} But the model was given everything that was stored."
    return "lost", " ".join([sentence, *(cause.sentence for cause in lost[:2])])


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
    text = next(
        (text_of(each.message) for each in moment.entries if each.version == sign.holder), ""
    )
    return f"The agent asked again for what message {sign.holder} says: {quoted(text)}."
