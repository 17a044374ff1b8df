"""No window is invalid for its provider, and none exceeds what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from context.conversations import Maker
from context.providers import VALIDATORS
from stateward.context.tokens import estimate
from stateward.context.tool_pairs import NO_TIES, Shape, are_plain, shape_of, ties
from stateward.context.window import Bounds, Conversation, Picked, system_messages, untied_window
from stateward.errors import WindowTooSmall

SHAPES = sorted(VALIDATORS)
Messages = list[dict[str, Any]]
EACH = 2500  # conversations of each of the four shapes: 10,000


def windowed(
    messages: Messages, bounds: Bounds, page: int, *, beheaded: bool = False
) -> tuple[Messages, Picked]:
    """As a thread is read: pages backwards, until the window can be told."""
    pinned = system_messages(messages)
    rest = messages[len(pinned) :]
    conversation = Conversation(bounds, beheaded=beheaded)
    left = len(rest)
    while True:
        start = max(0, left - page)
        conversation.add_older(rest[start:left])
        left = start
        picked = conversation.pick(pinned, 0, complete=left == 0)
        if picked is not None:
            return pinned, picked
        assert left, "all was read, and still no window"


def some_bounds(random: Random) -> Bounds:
    kind = random.choice(("last", "turns", "max_tokens", "both"))
    last, turns = random.choice((1, 2, 3, 5, 8, 20, 60)), random.choice((1, 2, 3, 20))
    tokens = random.choice((30, 100, 250, 600, 2000, 50_000))
    if kind == "last":
        return Bounds(last=last)
    if kind == "turns":
        return Bounds(turns=turns)
    if kind == "max_tokens":
        return Bounds(max_tokens=tokens, oversized=random.choice(("raise", "shorten")))
    return Bounds(max_tokens=tokens, **random.choice(({"last": last}, {"turns": turns})))


def whole(seed: int, shape: str) -> Messages:
    """Every turn is finished."""
    return Maker(seed, shape).conversation()


def crashed(seed: int, shape: str) -> Messages:
    """Some turns broke off in the middle of a tool call; the newest is finished."""
    return [
        *Maker(seed, shape).conversation(crashes=0.3),
        *Maker(-1 - seed, shape).turn(crashed=False),
    ]


def trimmed(seed: int, shape: str) -> Messages:
    """The beginning was removed from the store, wherever that cut."""
    messages = Maker(seed, shape).conversation()
    return messages[Random(seed).randrange(len(messages)) :]


def pending(seed: int, shape: str) -> Messages:
    """The newest turn waits for the results of its calls, or for some of them."""
    return [
        *Maker(seed, shape).conversation(crashes=0.1),
        *Maker(-1 - seed, shape).turn(crashed=True),
    ]


@pytest.mark.parametrize("history", [whole, crashed, trimmed, pending])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_window_is_invalid_for_its_provider_or_over_its_budget(
    shape: str, history: Callable[[int, str], Messages]
) -> None:
    given = refused = waiting = 0
    for seed in range(EACH // 4):
        random = Random(seed)
        messages = history(seed, shape)
        bounds = some_bounds(random)
        try:
            page = random.choice((1, 3, 7, 200))
            pinned, picked = windowed(messages, bounds, page, beheaded=history is trimmed)
        except WindowTooSmall:
            refused += 1
            assert is_too_small(messages, bounds), (seed, bounds)
            continue
        given += 1
        waiting += bool(picked.pending)
        window = picked.messages
        VALIDATORS[shape](window + answers(shape, picked.pending, window))
        assert window[: len(pinned)] == pinned
        check_bounds(window, pinned, picked, bounds)
        if not picked.shortened:
            in_order = iter(messages)
            assert all(message in in_order for message in window)
    assert given > EACH // 8
    assert refused
    assert bool(waiting) == (history is pending)


def check_bounds(window: Messages, pinned: Messages, picked: Picked, bounds: Bounds) -> None:
    if bounds.last is not None:
        assert len(window) - len(pinned) <= bounds.last
    if bounds.turns is not None:
        starts = [m for m in window if m.get("role") == "user" and is_spoken(m)]
        assert len(starts) <= bounds.turns
    if bounds.max_tokens is not None:
        assert sum(estimate(message) for message in window) == picked.tokens
        assert picked.tokens <= bounds.max_tokens


def answers(shape: str, ids: Sequence[str], window: Messages) -> Messages:
    """What the caller adds for calls that are pending."""
    if not ids:
        return []
    if shape == "openai_chat":
        return [{"role": "tool", "tool_call_id": id, "content": "x"} for id in ids]
    if shape == "openai_responses":
        kinds = {item["call_id"]: item["type"] for item in window if "call_id" in item}
        return [{"type": f"{kinds[id]}_output", "call_id": id, "output": "x"} for id in ids]
    if shape == "anthropic":
        results = [{"type": "tool_result", "tool_use_id": id} for id in ids]
        return [{"role": "user", "content": results}]
    return [{"role": "user", "content": [{"toolResult": {"toolUseId": id}} for id in ids]}]


def is_spoken(message: dict[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, str) or not any(
        block.get("type") == "tool_result" or "toolResult" in block for block in content
    )


def is_too_small(messages: Messages, bounds: Bounds) -> bool:
    """Whether no honest window could have been given: told without the code under test."""
    size = len(messages)
    newest = max(
        at for at in range(size) if messages[at].get("role") == "user" and is_spoken(messages[at])
    )
    turn = messages[newest:]
    if bounds.last is not None and len(turn) > bounds.last:
        return True
    system = [m for m in messages if m.get("role") in ("system", "developer")]
    return bounds.max_tokens is not None and bounds.max_tokens < sum(
        map(estimate, [*system, *turn])
    )


def test_untied_messages_take_a_shorter_way_to_the_same_window() -> None:
    taken = 0
    for seed in range(3000):
        random = Random(seed)
        kinds = random.choice((("user", "assistant"), ("user", "assistant", "system"), ()))
        messages = [
            {"role": random.choice(kinds), "content": f"{n}"} if kinds else {"n": n}
            for n in range(random.randint(1, 30))
        ]
        messages = messages[len(system_messages(messages)) :]
        bounds = Bounds(last=random.choice((1, 2, 3, 5, 8, 20)))
        page = random.choice((1, 5, 20))
        shown = untied_window(messages[-page:], bounds, complete=page >= len(messages))
        if shown is not None:
            taken += 1
            assert shown == windowed(messages, bounds, page)[1]
    assert taken > 1000


@pytest.mark.parametrize("role", [["user"], {"name": "user"}, None, 7, True])
def test_a_role_may_be_any_json(role: object) -> None:
    said = {"role": role, "content": "hello"}
    shown = untied_window([said], Bounds(last=5), complete=True)
    assert shown is not None
    assert shown.messages == [said]


@pytest.mark.parametrize("shape", SHAPES)
def test_messages_that_are_tied_are_not_plain(shape: str) -> None:
    for seed in range(200):
        for message in Maker(seed, shape).conversation():
            if ties(message) != NO_TIES or shape_of([message]) != Shape():
                assert not are_plain([message])
