"""One conversation, message by message: questions, facts, tool calls, and their repeats.

Nothing here calls a model. Where one may help, `add` yields a question (`Embed`, `Judge`) and is
sent the answer, so that the same code serves blocking and async callers.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from stateward.repeats.complaints import complains
from stateward.repeats.facts import Fact, Facts, answers
from stateward.repeats.lexicon import COMMON, PLAIN
from stateward.repeats.messages import Call, calls, results, speaker, text_of
from stateward.repeats.replies import ANEW, CHANGING, UserReply, resembles
from stateward.repeats.wants import Want, requested_wants, want_of
from stateward.repeats.words import clipped, name_words, split_words, stem

Kind = Literal["asked_again", "already_given", "complaint", "restarted", "tool_call"]

COMPLETED = re.compile(
    r"\b(?:(?:is|are|has been|have been|was|were|i've|i have)(?: now| successfully| all)* "
    r"(?:booked|confirmed|completed|complete|ordered|placed|submitted|processed|cancelled|canceled|"
    r"scheduled|reserved|paid|sent|refunded|created|done|resolved|closed|set up)|all (?:set|done)|"
    r"(?:order|booking|reservation|confirmation|ticket) (?:number|code|id))\b",
    re.IGNORECASE,
)
STARTING_OVER = re.compile(r"\b(?:start (?:over|again|afresh)|from scratch|reset)\b", re.IGNORECASE)
CHECKING = re.compile(
    r"\b(?:again|re-?check|refresh|retry|update[ds]?|still|now|status|latest|once more|try|news)\b",
    re.IGNORECASE,
)
NAMED = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}")  # a name in the middle of a sentence
JUDGED = 6  # earlier moments that a judge is shown for one question
SHOWN = 1_000  # characters of such a moment
LIKE = 0.72  # cosine from which on two vectors count as the same


class Repeat(Struct, frozen=True):
    """A sign that context was lost. `at` and `earlier` are indexes into the messages.

    `earlier` is None where the user's state, not a message, holds the answer. `evidence` names
    what was there already: the earlier question, the slot, the words of the complaint, the tool.
    `given` says whether the model had been given that, where a receipt tells: see
    `stateward.repeats.given`. If it had, nothing was lost on the way to it.
    """

    kind: Kind
    at: int
    earlier: int | None
    evidence: str
    score: float
    given: bool | None = None


class Embed(Struct, frozen=True):
    """A request for a vector of each text."""

    texts: list[str]


class Judge(Struct, frozen=True):
    """A request to judge whether `question` asks for something that `earlier` settled."""

    question: str
    earlier: str


Request = Embed | Judge
Plan = Generator[Request, Any, list[Repeat]]


class Asked(Struct):
    """A question of the assistant's with its words; `reply` is the user's answer."""

    at: int
    want: Want
    words: frozenset[str]
    settled: bool = False
    who: str = ""
    reply: str = ""


class Told(Struct, frozen=True):
    """A value in the user's words; `about` is the subject of the question that it replies to."""

    at: int
    fact: Fact
    who: str
    about: frozenset[str]
    text: str


class Ran(Struct):
    """An observed tool call; `failed` and `answered` come from its result."""

    at: int
    turn: int
    answered: bool = False
    failed: bool = False


class History:
    """The questions and answers of a conversation so far, over its last `window` messages."""

    def __init__(self, window: int, like: float) -> None:
        self._window, self._like = window, like
        self._embeds = self._judges = False
        self._asked: deque[Asked] = deque(maxlen=window)
        self._told: deque[Told] = deque(maxlen=4 * window)
        self._words: deque[frozenset[str]] = deque(maxlen=20)  # words of the user
        self._ran: OrderedDict[tuple[str, str], Ran] = OrderedDict()
        self._calls: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._state: list[Fact] = []
        self._open: list[Asked] = []  # questions without a reply so far
        self._reopened: list[Want] | None = []  # what the user wants changed; None: everything
        self._spared = 0  # assistant messages for which the user's wish to change still holds
        self._done: int | None = None  # where the assistant last said that the work was done
        self._turn = 0
        self._who = ""
        self._last = ""  # what the user said last

    def know(self, facts: list[Fact]) -> None:
        """Use these facts as the user's state from now on."""
        self._state = facts

    def models(self, *, embeds: bool, judges: bool) -> None:
        """Return whether there is a function to embed, and whether there is one to judge."""
        self._embeds, self._judges = embeds, judges

    def add(self, message: Mapping[str, Any], at: int) -> Plan:
        """Take the next message, and return the repeats in it."""
        self._forget(at - self._window)
        repeats = self._tools(message, at)
        text, who = clipped(text_of(message)), speaker(message)
        if not text.strip():
            return repeats
        if who == "user":
            repeats += self._hear(text, str(message.get("name") or ""), at)
        elif who == "assistant":
            repeats += yield from self._speak(text, at)
        return repeats

    def _forget(self, before: int) -> None:
        while self._asked and self._asked[0].at < before:
            self._asked.popleft()
        while self._told and self._told[0].at < before:
            self._told.popleft()
        for calls_by in (self._ran, self._calls):
            while len(calls_by) > self._window:
                calls_by.popitem(last=False)

    # --- tools ----------------------------------------------------------------------

    def _tools(self, message: Mapping[str, Any], at: int) -> list[Repeat]:
        repeats = []
        for result in results(message):
            ran = self._ran.get(self._calls.get(result.id, ("", "")))
            if ran is not None:
                ran.answered, ran.failed = True, result.failed
        for call in calls(message):
            before = self._run(call, at)
            if before is not None:
                again = before.turn == self._turn
                score = 1.0 if again and before.answered else 0.8 if again else 0.6
                repeats.append(Repeat("tool_call", at, before.at, call.name, score))
        return repeats

    def _run(self, call: Call, at: int) -> Ran | None:
        """Record a call; return an earlier equal call if this one is a repeat."""
        key = (call.name, call.arguments)
        if call.id:
            if call.id in self._calls:
                return None  # the same call stored twice, not run twice
            self._calls[call.id] = key
        before = self._ran.pop(key, None)
        self._ran[key] = Ran(at, self._turn)
        if before is None or before.failed:
            return None
        later = before.turn != self._turn
        return None if later and CHECKING.search(self._last) else before

    # --- the user speaks ------------------------------------------------------------

    def _hear(self, text: str, who: str, at: int) -> list[Repeat]:
        self._turn += 1
        self._who, self._last = who, text
        low = text.lower()
        if CHANGING.search(low):
            changed = want_of(split_words(low))
            self._reopened = None if changed.vague or STARTING_OVER.search(low) else [changed]
            self._spared = 8 if STARTING_OVER.search(low) else 2
        if ANEW.search(low):
            self._asked.clear()
            self._told.clear()
            self._done = None
        about = frozenset(word for question in self._open for word in question.want.words)
        reply = UserReply(text)
        for question in self._open:
            question.settled = reply.settles(question.want, alone=len(self._open) == 1)
            question.who, question.reply = who, text
        self._open = []
        self._told.extend(Told(at, fact, who, about, text) for fact in reply.facts.all)
        self._words.append(frozenset(split_words(text)))
        words = complains(text)
        return [] if words is None else [Repeat("complaint", at, None, words, 0.95)]

    # --- the assistant speaks -------------------------------------------------------

    def _speak(self, text: str, at: int) -> Plan:
        wants = requested_wants(text)
        repeats = []
        settled = []
        for want in wants[:4]:
            repeat = None
            if not self._spare(want):
                repeat = yield from self._repeat(want, at)
            settled.append(repeat is not None)
            if repeat is not None:
                repeats.append(repeat)
        if not all(settled):
            repeats = []  # the question asks for something new, and only mentions the old
        if repeats and self._done is not None:
            first = repeats[0].earlier
            if first is None or first < self._done:
                repeats.append(Repeat("restarted", at, self._done, "finished", repeats[0].score))
        self._spared = max(0, self._spared - 1)
        self._open = [Asked(at, want, frozenset(split_words(want.text))) for want in wants]
        self._asked.extend(self._open)
        if not wants and COMPLETED.search(text):
            self._done = at
        return repeats

    def _spare(self, want: Want) -> bool:
        """Return whether the user wants to change this value, so that the agent must ask again."""
        if not self._spared:
            return False
        if self._reopened is None:
            return True
        return any(
            changed.words & want.words or changed.kinds & (want.kinds - {"kind"})
            for changed in self._reopened
        )

    def _repeat(self, want: Want, at: int) -> Generator[Request, Any, Repeat | None]:
        repeat = self._by_words(want, at)
        if repeat is None and self._embeds and not want.closed:
            repeat = yield from self._by_vectors(want, at)
        if self._judges:
            repeat = yield from self._by_judge(want, at, repeat)
        return repeat

    def _by_words(self, want: Want, at: int) -> Repeat | None:
        held = answers(want, Facts(self._known_facts(at)))
        if held is not None:
            return Repeat("already_given", at, None, held[1].name, held[0])
        if self._narrows(want):
            return None
        for question in self._answered():
            score = resembles(want, question.want)
            if score > 0:
                return Repeat("asked_again", at, question.at, question.want.text, score)
        return self._by_earlier_words(want, at)

    def _known_facts(self, at: int) -> list[Fact]:
        return [fact for fact in self._state if fact.since < at]

    def _by_earlier_words(self, want: Want, at: int) -> Repeat | None:
        if want.closed:
            return None
        facts = [
            one
            for one in self._told
            if one.who == self._who
            and (want.role or not one.about or not want.words or one.about & want.words)
        ]
        answer = answers(want, Facts(one.fact for one in facts))
        if answer is None:
            return None
        score, fact = answer
        origin = next(one for one in facts if one.fact is fact)
        return Repeat("already_given", at, origin.at, fact.name, round(score * 0.8, 3))

    def _answered(self) -> Iterator[Asked]:
        """Return the questions that the user answered, the latest first."""
        return (q for q in reversed(self._asked) if q.settled and q.who == self._who)

    def _narrows(self, want: Want) -> bool:
        """Return whether a follow-up repeats the user's words, which shows that they are known."""
        if want.closed:
            return False
        own = set(split_words(want.text)) - self._stock()
        last = self._words[-1] if self._words else frozenset()
        if own & (last - COMMON):
            return True
        named = {name.lower() for name in NAMED.findall(want.text)}
        return any(named & words for words in self._words)

    def _stock(self) -> set[str]:
        """Return the words of earlier questions, which are no evidence when used again."""
        return set().union(*(question.words for question in self._asked))

    def _by_vectors(self, want: Want, at: int) -> Generator[Request, Any, Repeat | None]:
        moments = [one for one in self._moments(want, at) if _subject(one[0])]
        if not moments or not _subject(want.text):
            return None
        vectors = yield Embed([_subject(want.text), *(_subject(label) for label, _ in moments)])
        best = max(
            ((cosine(vectors[0], vector), at_) for at_, vector in enumerate(vectors[1:])),
            default=(0.0, 0),
        )
        if best[0] < self._like:
            return None
        repeat = moments[best[1]][1]
        score = round(0.5 + 0.5 * (best[0] - self._like) / max(1e-9, 1 - self._like), 3)
        return Repeat(repeat.kind, at, repeat.earlier, repeat.evidence, score)

    def _by_judge(
        self, want: Want, at: int, candidate: Repeat | None
    ) -> Generator[Request, Any, Repeat | None]:
        """Let the judge confirm a candidate, or look for a repeat in all moments."""
        wide = [] if candidate else [repeat for _, repeat in self._moments(want, at, wide=True)]
        candidates = [candidate] if candidate else wide
        for repeat in candidates[:JUDGED]:
            score = yield Judge(want.text, self._settled(repeat))
            if score >= 0.5:
                return Repeat(
                    repeat.kind, at, repeat.earlier, repeat.evidence, min(1.0, float(score))
                )
        return None

    def _settled(self, repeat: Repeat) -> str:
        """Return the earlier moment for a judge: question and reply, or slot and value."""
        for question in self._asked:
            if question.at == repeat.earlier and question.want.text == repeat.evidence:
                return f"{question.want.text} {question.reply}"[:SHOWN]
        for one in self._told:
            if one.at == repeat.earlier:
                return one.text[:SHOWN]
        values = {fact.name: fact.value for fact in self._state}
        return f"{repeat.evidence}: {values.get(repeat.evidence, '')}"[:SHOWN]

    def _moments(self, want: Want, at: int, *, wide: bool = False) -> list[tuple[str, Repeat]]:
        """Return the moments to compare a question with: answered questions, then filled slots."""
        moments = [
            (q.want.text, Repeat("asked_again", 0, q.at, q.want.text, 0.0))
            for q in self._answered()
            if _comparable(want, q.want, wide=wide)
        ]
        for fact in self._known_facts(at):
            if _comparable(want, fact.want, wide=wide) and want.closed == fact.yes_no:
                label = " ".join(name_words(fact.name.rsplit(".", 1)[-1]))
                moments.append((label, Repeat("already_given", 0, None, fact.name, 0.0)))
        return moments[:64]


def _comparable(want: Want, other: Want, *, wide: bool) -> bool:
    """Return whether two wants may be compared by vectors: not if their sorts differ.

    A judge understands more than a vector does: `wide` admits wants of one sort.
    """
    if wide and want.kinds & other.kinds:
        return True
    if other.text and (want.closed, "kind" in want.kinds) != (other.closed, "kind" in other.kinds):
        return False
    return not (want.kinds | other.kinds) - {"kind", "way"}


def _subject(text: str) -> str:
    """Return the subject of a question or slot, without the words that any two of them share."""
    words = [word for word in split_words(text) if word not in PLAIN and stem(word) not in PLAIN]
    return " ".join(words)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    size = sum(a * a for a in one) ** 0.5 * sum(b * b for b in other) ** 0.5
    return float(product / size) if size else 0.0
