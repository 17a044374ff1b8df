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
from stateward.errors import InvalidInput, WindowTooSmall

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


# --- the same conversations as others write them down -----------------------------------

LANGCHAIN = {"user": "human", "assistant": "ai", "developer": "system"}


def langchain(message: dict[str, Any], number: int) -> dict[str, Any]:
    """As `model_dump` of LangChain's messages writes it."""
    calls = [{"name": "f", "args": {}, "id": call["id"]} for call in message.get("tool_calls", ())]
    kind = LANGCHAIN.get(message["role"], message["role"])
    dumped = {"type": kind, "content": message.get("content"), "number": number}
    if kind == "ai":
        dumped["tool_calls"] = calls
    if kind == "tool":
        dumped["tool_call_id"] = message["tool_call_id"]
    return dumped


def langchain_dict(message: dict[str, Any], number: int) -> dict[str, Any]:
    """As `messages_to_dict` writes it."""
    data = langchain(message, number)
    return {"type": data["type"], "data": data, "number": number}


def langchain_constructor(message: dict[str, Any], number: int) -> dict[str, Any]:
    """As `dumpd` writes it."""
    kwargs = langchain(message, number)
    return {"lc": 1, "type": "constructor", "id": ["m"], "kwargs": kwargs, "number": number}


def gemini(message: dict[str, Any], number: int) -> dict[str, Any]:
    role = message["role"]
    parts: Messages = [{"text": str(message.get("content"))}]
    if role == "tool":
        parts = [{"functionResponse": {"id": message["tool_call_id"], "name": "f"}}]
    for call in message.get("tool_calls", ()):
        parts.append({"functionCall": {"id": call["id"], "name": "f", "args": {}}})
    spoken_by = {"assistant": "model", "tool": "user"}.get(role, role)
    return {"role": spoken_by, "parts": parts, "number": number}


def agent_framework(message: dict[str, Any], number: int) -> dict[str, Any]:
    """As `Message.to_dict` of Microsoft's Agent Framework writes it."""
    contents: Messages = [{"type": "text", "text": str(message.get("content"))}]
    if message["role"] == "tool":
        contents = [{"type": "function_result", "call_id": message["tool_call_id"]}]
    for call in message.get("tool_calls", ()):
        contents.append({"type": "function_call", "call_id": call["id"], "name": "f"})
    return {"type": "message", "role": message["role"], "contents": contents, "number": number}


def claude(message: dict[str, Any], number: int) -> dict[str, Any]:
    """As Claude Code writes a line of its transcripts."""
    role = message["role"]
    if role in ("system", "developer"):
        return {"type": "system", "content": message["content"], "number": number}
    content: Messages = [{"type": "text", "text": str(message.get("content"))}]
    if role == "tool":
        content = [{"type": "tool_result", "tool_use_id": message["tool_call_id"]}]
    for call in message.get("tool_calls", ()):
        content.append({"type": "tool_use", "id": call["id"], "name": "f", "input": {}})
    speaker = "user" if role == "tool" else role
    inner = {"role": speaker, "content": content}
    return {"type": speaker, "uuid": str(number), "message": inner, "number": number}


def adk(message: dict[str, Any], number: int) -> dict[str, Any]:
    """As Google's ADK keeps events."""
    content = gemini(message, number)
    author = "user" if message["role"] == "user" else "waiter"
    return {"author": author, "invocation_id": "i", "content": content, "number": number}


FORMS = [langchain, langchain_dict, langchain_constructor, gemini, agent_framework, claude, adk]


@pytest.mark.parametrize("history", [whole, crashed, pending])
@pytest.mark.parametrize("form", FORMS)
def test_a_window_is_as_good_in_the_forms_of_others(
    form: Callable[[dict[str, Any], int], dict[str, Any]], history: Callable[[int, str], Messages]
) -> None:
    given = 0
    for seed in range(EACH // 8):
        random = Random(seed)
        messages = history(seed, "openai_chat")
        bounds = random.choice((Bounds(last=random.choice((3, 8, 20))), Bounds(turns=2)))
        written = [form(message, number) for number, message in enumerate(messages)]
        try:
            pinned, picked = windowed(written, bounds, random.choice((1, 7, 200)))
        except WindowTooSmall:
            assert is_too_small(messages, bounds), (seed, bounds)
            continue
        given += 1
        window = [messages[message["number"]] for message in picked.messages]
        VALIDATORS["openai_chat"](window + answers("openai_chat", picked.pending, window))
        check_bounds(window, window[: len(pinned)], picked, bounds)
    assert given > EACH // 16


def test_calls_of_gemini_without_ids_are_tied_by_their_names() -> None:
    messages = [
        {"role": "user", "parts": [{"text": "how warm is it?"}]},
        {"role": "model", "parts": [{"function_call": {"name": "weather", "args": {}}}]},
        {"role": "user", "parts": [{"function_response": {"name": "weather"}}]},
        {"role": "model", "parts": [{"text": "warm"}]},
    ]
    assert windowed(messages * 3, Bounds(turns=1), 2)[1].messages == messages
    assert windowed(messages * 3, Bounds(last=2), 2)[1].messages == [messages[0], messages[3]]


def test_the_output_of_a_local_shell_names_its_call_by_its_id() -> None:
    items = [
        {"role": "user", "content": "list files"},
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_1", "action": {}},
        {"type": "local_shell_call_output", "id": "call_1", "output": "a.txt"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]},
        {"role": "user", "content": "thanks"},
    ]
    for bounds in (Bounds(last=10), Bounds(turns=5), Bounds(max_tokens=100_000)):
        assert windowed(items, bounds, 200)[1].messages == items


def test_turns_are_a_bound_also_for_what_no_provider_knows() -> None:
    assert len(windowed([{"n": n} for n in range(40)], Bounds(turns=2), 7)[1].messages) == 2
    strange = [{"role": role, "text": "?"} for role in ("visitor", "bot")] * 20
    with pytest.raises(InvalidInput, match="turns= counts where the user speaks"):
        windowed(strange, Bounds(turns=2), 200)
    assert len(windowed(strange, Bounds(last=3), 200)[1].messages) <= 3
