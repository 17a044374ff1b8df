"""The `Want` of a question that a message asks, and of a slot by its name."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from stateward.repeats.lexicon import (
    ENDING,
    HOURLY,
    INVERTED,
    KINDS,
    LEADS,
    LEAVING,
    OPEN,
    OPENERS,
    PLAIN,
    REACHING,
    STARTING,
)
from stateward.repeats.words import meaning, name_words, sentences, split_words, stem, values

POINTED = frozenset(("place", "date", "time", "when", "duration", "count"))

# Code, quotations and headings ask no one; nor does a question that the text itself continues to
# answer: one that does not speak to the user, with more to follow.
ASIDE = re.compile(r"```.*?(?:```|\Z)|(?m:^[ \t]*[>#][^\n]*$)", re.DOTALL)
ADDRESSED = re.compile(r"\b(?:you|your|yours|i|we|me|us)\b", re.IGNORECASE)
JOINING = re.compile(r"\band\b|,|&", re.IGNORECASE)
REQUEST = re.compile(
    r"\b(?:tell|give|send|let|provide|share|specify|state|enter|choose|select)\b.{0,200}\b(?:me|us|know|your|the)\b"
    r"|\b(?:i|we)(?:'ll|'d| will| would| just| also| still)* (?:need|require|want|like)"
    r"(?: to (?:know|ask|have|get)| your| the)\b"
    r"|\b(?:may|can|could) (?:i|we) (?:have|get|know|ask)\b"
)
EXISTS = re.compile(r"\bis there (?:a|an|any) .{0,200}\byou\b")
CONFIRMING = re.compile(
    r"^(?:so|and|then|ok|okay)?,? ?you(?:'d| would)? (?:want|like|are|need)\b|"
    r"\b(?:confirm(?:ed|ing|ation)?|correct|is (?:that|this|it|everything) (?:right|ok|okay|"
    r"fine|good|"
    r"acceptable|alright|all)|sound(?:s)? (?:good|right|ok|okay)|(?:does|do|would|will) "
    r"(?:that|this|it|these|those) (?:work|suit|look|sound|help|be|do)|"
    r"look(?:s)? (?:good|right)|verify|double.check)\b"
)
SMALL_TALK = re.compile(
    r"\b(?:anything else|something else|what else|any(?:thing)? (?:more|other|further)|"
    r"further (?:help|assist)|how about|what about (?:this|a|an|another)|"
    r"what do you think|how does .{0,200} sound|why (?:don't|not)|"
    r"(?:how|what) (?:can|may|could|else can|should) i (?:help|assist|do)|(?:help|assist) you with|"
    r"how (?:was|is|were|did) (?:your|the|it|that|everything)|guess what|you know what|"
    r"who knows|how are you|how come|what if)\b"
)
OFFERING = re.compile(
    r"\bwould you (?:like|want) (?:me|us) to (?:look|search|find|try|book|reserve|buy|purchase|"
    r"play|proceed|go|make|continue|check|order|send)|\bshall (?:i|we) (?:go|proceed|try|continue)|"
    r"\binterested in\b"
)


class Want(Struct, frozen=True):
    """The answer that a question wants: its sort, its role, and the words of its subject."""

    kinds: frozenset[str]
    role: str = ""  # from, to, start, end, or none
    words: frozenset[str] = frozenset()
    closed: bool = False  # a question for yes or no
    text: str = ""
    past: bool = False  # a question about the past, not about the future
    hourly: bool = False  # of such a thing "when" means the time of day at least as much as the day
    choices: frozenset[str] = frozenset()  # the words beside an "or": what may be chosen

    @property
    def vague(self) -> bool:
        return not self.kinds and not self.words


def requested_wants(text: str) -> tuple[Want, ...]:
    """Return everything that a message asks the user for, but for offers and confirmations."""
    wants = []
    spoken = sentences(ASIDE.sub("\n", text))
    for at, sentence in enumerate(spoken):
        if at >= len(spoken) - 2 or ADDRESSED.search(sentence):
            wants += [want for want in _asks(sentence) if not want.vague]
    return tuple(wants)


def _asks(sentence: str) -> list[Want]:
    """Return the questions that one sentence joins: "which city, and on what day?"."""
    whole = _ask(sentence)
    if whole is None:
        return []
    parts = [want_of(split_words(part), text=sentence) for part in JOINING.split(sentence) if part]
    several = [part for part in parts if part.kinds & POINTED]
    return several if not whole.closed and len(several) > 1 else [whole]


def _ask(sentence: str) -> Want | None:
    low = sentence.lower().replace("’", "'")
    words = split_words(sentence)
    if not words or len(words) > 40:
        return None
    opened = next((at for at, word in enumerate(words) if _opens(word)), None)
    first = next((word for word in words if word not in LEADS), "")
    if first in INVERTED:
        opened = None  # "should they ring when they arrive" does not ask when
    led = opened is not None and all(word in LEADS for word in words[:opened])
    requests = REQUEST.search(low) is not None
    marked = sentence.endswith("?")
    if not (marked or requests or led):
        return None
    closed = opened is None and not requests
    choices = _choices(words) if marked else frozenset()
    if SMALL_TALK.search(low) or (closed and OFFERING.search(low) and not choices):
        return None
    if closed and (OPEN & {stem(word) for word in words} or EXISTS.search(low)):
        closed = False
    shown = values(sentence) - {"count"}
    if closed and (shown or CONFIRMING.search(low)):
        return None  # a confirmation or an offer, which names the values itself
    if CONFIRMING.search(low) and (shown or opened is None):
        return None
    if closed and not marked and not _inverted(words):
        return None
    want = want_of(words, closed=closed, text=sentence)
    return replace(want, choices=choices) if choices else want


def _choices(words: list[str]) -> frozenset[str]:
    """Return the things that a question offers a choice of: "a window or an aisle seat?"."""
    near = {
        meaning(words[beside])
        for at, word in enumerate(words)
        if word == "or"
        for beside in (at - 2, at - 1, at + 1, at + 2)
        if 0 <= beside < len(words)
    }
    return frozenset(near - PLAIN - {"or"})


def _opens(word: str) -> bool:
    return word in OPENERS or word in ("what's", "whats", "where's", "when's", "wheres")


def _inverted(words: list[str]) -> bool:
    return any(word in INVERTED for word in words[:2])


@lru_cache(maxsize=2048)
def slot(name: str) -> Want:
    """Return the want that a slot of this name answers."""
    return want_of(name_words(name), named=True)


def want_of(words: list[str], *, closed: bool = False, text: str = "", named: bool = False) -> Want:
    kinds = {KINDS[word] for word in words if word in KINDS}
    kinds |= {KINDS[root] for word in words if (root := stem(word)) in KINDS}
    if named and set(words) <= {"to", "from"}:
        kinds.add("place")
    if "how" in words and "much" in words:
        kinds.add("price")
    elif "how" in words and not {"many", "long", "far", "old", "often", "soon"} & set(words):
        kinds.add("way")
    if "count" in kinds and _is_id(words):
        kinds = (kinds - {"count"}) | ({"id"} if not kinds & {"phone"} else set())
    if "long" in words and "how" not in words:
        kinds.discard("duration")
    if named and "length" in words:
        kinds.discard("count")
    if {"days", "nights", "weeks", "hours"} & set(words) and "count" in kinds:
        kinds.add("duration")
    if "duration" in kinds:
        kinds -= {"count", "date", "time", "when", "place", "price"}
    if {"place", "when"} <= kinds:
        kinds.discard(_later(words, "where", "when"))
    if "count" in kinds:
        kinds -= {"place", "date", "time", "kind"}
    if kinds & {"date", "time"}:
        kinds -= {"when"}
    if kinds & {"date", "time"} and "place" in kinds and not named:
        kinds &= {"place"} if "where" in words else {"date", "time"}
    subject = {meaning(word) for word in words if word not in PLAIN and stem(word) not in PLAIN}
    subject -= {word for word in subject if word in KINDS or word.isdigit()}
    if named and subject >= {"people", "size"}:
        kinds, subject = {"count"}, subject - {"size"}
    role = _role(words, kinds, named=named)
    past = not named and bool({"did", "was", "were"} & set(words[:4]))
    hourly = bool(HOURLY & {stem(word) for word in words})
    return Want(frozenset(kinds), role, frozenset(subject), closed, text, past, hourly)


def _is_id(words: list[str]) -> bool:
    """Return whether a number is an identifier: an order number is not a count of orders."""
    at = next((at for at, word in enumerate(words) if word in ("number", "num")), 0)
    if at == 0 or "many" in words or words[at + 1 : at + 2] == ["of"]:
        return False
    return words[at - 1] not in PLAIN


def _later(words: list[str], place: str, moment: str) -> str:
    """Return whichever of place and time a question mentions second, in passing."""
    if place in words and moment in words and words.index(moment) < words.index(place):
        return "place"
    return "when"


def _role(words: list[str], kinds: set[str], *, named: bool) -> str:
    roots = [stem(word) for word in words]
    if kinds & {"date", "time", "when"}:
        if ENDING & set(roots):
            return "end"
        return "start" if STARTING & set(roots) or "checkin" in words else ""
    if "place" not in kinds:
        return ""
    leaving = LEAVING & set(roots)
    if named:
        return "from" if leaving else "to" if REACHING & set(roots) else ""
    if leaving:
        return "from"
    if _reaches(words, roots):
        return "to"
    return ""


def _reaches(words: list[str], roots: list[str]) -> bool:
    if {"destination", "arrival", "arrive", "dropoff", "visit", "headed", "heading"} & {
        *words,
        *roots,
    }:
        return True
    if words[-1] == "to" or words[0] == "to":
        return True
    ends = [root for root in roots[-3:] if root in ("go", "travel", "fly", "head", "ride")]
    return bool(ends)
