"""A conversation keeps what it says in every shape, alone and mixed, there and back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapes.read_back import SHAPES, Message, calls_last, read
from stateward.errors import InvalidInput
from stateward.shapes import shape_of, translate
from stateward.shapes.pairs import digest

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1).filter(
    lambda text: text.strip()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["city", "n", "when"]), VALUES, max_size=3)
NAMES = st.sampled_from(["search", "charge", "read_file"])
IDS = st.sampled_from(["call_1", "toolu_2", "functions.search:0", "x" * 61, "id with blanks"])


@st.composite
def turns(draw: st.DrawFn) -> list[list[Message]]:
    """Turns of a conversation as OpenAI chat has them: question, steps with calls, answer."""
    found: list[list[Message]] = []
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        turn: list[Message] = [{"role": "user", "content": draw(TEXTS)}]
        for _ in range(draw(st.integers(0, 2))):
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                function = {"name": draw(NAMES), "arguments": json.dumps(draw(ARGUMENTS))}
                id = f"{draw(IDS)}{number}"
                calls.append({"id": id, "type": "function", "function": function})
            said = draw(st.none() | TEXTS)
            turn.append({"role": "assistant", "content": said, "tool_calls": calls})
            for call in draw(st.permutations(calls)):
                told = {"role": "tool", "tool_call_id": call["id"], "content": draw(TEXTS)}
                turn.append(told)
        turn.append({"role": "assistant", "content": draw(TEXTS)})
        found.append(turn)
    if draw(st.booleans()):
        found[0].insert(0, {"role": "system", "content": draw(TEXTS)})
    return found


def said_by(chat: list[Message]) -> list[tuple[Any, ...]]:
    """What a conversation in OpenAI chat says."""
    said: list[tuple[Any, ...]] = []
    for message in chat:
        if message["role"] == "tool":
            said.append(("result", message["tool_call_id"], message["content"]))
            continue
        if message["content"] is not None:
            said.append((message["role"], message["content"]))
        for call in message.get("tool_calls", ()):
            arguments = json.loads(call["function"]["arguments"])
            said.append(("call", call["id"], call["function"]["name"], arguments))
    return calls_last(said)


def with_ids(said: list[tuple[Any, ...]], lost: list[str]) -> list[tuple[Any, ...]]:
    """With what stands for the ids that the target does not take."""
    renamed = {id: digest(id) for id in lost}
    return [
        (told[0], renamed.get(told[1], told[1]), *told[2:])
        if told[0] in ("call", "result")
        else told
        for told in said
    ]


def ids_lost(lost: Any) -> list[str]:
    assert {each.what for each in lost} <= {"id"}, [str(each) for each in lost]
    quoted = (re.search(r"take '(.*)': call_", each.why) for each in lost)
    return [match.group(1) for match in quoted if match is not None]


FEW = settings(max_examples=25, deadline=None)


@pytest.mark.parametrize("target", SHAPES)
@FEW
@given(turns(), st.data())
def test_turns_of_many_shapes_are_one_conversation_in_each(
    target: str, conversation: list[list[Message]], data: st.DataObject
) -> None:
    stored: list[Message] = []
    known: dict[str, str] = {}
    for turn in conversation:
        shape = data.draw(st.sampled_from(SHAPES))
        written = translate(turn, shape)
        if written.system is not None:
            stored.append({"role": "system", "content": written.system})
        stored += written.messages
        known |= {id: digest(id) for id in ids_lost(written.lost)}
    said = with_ids(said_by([message for turn in conversation for message in turn]), list(known))
    found = translate(stored, target)
    said = with_ids(said, ids_lost(found.lost))
    assert read(found.messages, target, found.system) == said
    for shape in (target, data.draw(st.sampled_from(SHAPES))):
        again = translate(found.messages, shape)  # and on from there
        expected = with_ids(said, ids_lost(again.lost))
        if found.system is not None or again.system is not None:
            expected = [told for told in expected if told[0] != "system"]
        assert read(again.messages, shape, None) == expected
    assert translate(found.messages, target).messages == found.messages


@pytest.mark.parametrize("shape", SHAPES)
@FEW
@given(turns())
def test_what_has_the_shape_is_given_as_it_was_stored(
    shape: str, conversation: list[list[Message]]
) -> None:
    written = translate([message for turn in conversation for message in turn], shape).messages
    found = translate(written, shape)
    assert found.messages == written
    assert found.lost == ()
    assert found.system is None


@pytest.mark.parametrize("target", SHAPES)
@FEW
@given(turns(), st.data())
def test_an_unpaired_call_or_result_is_named_and_left_out(
    target: str, conversation: list[list[Message]], data: st.DataObject
) -> None:
    chat = [message for turn in conversation for message in turn]
    results = [at for at, message in enumerate(chat) if message["role"] == "tool"]
    gone = data.draw(st.sets(st.sampled_from(results))) if results else set()
    calls = [at for at, message in enumerate(chat) if "tool_calls" in message]
    uncalled = data.draw(st.sets(st.sampled_from(calls))) if calls else set()
    foreign = {"type": "human", "data": {"content": "last", "type": "human"}}
    kept = [m for at, m in enumerate(chat) if at not in gone and at not in uncalled]
    found = translate([*kept, foreign, {"role": "assistant", "parts": []}], target)
    made = {call["id"] for message in kept for call in message.get("tool_calls", ())}
    told = {message["tool_call_id"] for message in kept if message["role"] == "tool"}
    named = [each.what for each in found.lost if each.what in ("call", "result")]
    assert named.count("call") == len(made - told)
    assert named.count("result") == len(told - made)
    said = read(found.messages, target, found.system)
    renamed = [each.why for each in found.lost if each.what == "id"]
    paired = {digest(id) if any(repr(id) in why for why in renamed) else id for id in made & told}
    assert {each[1] for each in said if each[0] == "call"} == paired
    assert {each[1] for each in said if each[0] == "result"} == paired


FIELDS = (
    *("role", "type", "content", "parts", "blocks", "contents", "data", "tool_calls", "kind"),
    *("tool_call_id", "message", "uuid", "call_id", "name", "author", "invocation_id", "strands"),
    *("output", "$message", "kwargs", "id", "summary"),
)
WORDS = ("user", "assistant", "tool", "ai", "request", "function_call", "message", "x", None)
BLOCK = (
    *("type", "text", "toolUse", "toolResult", "functionCall", "function_response", "part_kind"),
    *("source", "id", "content", "block_type", "image", "tool_use_id", "json", "file", "name"),
)
HELD = st.sampled_from(["text", "image", "tool_use", "tool_result", "tool-call", 3, None, [], {}])
BLOCKS = st.lists(st.dictionaries(st.sampled_from(BLOCK), HELD, max_size=3), max_size=2)
ANYTHING = st.dictionaries(
    st.sampled_from(FIELDS),
    st.sampled_from(WORDS) | BLOCKS | st.dictionaries(st.sampled_from(BLOCK), HELD, max_size=3),
    max_size=5,
)


@settings(deadline=None)
@given(st.lists(ANYTHING, max_size=4), st.sampled_from(SHAPES))
def test_anything_at_all_is_translated_or_named(messages: list[Message], shape: str) -> None:
    translate(messages, shape)


def test_an_unknown_shape_says_which_are_known() -> None:
    with pytest.raises(InvalidInput, match=r"no shape 'cohere'; use one of: 'openai', .*'gemini'"):
        translate([], "cohere")
    assert shape_of({"a": 1}) is None
