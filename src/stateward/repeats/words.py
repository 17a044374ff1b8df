"""Sentences, words and stems of a text, and the values in it."""

from __future__ import annotations

import re
from functools import lru_cache

from stateward.repeats.lexicon import NUMBERS, SAME

LONGEST = 4_000  # characters of one message that are read

SENTENCE = re.compile(r"[^.!?\n;]+(?:\.(?=\w)[^.!?\n;]+)*[.!?;]*")
WORD = re.compile(r"[a-z0-9À-ɏ]+(?:'[a-z]+)?(?::\d\d)?")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
JOINED = (
    (re.compile(r"\bcheck(?:ing)?[\s-]+out\b"), "checkout"),
    (re.compile(r"\bcheck(?:ing)?[\s-]+in\b"), "checkin"),
    (re.compile(r"\b(?:pick|picking)(?:[\s-]+(?:it|them|the \w+|your \w+))?[\s-]+up\b"), "pickup"),
    (
        re.compile(r"\b(?:drop|dropping)(?:[\s-]+(?:it|them|the \w+|your \w+))?[\s-]+off\b"),
        "dropoff",
    ),
    (re.compile(r"\bpicked up\b"), "pickup"),
    (re.compile(r"\b(?:com|gett?|giv|bring)(?:e|ing)?(?: it| them)? back\b"), "return"),
    (re.compile(r"\bout of\b"), "from"),
    (re.compile(r"\be[\s-]?mail\b"), "email"),
    (re.compile(r"\bzip[\s-]code\b"), "zipcode"),
)

_MONTH = r"(?:jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*|may"
_DAY = r"(?:mon|tues?|wednes|thurs?|fri|satur|sun)day|today|tonight|tomorrow"
DATE = re.compile(
    rf"\b(?:{_DAY}|(?:{_MONTH})\.? ?\d{{1,2}}|\d{{1,2}}(?:st|nd|rd|th)|"
    rf"(?:{_MONTH}) (?:the )?\d{{1,2}}|\d{{4}}-\d\d-\d\d|\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2,4}}|"
    r"(?:next|this|coming) (?:week|weekend|month))\b"
)
_HOUR = rf"(?:\d{{1,2}}(?::\d\d)?|{'|'.join(NUMBERS)})"
CLOCK = re.compile(
    rf"\b(?:\d{{1,2}}:\d\d|{_HOUR} ?(?:[ap]\.?m\b|o'?clock)|noon|midnight|"
    rf"(?:half|quarter) (?:past|to) {_HOUR}|"
    rf"{_HOUR} in the (?:morning|afternoon|evening))"
)
# Match a long run of the same characters once, from its beginning or up to a limit: matching
# from each of its characters would take quadratic time.
MONEY = re.compile(
    r"[$€£¥]\s?\d|(?<![\d,.])[,.]*\b\d[\d,.]{0,24} ?(?:dollars?|euros?|pounds?|usd|eur|bucks)\b"
)
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+\.\w+")
PHONE = re.compile(r"\+?\d[\d\s().-]{6,40}\d")
LASTING = re.compile(
    r"\b(?:\d+|a|one|two|three|four|five|six|seven) (?:day|night|week|hour|month)s?\b"
)
NUMBER = re.compile(r"\b\d+\b")


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """Return a word without its endings, as far as rules of English spelling allow."""
    if word.endswith("'s"):
        word = word[:-2]
    for ending, put in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh")):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)] + put
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    for ending in ("ing", "ed"):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(root) > 2 and re.search("[aeiouy]", root):
            if root[-1] == root[-2] and root[-1] not in "ls":
                return root[:-1]
            return root + "e" if root.endswith(("v", "at", "iv", "rv", "uc", "ir", "z")) else root
    return word


@lru_cache(maxsize=4096)
def meaning(word: str) -> str:
    """Return the word that stands for all words of the same meaning."""
    return SAME.get(word) or SAME.get(stem(word)) or stem(word)


def clipped(text: str) -> str:
    """Return both ends of a long text: questions and complaints are seldom in the middle."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST // 2]}\n{text[-(LONGEST // 2) :]}"


def split_words(text: str) -> list[str]:
    text = text.lower().replace("’", "'")
    for pattern, joined in JOINED:
        text = pattern.sub(joined, text)
    return WORD.findall(text)


def name_words(name: str) -> list[str]:
    """Return the words of a slot's name: `departureDate`, `departure_date`, `departure-date`."""
    return split_words(re.sub(r"[\W_]+", " ", CAMEL.sub(" ", name)))


def sentences(text: str) -> list[str]:
    return [part for part in map(str.strip, SENTENCE.findall(text)) if part]


def values(text: str) -> frozenset[str]:
    """Return the sorts of value that a text contains, recognised by their form alone."""
    low = text.lower()
    sorts = {
        kind
        for kind, pattern in (
            ("date", DATE),
            ("time", CLOCK),
            ("price", MONEY),
            ("email", EMAIL),
            ("phone", PHONE),
            ("duration", LASTING),
        )
        if pattern.search(low)
    }
    if NUMBER.search(low) or any(word in NUMBERS for word in low.split()):
        sorts.add("count")
    return frozenset(sorts)
