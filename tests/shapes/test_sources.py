"""Messages as frameworks themselves dump them, and the parts that not every shape can hold."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from agent_framework import Content as FrameworkContent
from agent_framework import Message as FrameworkMessage
from anthropic.types import Message as AnthropicAnswer
from google.adk.events.event import Event
from google.genai import types as genai
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, message_to_dict
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from pydantic_ai import BinaryContent, ImageUrl
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from strands.types.session import SessionMessage

from shapes.read_back import READ, SHAPES, Message, read
from stateward.integrations.strands.messages import as_message
from stateward.shapes import are_foreign, shape_of, translate

SAID = [
    ("user", "A steak, please."),
    ("assistant", "One moment."),
    ("call", "c1", "grill", {"how": "rare"}),
    ("result", "c1", "a steak"),
    ("assistant", "Here it is."),
]
PNG = base64.b64encode(b"\x89PNG\xff\xfe").decode()


def adk() -> list[Message]:
    def event(author: str, role: str, *parts: genai.Part, **more: Any) -> Message:
        content = genai.Content(role=role, parts=list(parts))
        kept = Event(author=author, invocation_id="i-1", content=content, **more)
        told: Message = json.loads(kept.model_dump_json(exclude_none=True))
        return told

    call = genai.FunctionCall(id="c1", name="grill", args={"how": "rare"})
    told = genai.FunctionResponse(id="c1", name="grill", response={"result": "a steak"})
    change = Event(author="waiter", invocation_id="i-1")
    return [
        event("user", "user", genai.Part(text="A steak, please.")),
        event("waiter", "model", genai.Part(text="One moment."), genai.Part(function_call=call)),
        event("waiter", "user", genai.Part(function_response=told)),
        json.loads(change.model_dump_json(exclude_none=True)),  # changes state, and says nothing
        event("waiter", "model", genai.Part(text="Here it is.")),
    ]


BEDROCK: list[Any] = [
    {"role": "user", "content": [{"text": "A steak, please."}]},
    {
        "role": "assistant",
        "content": [
            {"text": "One moment."},
            {"toolUse": {"toolUseId": "c1", "name": "grill", "input": {"how": "rare"}}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "toolResult": {
                    "toolUseId": "c1",
                    "status": "success",
                    "content": [{"text": "a steak"}],
                }
            }
        ],
    },
    {"role": "assistant", "content": [{"text": "Here it is."}]},
]


def strands() -> list[Message]:
    kept = (SessionMessage.from_message(message, n) for n, message in enumerate(BEDROCK))
    return [as_message("default", message) for message in kept]


CHAIN = [
    HumanMessage("A steak, please."),
    AIMessage(
        [
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "c1", "name": "grill"},
        ],
        tool_calls=[{"id": "c1", "name": "grill", "args": {"how": "rare"}}],
    ),
    ToolMessage("a steak", tool_call_id="c1"),
    AIMessage("Here it is."),
]


def claude() -> list[Message]:
    """An answer is cut into lines, one a block, and between them stand lines that say nothing."""

    def line(role: str, content: Any, **more: Any) -> Message:
        message = {"role": role, "content": content, **more}
        return {"type": role, "message": message, "uuid": f"u-{content}", "parentUuid": None}

    answer = {"id": "msg_1", "type": "message", "model": "m", "stop_reason": None}
    use = {"type": "tool_use", "id": "c1", "name": "grill", "input": {"how": "rare"}}
    told = {"type": "tool_result", "tool_use_id": "c1", "content": "a steak"}
    return [
        {"type": "summary", "summary": "steak", "leafUuid": "u-9"},
        line("user", "A steak, please."),
        line("assistant", [{"type": "text", "text": "One moment."}], **answer),
        {"type": "file-history-snapshot", "sessionId": "s", "snapshot": {}},
        line("assistant", [use], **answer),
        line("user", [told]),
        line("assistant", [{"type": "text", "text": "Here it is."}], id="msg_2"),
    ]


def pydantic_ai() -> list[Message]:
    messages = [
        ModelRequest([UserPromptPart("A steak, please.")], instructions="Be kind."),
        ModelResponse([TextPart("One moment."), ToolCallPart("grill", {"how": "rare"}, "c1")]),
        ModelRequest([ToolReturnPart("grill", "a steak", "c1")]),
        ModelResponse([TextPart("Here it is.")]),
    ]
    dumped: list[Message] = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    return dumped


def agent_framework() -> list[Message]:
    call = FrameworkContent.from_function_call("c1", "grill", arguments='{"how": "rare"}')
    told = FrameworkContent.from_function_result("c1", result="a steak")
    messages = [
        FrameworkMessage("user", ["A steak, please."]),
        FrameworkMessage("assistant", [FrameworkContent.from_text("One moment."), call]),
        FrameworkMessage("tool", [told]),
        FrameworkMessage("assistant", ["Here it is."]),
    ]
    return [message.to_dict() for message in messages]


def llama_index() -> list[Message]:
    call = ToolCallBlock(tool_call_id="c1", tool_name="grill", tool_kwargs={"how": "rare"})
    told = {"tool_call_id": "c1", "name": "grill"}
    messages = [
        ChatMessage(role="user", content="A steak, please."),
        ChatMessage(role="assistant", blocks=[TextBlock(text="One moment."), call]),
        ChatMessage(role="tool", content="a steak", additional_kwargs=told),
        ChatMessage(role="assistant", content="Here it is."),
    ]
    return [message.model_dump(mode="json") for message in messages]


def legacy_chat() -> list[Message]:
    """Functions as they were before tools: no ids, tied by name."""
    call = {"name": "grill", "arguments": '{"how": "rare"}'}
    return [
        {"role": "user", "content": "A steak, please."},
        {"role": "assistant", "content": "One moment.", "function_call": call},
        {"role": "function", "name": "grill", "content": "a steak"},
        {"role": "assistant", "content": "Here it is."},
    ]


def responses() -> list[Message]:
    def answered(text: str) -> Message:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        told = {"id": f"msg_{len(text)}", "type": "message", "status": "completed"}
        return {**told, "role": "assistant", "content": content}

    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "grill"}
    return [
        {"role": "user", "content": [{"type": "input_text", "text": "A steak, please."}]},
        answered("One moment."),
        {**call, "arguments": '{"how": "rare"}', "status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": "a steak"},
        answered("Here it is."),
    ]


DUMPED: dict[str, tuple[str, Callable[[], list[Message]]]] = {
    "adk": ("adk", adk),
    "strands": ("strands", strands),
    "bedrock": ("bedrock", lambda: BEDROCK),
    "langchain": ("langchain", lambda: [message_to_dict(message) for message in CHAIN]),
    "langchain flat": ("langchain", lambda: [m.model_dump(mode="json") for m in CHAIN]),
    "langchain constructors": ("langchain", lambda: [dumpd(message) for message in CHAIN]),
    "langgraph": (
        "langchain",
        lambda: [{"$message": m.type, "data": m.model_dump(mode="json")} for m in CHAIN],
    ),
    "claude": ("claude", claude),
    "pydantic-ai": ("pydantic-ai", pydantic_ai),
    "agent-framework": ("agent-framework", agent_framework),
    "llama-index": ("llama-index", llama_index),
    "legacy chat": ("openai", legacy_chat),
    "openai-responses": ("openai-responses", responses),
}


@pytest.mark.parametrize("source", DUMPED)
@pytest.mark.parametrize("target", SHAPES)
def test_what_a_framework_dumps_is_read(source: str, target: str) -> None:
    shape, dumped = DUMPED[source]
    messages = dumped()
    known = {shape_of(message) for message in messages}
    assert known <= {shape, "plain"}
    if source == "legacy chat" and target == "openai":
        assert translate(messages, target).messages == messages
        return
    found = translate(messages, target)
    assert found.lost == ()
    said = read(found.messages, target, found.system)
    if source == "legacy chat":
        (_, id, *_), (_, answered, _) = said[2], said[3]
        assert id == answered
        said = [(each[0], "c1", *each[2:]) if len(each) > 2 else each for each in said]
    assert said == SAID


def lost(messages: list[Message], target: str) -> list[str]:
    return [f"{each.number}.{each.part} {each.what}" for each in translate(messages, target).lost]


def user(*blocks: Message) -> Message:
    return {"role": "user", "content": list(blocks)}


PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
PAGE = {
    "type": "document",
    "title": "menu",
    "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
}
SOUND = {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}
FILM = {"video": {"format": "mp4", "source": {"bytes": PNG}}}


@pytest.mark.parametrize("target", SHAPES)
@pytest.mark.parametrize(
    ("block", "kind", "without"),
    [
        (PICTURE, "image", ()),
        (PAGE, "document", ()),
        (SOUND, "audio", ("openai-responses", "anthropic")),
        (FILM, "video", ("openai", "openai-responses", "anthropic")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pictures_sounds_films_and_documents(
    target: str, block: Message, kind: str, without: tuple[str, ...]
) -> None:
    messages = [user(block), {"role": "model", "parts": [{"text": "I see."}]}]
    found = translate(messages, target)
    named = [each.what for each in found.lost]
    assert named == ([kind] if target in without else [])
    said = read(found.messages, target, found.system)  # its own types take it
    assert said == [("assistant", "I see.")]
    if target in without:
        return
    back = translate(found.messages, "gemini")  # holds all four, and says their type
    parts = back.messages[0]["parts"]
    data = parts[0]["inlineData"]
    assert base64.b64decode(data["data"]) == base64.b64decode(PNG)
    assert data["mimeType"].split("/")[0] == ("application" if kind == "document" else kind)


def test_a_picture_in_a_result_stays_where_it_can() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    blocks = [{"type": "text", "text": "seen"}, {"type": "image", "source": source}]
    told = {"type": "tool_result", "tool_use_id": "c1", "content": blocks, "is_error": True}
    messages = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [told]}]
    assert lost(messages, "openai") == ["2.1 image", "2.1 failure"]
    assert lost(messages, "openai-responses") == ["2.1 failure"]
    for shape in ("bedrock", "gemini", "langchain", "pydantic-ai"):
        found = translate(messages, shape)  # type: ignore[arg-type]
        assert found.lost == ()
        (again,) = translate(found.messages, "anthropic").messages[1]["content"]
        assert again["content"][1] == blocks[1]
        assert again["is_error"] is True


THOUGHT = {"type": "thinking", "thinking": "Rare.", "signature": "Eq8B"}
HIDDEN = {"type": "redacted_thinking", "data": "RG9u"}
REASONED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
MUSED = {"text": "Rare.", "thought": True, "thoughtSignature": "RG9u"}
ASKED = {"role": "user", "parts": [{"text": "How?"}]}


@pytest.mark.parametrize("way", ["langchain", "pydantic-ai", "agent-framework", "llama-index"])
def test_thoughts_go_back_to_their_own_provider(way: Any) -> None:
    text = {"type": "text", "text": "Rare."}
    claude = [ASKED, {"role": "assistant", "content": [THOUGHT, text]}]
    through = translate(claude, way)
    assert through.lost == ()
    assert translate(through.messages, "anthropic").messages[1]["content"] == [THOUGHT, text]
    openai = [ASKED, REASONED, {"role": "assistant", "content": "Rare."}]
    through = translate(openai, way)
    assert translate(through.messages, "openai-responses").messages[1] == REASONED
    gemini = [
        {"role": "user", "content": "How?"},
        {"role": "model", "parts": [MUSED, {"text": "Rare."}]},
    ]
    through = translate(gemini, way)
    assert translate(through.messages, "gemini").messages[1]["parts"] == [MUSED, {"text": "Rare."}]
    assert lost(through.messages, "anthropic") == ["2.1 thinking"]


def test_thoughts_that_only_their_provider_takes_are_named() -> None:
    claude = [ASKED, {"role": "assistant", "content": [THOUGHT, HIDDEN]}]
    assert lost(claude, "openai") == ["2.1 thinking", "2.2 thinking"]
    assert lost(claude, "openai-responses") == ["2.1 thinking", "2.2 thinking"]
    assert lost(claude, "gemini") == ["2.1 signature", "2.2 signature"]
    assert lost(claude, "bedrock") == []
    assert lost([ASKED, REASONED, {"role": "assistant", "content": "Rare."}], "anthropic") == [
        "2.1 thinking"
    ]


def test_words_behind_a_call_a_speaker_and_a_late_prompt_are_named() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    told = {"type": "tool_result", "tool_use_id": "c1", "content": "seen"}
    blocks = [use, {"type": "text", "text": "I look."}]
    messages: list[Message] = [
        {"role": "user", "content": "Look.", "name": "ann"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [told]},
        {"role": "system", "content": "Hurry."},
    ]
    assert lost(messages, "openai") == ["2.2 order"]
    assert lost(messages, "gemini") == ["1.0 name", "4.0 place"]
    assert translate(messages, "gemini").system == "Hurry."
    (_, named, *_) = [{}, *translate(messages, "openai").messages]
    assert named["name"] == "ann"


def test_results_stand_behind_their_calls_whatever_came_between() -> None:
    items = [
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
        {"role": "user", "content": "Well?"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
    ]
    said = READ["anthropic"](translate(items, "anthropic").messages)
    assert [each[:2] for each in said] == [
        *(("call", "c1"), ("call", "c2"), ("result", "c2"), ("result", "c1"), ("user", "Well?"))
    ]
    twice = [*items, {"type": "function_call_output", "call_id": "c1", "output": "again"}]
    assert lost(twice, "anthropic") == ["6.1 result"]


def test_calls_at_the_end_stay_for_their_results_are_to_come() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [{"role": "user", "content": "Look."}, {"role": "assistant", "tool_calls": [call]}]
    found = translate(messages, "anthropic")
    assert found.messages[1]["content"][0]["id"] == "c1"
    assert found.lost == ()
    told = [*messages, {"role": "user", "content": "Never mind."}]
    assert lost(told, "anthropic") == ["2.1 call"]


def test_an_id_that_the_target_does_not_take_finds_its_call_again() -> None:
    call = {"id": "look:0 é", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[Message] = [{"role": "assistant", "tool_calls": [call]}]
    (use,) = translate(messages, "anthropic").messages[0]["content"]
    told = {"type": "tool_result", "tool_use_id": use["id"], "content": "seen"}
    messages.append({"role": "user", "content": [told]})  # stored by who was given the other id
    assert translate(messages, "anthropic").messages[1]["content"][0]["tool_use_id"] == use["id"]
    assert (
        translate(messages, "gemini").messages[1]["parts"][0]["functionResponse"]["id"]
        == call["id"]
    )


def test_arguments_that_are_no_object_and_custom_tools() -> None:
    function = {"name": "look", "arguments": '{"city": "Par'}
    call = {"id": "c1", "type": "function", "function": function}
    messages = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "?"},
    ]
    found = translate(messages, "anthropic")
    assert found.messages[0]["content"][0]["input"] == {"INVALID_JSON": '{"city": "Par'}
    again = translate(found.messages, "openai").messages[0]["tool_calls"]
    assert again == [call]
    custom = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"}
    told = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
    (use,) = translate([custom, told], "anthropic").messages[0]["content"]
    assert use["input"] == {"input": "*** Begin"}


def test_an_answer_of_anthropics_api_is_taken_back() -> None:
    answer = AnthropicAnswer.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "text", "text": "Rare.", "citations": None}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    ).model_dump()
    assert shape_of(answer) == "anthropic"
    found = translate([answer], "anthropic").messages
    assert found == [{"role": "assistant", "content": answer["content"]}]


def test_requests_of_pydantic_ai_keep_what_each_says() -> None:
    prompt = [
        "Look:",
        ImageUrl("https://example.com/a.png"),
        BinaryContent(b"\x89", media_type="image/png"),
    ]
    request = ModelRequest([SystemPromptPart("Be kind."), UserPromptPart(prompt)])
    (stored,) = ModelMessagesTypeAdapter.dump_python([request], mode="json")
    found = translate([stored], "openai")
    assert [message["role"] for message in found.messages] == ["system", "user"]
    kinds = [block["type"] for block in found.messages[1]["content"]]
    assert kinds == ["text", "image_url", "image_url"]
    mixed = translate([{"role": "user", "content": "hi"}, stored], "pydantic-ai").messages
    assert mixed[1] is stored


def test_only_messages_of_others_are_foreign() -> None:
    own = [{"role": "user", "content": "hi"}, *responses(), {"__enc__": 1, "payload": "x"}]
    assert not are_foreign(own, "openai-responses", "plain")
    for name, (shape, dumped) in DUMPED.items():
        if shape != "openai-responses":
            assert are_foreign([*own, *dumped()], "openai-responses", "plain"), name
