"""Facts from the user's own words: values that show in them, and replies to questions."""

from __future__ import annotations

import re

from stateward.repeats.facts import Fact, Facts, answers
from stateward.repeats.lexicon import DISTINCT, NUMBERS, SAME
from stateward.repeats.wants import POINTED, Want, want_of
from stateward.repeats.words import (
    CLOCK,
    DATE,
    EMAIL,
    LASTING,
    MONEY,
    PHONE,
    meaning,
    sentences,
    split_words,
)

IN_A_PLACE = re.compile(
    r"\b(?P<how>in|to|from|near|around|into|leaving|out of|visit)\s+"
    r"(?P<place>[A-Z][\w.'-]+(?:[ ,]+[A-Z][\w.'-]+)*)"
)
COUNTED = re.compile(rf"\b(?P<number>\d{{1,3}}|{'|'.join(NUMBERS)}) (?:\w+ )?(?P<what>[a-z]+)\b")
PARTY = re.compile(
    rf"\b(?:for|party of|seats?) (?P<number>\d{{1,2}}|{'|'.join(NUMBERS)})\b(?! ?[:ap])"
)
UNSETTLED = re.compile(
    r"\b(?:(?:do not|don't|dont) (?:know|understand|remember)|not sure|no idea|unsure|what do you "
    r"mean|which one|sorry\?|pardon|(?:let me|i(?:'ll| will| need to|'d have to)) (?:check|think|"
    r"see|find out|ask|look)|hold on|one (?:moment|second|sec)|later|depends)\b"
)
CHANGING = re.compile(
    r"\b(?:chang(?:e|ed|ing)|instead|different|wrong|mistake|start over|start again|from scratch|"
    r"correction|scratch that|never ?mind|switch|modify|reset|cancel|forget (?:that|it|what))\b"
)
ANEW = re.compile(
    r"\b(?:another|a new|one more|a second|also (?:need|want|book|like|order)|as well|again|"
    r"next (?:one|trip|order|booking)|different|"
    # A second task begins; facts of the first one need not hold for the second.
    r"(?:now|next|then|after that|besides|in addition),? (?:(?:i|we)(?:'d| would|'ll| will)? "
    r"(?:also )?(?:need|want|like)|(?:please |can you |could you |help me |let's )+"
    r"(?:also )?(?:book|find|get|order|reserve|arrange|call|search))|"
    r"one other thing)\b"
)


def stated_facts(text: str) -> tuple[Fact, ...]:
    """Return the facts in a user's message by itself: dates, times, counts, places, …

    Each fact is returned once, however often the text repeats it.
    """
    facts: list[Fact] = []
    for sentence in sentences(text):
        low = sentence.lower()
        for kind, pattern in (("date", DATE), ("time", CLOCK)):
            facts += [_dated(kind, low, match.start()) for match in pattern.finditer(low)]
        for kind, pattern in (("email", EMAIL), ("phone", PHONE), ("price", MONEY)):
            if pattern.search(low):
                facts.append(_fact(kind))
        if LASTING.search(low):
            facts.append(_fact("duration"))
        counted = {meaning(match["what"]) for match in COUNTED.finditer(low)}
        facts += [_fact("count", words=frozenset((what,))) for what in counted & SAME.keys()]
        if PARTY.search(low):
            facts.append(_fact("count", words=frozenset(("people",))))
        facts += [_located(match) for match in IN_A_PLACE.finditer(sentence)]
    return tuple(dict.fromkeys(facts))


def _fact(kind: str, role: str = "", words: frozenset[str] = frozenset()) -> Fact:
    return Fact(Want(frozenset((kind,)), role, words), kind, spoken=True)


def _dated(kind: str, low: str, at: int) -> Fact:
    before = split_words(low[max(0, at - 40) : at])[-5:]
    role = want_of([*before, kind]).role
    if before[-1:] == ["to"]:
        role = "end"
    return _fact(kind, role or ("start" if before[-1:] == ["from"] else ""))


def _located(match: re.Match[str]) -> Fact:
    how = match["how"]
    if how in ("from", "leaving", "out of"):
        return _fact("place", "from")
    return _fact("place", "to" if how in ("to", "into", "visit") else "")


class UserReply:
    """A user's message, parsed once for all the questions that it replies to."""

    def __init__(self, text: str) -> None:
        low = text.lower().strip()
        self.facts = Facts(stated_facts(text))
        self._kinds = {fact.name for fact in self.facts.all}
        self._settles_nothing = not low or UNSETTLED.search(low) is not None
        self._asks_back = low.endswith("?")

    def settles(self, want: Want, *, alone: bool = True) -> bool:
        """Return whether the reply answers a question, so that asking it again is a repeat.

        If several questions were asked together, the reply must contain the answer to this one.
        """
        if self._settles_nothing:
            return False
        if not alone and want.kinds & POINTED:
            return answers(want, self.facts) is not None
        if want.kinds & self._kinds or ("when" in want.kinds and self._kinds & {"date", "time"}):
            return True
        return not self._asks_back


def resembles(want: Want, earlier: Want) -> float:
    """Return how likely two questions ask for the same thing, from 0 to 1."""
    if want.closed != earlier.closed:
        return 0.0
    if want.text and want.text.lower().strip(" ?.!") == earlier.text.lower().strip(" ?.!"):
        return 1.0
    if want.closed and want.words != earlier.words:
        return 0.0
    pointed = want.kinds & POINTED
    if pointed != earlier.kinds & POINTED or want.role != earlier.role:
        return 0.0
    if want.past != earlier.past or (want.words ^ earlier.words) & DISTINCT:
        return 0.0
    alike = _overlap(want.words, earlier.words)
    if pointed:
        apart = want.words and earlier.words and not alike and not want.role
        return 0.0 if apart or ("count" in pointed and alike < 0.5) else 0.85
    if (want.kinds & earlier.kinds) - {"kind"}:
        return 0.85 if alike or not want.words or not earlier.words else 0.0
    if alike < 0.5 or ("kind" in want.kinds) != ("kind" in earlier.kinds):
        return 0.0
    return 0.6 + 0.3 * alike


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))
