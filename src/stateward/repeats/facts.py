"""Settled facts: from the user's state, and from the user's own words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from stateward.repeats.lexicon import ABOUT, DISTINCT, LIVING, OWN_NAME, SORTS
from stateward.repeats.wants import POINTED, Want, slot
from stateward.repeats.words import meaning, name_words, split_words, values

SLOTS = 256  # facts of one user's state: enough for any prompt, and a bound on the running time
DEEPEST = 5
VALUE = 200  # characters of a value that are compared
SEPARATOR = re.compile(r"[./:>]")
NOTHING: frozenset[str] = frozenset()
YES_NO = frozenset(("true", "false", "yes", "no"))


class Fact(Struct, frozen=True):
    """A settled fact: the question that it answers, its place, and the names around it."""

    want: Want
    name: str
    around: frozenset[str] = frozenset()
    yes_no: bool = False
    spoken: bool = False  # from the user's words, where no slot names it
    value: str = ""
    since: int = -1  # the message after which the fact is known; -1: from the beginning


class Facts:
    """Facts that are known together. Properties of the whole set are computed once.

    Comparing every fact with every other one would take quadratic time.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.all = tuple(facts)

    @cached_property
    def begun(self) -> bool:
        """Return whether a date is known on which something may begin."""
        return any("date" in fact.want.kinds and fact.want.role != "end" for fact in self.all)

    @cached_property
    def timed(self) -> bool:
        return any("time" in fact.want.kinds for fact in self.all)

    @cached_property
    def roles(self) -> frozenset[str]:
        """Return the roles of the known places."""
        return frozenset(fact.want.role for fact in self.all if "place" in fact.want.kinds)


def state_facts(user: Mapping[str, Any]) -> list[Fact]:
    """Return the filled slots of a user's state, however deeply nested."""
    facts = []
    for path, value in _leaves(user, (), 0):
        parts = [part for name in path for part in SEPARATOR.split(name) if part]
        if not parts:
            continue
        want = slot(parts[-1])
        text = str(value)[:VALUE]
        if not want.kinds and len(text) <= 40:
            want = Want(values(text) & {"date", "time", "email", "phone"}, "", want.words)
        near = {meaning(word) for part in parts[:-1] for word in name_words(part)}
        around = frozenset(near.union(*(ABOUT.get(word, ()) for word in near)))
        yes_no = text.strip().lower() in YES_NO
        facts.append(Fact(want, ".".join(parts), around, yes_no, value=text))
        if len(facts) == SLOTS:
            break
    return facts


def since_told(facts: list[Fact], spoken: list[tuple[int, str]]) -> list[Fact]:
    """Return the facts, each known from the message where the user first says its value.

    `spoken` is what the user said, by index. What is nowhere in it may have been learned with the
    last of it, so only a question after that is one too many.
    """
    texts = [(at, f" {' '.join(split_words(text))} ") for at, text in spoken]
    last = texts[-1][0] if texts else -1
    dated = []
    for fact in facts:
        value = f" {' '.join(split_words(fact.value))} "
        mentions = (at for at, text in texts if len(value) > 4 and value in text)
        dated.append(replace(fact, since=next(mentions, last)))
    return dated


def _leaves(
    value: Mapping[str, Any], path: tuple[str, ...], depth: int
) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, held in value.items():
        here = (*path, str(name))
        if isinstance(held, Mapping):
            if depth < DEEPEST:
                yield from _leaves(held, here, depth + 1)
        elif isinstance(held, list):
            if held:
                yield here, ", ".join(str(one) for one in held[:3])
        elif held is not None and held != "":
            yield here, held


def answers(want: Want, facts: Facts) -> tuple[float, Fact] | None:
    """Return the fact that already answers the want, and the confidence in the answer."""
    best: tuple[float, Fact] | None = None
    for fact in facts.all:
        score = _likeness(want, fact, facts)
        if score > 0 and (best is None or score > best[0]):
            best = (score, fact)
    return best


def _likeness(want: Want, fact: Fact, facts: Facts) -> float:
    topic = fact.want
    if want.choices and not topic.kinds & POINTED and _chosen(fact) <= want.choices:
        return 0.85  # the user has already chosen among the things offered
    named = topic.words | fact.around
    if want.words & DISTINCT - named or (want.past and not want.words & topic.words):
        return 0.0
    if want.closed:
        return _yes_no(want, fact)
    if "place" in want.kinds and "address" in topic.kinds and topic.words & want.words:
        return 0.85
    if "duration" in want.kinds and topic.role == "end" and "date" in topic.kinds:
        return 0.75 if facts.begun else 0.0
    for kind in ("duration", "count", "date", "time", "place"):
        if kind in topic.kinds:
            return _pointed(kind, want, fact, facts)
    if want.kinds & POINTED and (topic.kinds or not topic.words <= want.words):
        return 0.0
    return _named(want, fact)


def _chosen(fact: Fact) -> frozenset[str]:
    """Return the words of a value that can be one of the things that a question offers."""
    words = frozenset(map(meaning, split_words(fact.value))) if len(fact.value) <= 40 else NOTHING
    return words if words and not words & YES_NO else frozenset(("\0",))


def _pointed(kind: str, want: Want, fact: Fact, facts: Facts) -> float:
    topic = fact.want
    if kind == "date" and "when" in want.kinds:
        return 0.8 * _turn(want, fact) if facts.timed or not want.hourly else 0.0
    if kind not in want.kinds:
        return 0.0
    if kind in ("date", "time"):
        return _turn(want, fact)
    if kind == "place":
        return _place(want, fact, facts)
    counted = topic.words - fact.around
    if kind == "count":
        return 0.9 if counted & want.words or not counted else 0.0
    return 0.9


def _turn(want: Want, fact: Fact) -> float:
    topic = fact.want
    if topic.words - fact.around - want.words:
        return 0.0  # a date of birth is no date of arrival
    if (want.role == "end") != (topic.role == "end"):
        return 0.0
    if fact.spoken and want.role == "start" and topic.role != "start":
        return 0.0  # the date may as well belong to the other role
    return 0.95 if want.role == topic.role else 0.85


def _place(want: Want, fact: Fact, facts: Facts) -> float:
    topic = fact.want
    if topic.words - fact.around - want.words:
        return 0.0
    if "address" in fact.around and not want.words & LIVING:
        return 0.0  # the place where the user lives, not the destination
    if want.role == topic.role:
        return 0.95
    if not topic.role:
        return 0.85 if facts.roles == {""} else 0.0
    return 0.8 if not want.role and {"from", "to"} <= facts.roles else 0.0


def _yes_no(want: Want, fact: Fact) -> float:
    topic = fact.want
    if topic.kinds & {"date", "time", "place", "count", "duration"} or not topic.words:
        return 0.0
    if fact.yes_no and topic.words <= want.words:
        return 0.9
    return 0.0


def _named(want: Want, fact: Fact) -> float:
    topic = fact.want
    if (sorts := SORTS.get(next(iter(topic.words), ""))) is not None:
        return 0.85 if topic.words <= want.words or (_of_kind(want) & sorts) else 0.0
    shared = (topic.kinds & want.kinds) - {"kind"}
    if "who" in want.kinds or shared == {"id"}:  # the owner of the value must be the same
        return 0.85 if (topic.words | (fact.around if shared else NOTHING)) & want.words else 0.0
    if shared == {"name"} and not topic.words and want.words - OWN_NAME - fact.around:
        return 0.0  # the name of another person or thing, not the known one
    if shared and (not topic.words or topic.words & want.words):
        return 0.9
    if (want.kinds | topic.kinds) - {"kind"} and (want.kinds - {"kind", "name", "way"} or shared):
        return 0.0
    if "kind" in topic.kinds:
        subject = topic.words | fact.around
        return 0.85 if subject & _of_kind(want) else 0.0
    if topic.words and topic.words <= want.words and not topic.kinds - {"name", "kind"}:
        return 0.8
    return 0.0


def _of_kind(want: Want) -> frozenset[str]:
    """Return the things that a question asks the kind of."""
    return want.words if "kind" in want.kinds else frozenset()
