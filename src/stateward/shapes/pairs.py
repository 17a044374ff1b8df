"""Calls of tools with their results behind them, each with an id: what every provider demands."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Sequence
from hashlib import blake2b
from re import Pattern

from msgspec.structs import replace

from stateward.shapes.parts import CallPart, Part, ResultPart, Speech, TextPart, ThinkingPart
from stateward.shapes.sources import Sources, what

ITEMS = "openai-responses"  # one answer of the model is several items


def paired(speeches: Sequence[Speech], sources: Sources, ids: Pattern[str]) -> list[Speech]:
    """Messages in which the results of a call follow it, and nothing is unpaired.

    Calls at the very end whose results are still to come stay. `ids` is what the target takes for
    an id; another id becomes its digest.
    """
    turns = _merged([speech for speech in speeches if speech.parts])
    open_calls: dict[str, tuple[int, int]] = {}  # turn and place, by id
    ids_by_digest: dict[str, str] = {}  # of calls: another target may have used the digest
    made_ids = MadeIds()
    unnamed: dict[str, deque[str]] = {}  # ids that were made, by the tool's name
    answers: dict[int, list[Part]] = {}  # by the turn that calls, in the order they came
    answered: set[tuple[int, int]] = set()
    for at, turn in enumerate(turns):
        for place, part in enumerate(turn.parts):
            if isinstance(part, CallPart) and turn.role == "assistant":
                id = part.id
                if not id:
                    id = made_ids.make(part, place)
                    unnamed.setdefault(part.name, deque()).append(id)
                made_ids.taken.add(id)
                open_calls[id] = (at, place)
                ids_by_digest[digest(id)] = id
                turn.parts[place] = sources.exchange(part, replace(part, id=id))
            elif isinstance(part, ResultPart):
                made = unnamed.get(part.name)
                id = part.id or (made.popleft() if made else "")
                id = id if id in open_calls else ids_by_digest.get(id, id)
                where = open_calls.pop(id, None)
                if where is None:
                    why = "its call is not in the conversation, or was answered before"
                    sources.lose(part, "result", why)
                    continue
                call = turns[where[0]].parts[where[1]]
                assert isinstance(call, CallPart)
                answer = replace(part, id=id, name=part.name or call.name)
                answers.setdefault(where[0], []).append(sources.exchange(part, answer))
                answered.add(where)
    ended = _end(turns)
    messages: list[Speech] = []
    for at, turn in enumerate(turns):
        parts: list[Part] = []
        for place, part in enumerate(turn.parts):
            if isinstance(part, ResultPart):
                continue  # it stands behind its call
            if isinstance(part, CallPart | ThinkingPart) and turn.role != "assistant":
                sources.lose(part, what(part), "only the model calls and thinks")
                continue
            if turn.role == "tool":
                sources.lose(part, what(part), "a tool only answers calls")
                continue
            if isinstance(part, CallPart) and at < ended and (at, place) not in answered:
                why = "it has no result, and no provider takes a call without one"
                sources.lose(part, "call", why)
                continue
            parts.append(_fitted(part, sources, ids))
        if parts:
            messages.append(replace(turn, parts=parts))
        if at in answers:
            messages.append(Speech("tool", [_fitted(part, sources, ids) for part in answers[at]]))
    return messages


def _merged(speeches: Sequence[Speech]) -> list[Speech]:
    """One message for each answer of the model, also where its shape cuts answers into pieces."""
    answers: list[Speech] = []
    only_words = False  # in the last one found
    for message in speeches:
        words = all(isinstance(part, TextPart) for part in message.parts)
        if answers and _belong(answers[-1], message, only_words and words):
            answers[-1].parts.extend(message.parts)
            only_words = only_words and words
        else:
            answers.append(replace(message, parts=list(message.parts)))
            only_words = words
    return answers


def _belong(one: Speech, other: Speech, only_words: bool) -> bool:
    if not one.role == other.role == "assistant":
        return False
    if one.turn and one.turn == other.turn:
        return True
    return one.shape == other.shape == ITEMS and not only_words


class MadeIds:
    """Ids of calls that have none."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._equal: Counter[str] = Counter()

    def make(self, part: CallPart, place: int) -> str:
        """Return an id made of the call and its place, so that it is equal in every window."""
        called = json.dumps([place, part.name, part.arguments], sort_keys=True, default=str)
        while True:
            self._equal[called] += 1
            number = self._equal[called]
            id = digest(called if number == 1 else f"{called} {number}")
            if id not in self.taken:
                return id


def digest(id: str) -> str:
    """An id that every provider takes."""
    return "call_" + blake2b(id.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _fitted(part: Part, sources: Sources, ids: Pattern[str]) -> Part:
    if not isinstance(part, CallPart | ResultPart) or ids.fullmatch(part.id):
        return part
    if isinstance(part, CallPart):
        sources.lose(part, "id", f"the target does not take {part.id!r}: {digest(part.id)}")
    return sources.exchange(part, replace(part, id=digest(part.id)), altered=True)


def _end(turns: Sequence[Speech]) -> int:
    """The first turn after which nothing came but results: its calls may still be answered."""
    at = len(turns)
    while at and all(isinstance(part, ResultPart) for part in turns[at - 1].parts):
        at -= 1
    return max(0, at - 1)
