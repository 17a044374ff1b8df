"""The smallest parts of a conversation that may stand alone: a tool call with all its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stateward.context.tool_pairs import Message, Ties, by_model, is_item, ties


class Unit(NamedTuple):
    """Messages that only make sense together: `messages[start:end]`."""

    start: int
    end: int
    broken: bool = False  # a call never answered, or an answer to no call: no provider takes it


class Layout(NamedTuple):
    """A conversation cut into units.

    `whole_from` is where the first unit begins whose messages were all read; `pending` are calls at
    the very end whose results are still to come.
    """

    units: list[Unit]
    whole_from: int
    pending: tuple[str, ...]


def lay_out(messages: Sequence[Message], *, complete: bool, continued: bool = False) -> Layout:
    """Cut a conversation into the smallest parts that may stand alone.

    `complete`: nothing older exists. `continued`: the caller has what came before, so an answer to
    a call that is not here is as it should be.
    """
    size = len(messages)
    joined = [False] * (size + 1)  # no cut before this message
    broken: set[int] = set()
    tied = [ties(message) for message in messages]
    open_calls: dict[str, int] = {}
    answered: set[tuple[str, int]] = set()
    whole_from = 0
    for at, (calls, results) in enumerate(tied):
        for id in results:
            made = open_calls.get(id)
            if made is not None:
                answered.add((id, made))
                joined[made + 1 : at + 1] = [True] * (at - made)
            elif not complete:
                whole_from = at + 1  # its call is further back than was read
            elif not continued:
                broken.add(at)
        for id in calls:
            open_calls[id] = at
    last = _last_step(messages, tied)
    pending: list[str] = []
    for at, (calls, _) in enumerate(tied):
        for id in calls:
            if (id, at) not in answered:
                if at >= last:
                    pending.append(id)
                else:
                    broken.add(at)
    if pending:  # what was called side by side stays side by side
        joined[last + 1 : size] = [True] * (size - last - 1)
    _glue_reasoning(messages, joined, broken)
    return Layout(_units(joined, broken, size), whole_from, tuple(pending))


def _last_step(messages: Sequence[Message], tied: Sequence[Ties]) -> int:
    """Return where the calls begin after which nothing came but answers to them."""
    at = len(messages)
    while at and tied[at - 1].results and not by_model(messages[at - 1]):
        at -= 1
    while at and tied[at - 1].calls and is_item(messages[at - 1]):
        at -= 1  # Responses: parallel calls are items side by side
        while at and tied[at - 1].results and is_item(messages[at - 1]):
            at -= 1
    if at and tied[at - 1].calls and not is_item(messages[at - 1]):
        at -= 1
    return at


def _glue_reasoning(messages: Sequence[Message], joined: list[bool], broken: set[int]) -> None:
    """Join a reasoning item with what followed it: providers refuse either without the other."""
    reasoned = False
    for at, message in enumerate(messages):
        reasons = message.get("type") == "reasoning"
        if reasoned and by_model(message):
            joined[at] = True
        elif at and messages[at - 1].get("type") == "reasoning":
            broken.add(at - 1)
        reasoned = reasons or (reasoned and by_model(message))
    if messages and messages[-1].get("type") == "reasoning":
        broken.add(len(messages) - 1)


def _units(joined: Sequence[bool], broken: set[int], size: int) -> list[Unit]:
    units = []
    start = 0
    for end in range(1, size + 1):
        if end == size or not joined[end]:
            bad = any(at in broken for at in range(start, end)) if broken else False
            units.append(Unit(start, end, bad))
            start = end
    return units
