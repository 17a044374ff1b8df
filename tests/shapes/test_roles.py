"""Nobody's words are given to another speaker: what is not recognised is named, never guessed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapes.read_back import SHAPES, Message
from stateward.cli.message_view import view
from stateward.context.tool_pairs import is_known
from stateward.shapes import shape_of, translate

SPEAKERS = {"human": "user", "ai": "assistant", "model": "assistant", "agent": "assistant"}
SPEAKERS |= {"chatbot": "assistant", "function": "tool", "developer": "system"}
SPEAKERS |= {word: word for word in ("system", "user", "assistant", "tool")}
LANGCHAIN = {kind: SPEAKERS[kind] for kind in ("human", "ai", "system", "tool", "function")}
WORDS = (*SPEAKERS, "data", "User", "ROLE_USER", "moderator", "")
TYPES = (*SPEAKERS, "message", "text", "output_text", "reasoning", "chat", "constructor", "x")
STATES = ("input-available", "output-available", "output-error", "output-denied", None)


@st.composite
def parts(draw: st.DrawFn, words: str) -> Message:
    """A part that holds the words, in the form of one of many."""
    typed = draw(st.sampled_from(["text", "input_text", "output_text", "reasoning", "thinking"]))
    state = draw(st.sampled_from(STATES))
    call: Message = {"id": "c", "name": "f", "args": {"x": words}}
    forms: list[Message] = [
        {"text": words},
        {"text": words, "thought": True},
        {"type": typed, "text": words},
        {"kind": "text", "text": words},
        {"block_type": "text", "text": words},
        {"part_kind": draw(st.sampled_from(["text", "user-prompt", "x"])), "content": words},
        {"type": "tool-f", "toolCallId": "c", "state": state, "input": {}, "output": words},
        {"type": "refusal", "refusal": words},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"x": words}},
        {"functionCall": call},
        {"functionResponse": {"id": "c", "name": "f", "response": {"result": words}}},
        {"toolResult": {"toolUseId": "c", "content": [{"text": words}]}},
        {"type": "function_result", "call_id": "c", "result": words},
        {"x": words},
    ]
    return draw(st.sampled_from(forms))


@st.composite
def messages(draw: st.DrawFn, words: str) -> Message:
    """A message that holds the words; who speaks may stand in several places, or in none."""
    held = draw(st.lists(parts(words), max_size=3))
    form: Message = {draw(st.sampled_from(["parts", "content", "contents", "blocks"])): held}
    if draw(st.booleans()):
        form["content"] = words
    for name, values in (("role", WORDS), ("type", TYPES), ("kind", ("request", "response"))):
        if draw(st.booleans()):
            form[name] = draw(st.sampled_from(values))
    if draw(st.booleans()):
        form |= draw(st.sampled_from([{"id": "m1"}, {"uuid": "u"}, {"stop_reason": "x"}]))
    wrapped = draw(st.sampled_from(["", "", "data", "message", "event", "text"]))
    if wrapped == "event":
        author = draw(st.sampled_from(["user", "waiter"]))
        return {"author": author, "invocation_id": "i", "content": form}
    if wrapped == "text":
        return {"type": draw(st.sampled_from(TYPES)), "text": words}
    if wrapped:
        return {"type": draw(st.sampled_from(TYPES)), "uuid": "u", wrapped: form}
    return form


def claims(message: Message) -> set[str]:
    """Return all speakers that a message names, and "?" for an unknown role."""
    kind, role = message.get("type"), message.get("role")
    if "author" in message:
        role = message["content"].get("role")
        author = "user" if message["author"] == "user" else "assistant"
        return {author if role in (None, "", "user") else SPEAKERS.get(role, "?")}
    if "data" in message:
        return {LANGCHAIN.get(kind, "?")}
    if "message" in message:
        return {SPEAKERS.get(each, "?") for each in (kind, message["message"].get("role"))}
    named = set() if not role else {SPEAKERS.get(role, "?")}
    if kind == "reasoning" and role is None:
        return {"assistant"}
    return named | ({LANGCHAIN[kind]} if kind in LANGCHAIN else set())


def speakers(translated: list[Message], shape: str, words: str) -> set[str]:
    """Return who says the words, by the target's own marks."""
    found = set()
    for message in translated:
        for part in message["parts"] if shape == "pydantic-ai" else [message]:
            if words not in json.dumps(part):
                continue
            if shape == "pydantic-ai":
                kinds = {"user-prompt": "user", "system-prompt": "system", "tool-return": "tool"}
                found.add(kinds.get(part.get("part_kind"), "assistant"))
            elif shape == "langchain":
                found.add(SPEAKERS[message["type"]])
            else:
                found.add(SPEAKERS[message.get("role", "assistant")])
    return found


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_role_changes_whatever_the_input(shape: str, data: st.DataObject) -> None:
    message = data.draw(messages("the words"))
    claimed = claims(message)
    read = translate([message, {"type": "human", "data": {"content": "x"}}], shape)
    said = speakers([each for each in read.messages if each != message], shape, "the words")
    if read.system and "the words" in read.system:
        said.add("system")
    if shape_of(message) == "pydantic-ai":
        return  # each of its parts has a speaker of its own
    assert "?" not in claimed or not said, (message, read)
    assert said <= claimed | {"tool"} or (said == {"user"} and not claimed), (message, read)
    assert len(claimed) <= 1 or not said, (message, read)
    if not said and shape_of(message) is None:
        assert read.lost[0].number == 1


UI: list[Message] = [
    {"id": "a", "role": "user", "parts": [{"type": "text", "text": "Weather?"}]},
    {
        "id": "b",
        "role": "assistant",
        "metadata": {"model": "m"},
        "parts": [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Look.", "providerMetadata": {"anthropic": {"x": 1}}},
            {
                "type": "tool-weather",
                "toolCallId": "c1",
                "state": "output-available",
                "input": {"city": "Lyon"},
                "output": {"sky": "clear"},
            },
            {
                "type": "dynamic-tool",
                "toolName": "wind",
                "toolCallId": "c2",
                "state": "output-error",
                "input": {},
                "errorText": "no reply",
            },
            {"type": "step-start"},
            {"type": "text", "text": "It is sunny.", "state": "done"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
            {"type": "data-chart", "data": 1},
        ],
    },
]


def test_an_answer_of_the_ai_sdk_is_taken_apart_into_its_steps() -> None:
    read = translate(UI, "anthropic")
    assert [message["role"] for message in read.messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    _, called, answered, ended = (message["content"] for message in read.messages)
    assert [block["type"] for block in called] == ["tool_use", "tool_use"]
    assert answered[0]["content"] == '{"sky": "clear"}'
    assert answered[1] | {"content": "no reply", "is_error": True} == answered[1]
    assert ended[0] == {"type": "text", "text": "It is sunny."}
    assert [(each.part, each.what) for each in read.lost] == [(1, "thinking"), (8, "data-chart")]


def test_a_message_of_version_4_is_read_too() -> None:
    called = {"toolCallId": "c", "toolName": "f", "args": {"n": 1}, "state": "result", "result": 2}
    parts = [
        {"type": "tool-invocation", "toolInvocation": called},
        {"type": "text", "text": "Two."},
    ]
    message = {"id": "m", "role": "assistant", "content": "Two.", "parts": parts}
    read = translate([message], "openai").messages
    assert read[0]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"n": 1}'}
    assert [each.get("content") for each in read[1:]] == ["2"]


def test_messages_that_say_the_same_get_ids_of_their_own() -> None:
    turn = [{"role": "user", "content": "0"}, {"role": "assistant", "content": "1"}]
    once = translate(turn, "ai-sdk").messages
    twice = translate([*once, *turn, *turn], "ai-sdk").messages
    assert twice[:2] == once
    assert len({message["id"] for message in twice}) == 6


def test_windows_and_people_read_an_answer_of_the_ai_sdk() -> None:
    assert all(map(is_known, UI))  # a call cannot be parted from a result that is within it
    seen = view(UI[1])
    assert seen.role == "assistant"
    assert "It is sunny." in seen.text
    assert [(call.name, call.id) for call in seen.calls] == [("weather", "c1"), ("wind", "c2")]
    assert [(result.id, result.failed) for result in seen.results] == [("c1", False), ("c2", True)]
