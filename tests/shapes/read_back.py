"""What a conversation says, read from each shape by the types of those who made the shape.

Nothing of `stateward.shapes` is used here. A validator raises for a message that its owner would
not take; the reading gives (who, what) in order, the words of an answer before its calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby, pairwise
from typing import Any

from agent_framework import Message as FrameworkMessage
from anthropic.types import MessageParam
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from google.genai import types as genai
from langchain_core.messages import AIMessage, ToolMessage, messages_from_dict
from llama_index.core.base.llms.types import ChatMessage
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest
from pydantic_ai.ui.vercel_ai.request_types import UIMessage
from strands.types.content import Message as StrandsMessage

Message = dict[str, Any]
Told = tuple[Any, ...]

CHAT: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
ANTHROPIC: TypeAdapter[Any] = TypeAdapter(MessageParam)
STRANDS: TypeAdapter[Any] = TypeAdapter(StrandsMessage)


def text(content: Any) -> str:
    """The words of a content that is a text or blocks of text."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if "text" in block)


def words(role: str, content: Any) -> Iterator[Told]:
    if isinstance(content, str):
        content = [{"text": content}]
    for block in content or ():
        if block.get("text") and block.get("type") in (None, "text", "input_text", "output_text"):
            yield (role, block["text"])


def checked(adapter: TypeAdapter[Any], message: Message) -> None:
    """Blocks are looked at only when they are asked for: all of them are."""
    adapter.dump_python(adapter.validate_python(message), warnings="error")


def openai(messages: list[Message]) -> Iterator[Told]:
    open_calls: set[str] = set()
    for message in messages:
        checked(CHAT, message)
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])  # right behind its call, once
            yield ("result", message["tool_call_id"], text(message["content"]))
            continue
        assert not open_calls, "a call is followed by something else than its result"
        yield from words(message["role"], message.get("content"))
        for call in message.get("tool_calls", ()):
            open_calls.add(call["id"])
            arguments = json.loads(call["function"]["arguments"])
            yield ("call", call["id"], call["function"]["name"], arguments)


def responses(messages: list[Message]) -> Iterator[Told]:
    open_calls: set[str] = set()
    for item in messages:
        checked(ITEM, item)
        if item.get("type") == "function_call":
            open_calls.add(item["call_id"])
            yield ("call", item["call_id"], item["name"], json.loads(item["arguments"]))
        elif item.get("type") == "function_call_output":
            open_calls.remove(item["call_id"])
            yield ("result", item["call_id"], text(item["output"]))
        elif "role" in item:
            yield from words(item["role"], item["content"])


def in_turns(messages: list[Message], model: str, blocks: str) -> None:
    """Roles take turns, and every call is answered in the next message."""
    roles = [message["role"] for message in messages]
    assert all(one != other for one, other in pairwise(roles)), roles
    assert set(roles) <= {"user", model}
    assert all(message[blocks] for message in messages)


def anthropic(messages: list[Message]) -> Iterator[Told]:
    in_turns(messages, "assistant", "content")
    open_calls: set[str] = set()
    for message in messages:
        checked(ANTHROPIC, message)
        content = message["content"]
        content = [{"type": "text", "text": content}] if isinstance(content, str) else content
        answered = {b["tool_use_id"] for b in content if b["type"] == "tool_result"}
        assert answered == open_calls, "the next message answers exactly the calls"
        open_calls = {block["id"] for block in content if block["type"] == "tool_use"}
        for block in content:
            if block["type"] == "tool_result":
                yield ("result", block["tool_use_id"], text(block["content"]))
            elif block["type"] == "tool_use":
                yield ("call", block["id"], block["name"], block["input"])
            else:
                yield from words(message["role"], [block])


@cache
def converse() -> Any:
    """What botocore knows of Bedrock's Converse."""
    model = Loader().load_service_model("bedrock-runtime", "service-2")
    return ServiceModel(model).operation_model("Converse").input_shape


def bedrock(messages: list[Message]) -> Iterator[Told]:
    in_turns(messages, "assistant", "content")
    report = ParamValidator().validate({"modelId": "m", "messages": messages}, converse())
    assert not report.has_errors(), report.generate_report()
    for message in messages:
        checked(STRANDS, message)
        for block in message["content"]:
            if "toolUse" in block:
                use = block["toolUse"]
                yield ("call", use["toolUseId"], use["name"], use["input"])
            elif "toolResult" in block:
                told = block["toolResult"]
                content = [
                    {"text": json.dumps(each["json"], ensure_ascii=False)}
                    if "json" in each
                    else each
                    for each in told["content"]
                ]
                yield ("result", told["toolUseId"], text(content))
            else:
                yield from words(message["role"], [block])


def gemini(messages: list[Message]) -> Iterator[Told]:
    in_turns(messages, "model", "parts")
    for message in messages:
        content = genai.Content.model_validate(message)
        role = "assistant" if content.role == "model" else "user"
        for part in content.parts or ():
            if part.function_call is not None:
                call = part.function_call
                yield ("call", call.id, call.name, call.args)
            elif part.function_response is not None:
                told = part.function_response.response or {}
                value: Any = told
                for name in ("result", "error"):
                    value = told[name] if set(told) == {name} else value
                said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                yield ("result", part.function_response.id, said)
            elif part.text and not part.thought:
                yield (role, part.text)


def langchain(messages: list[Message]) -> Iterator[Told]:
    roles = {"human": "user", "ai": "assistant", "system": "system"}
    for message in messages_from_dict(messages):
        if isinstance(message, ToolMessage):
            yield ("result", message.tool_call_id, text(message.content))
            continue
        yield from words(roles[message.type], message.content)
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                yield ("call", call["id"], call["name"], call["args"])


def pydantic_ai(messages: list[Message]) -> Iterator[Told]:
    for message in ModelMessagesTypeAdapter.validate_python(messages):
        for part in message.parts:
            if part.part_kind == "tool-call":
                yield ("call", part.tool_call_id, part.tool_name, part.args_as_dict())
            elif part.part_kind == "tool-return":
                yield ("result", part.tool_call_id, part.model_response_str())
            elif part.part_kind == "system-prompt":
                yield ("system", part.content)
            elif part.part_kind in ("text", "user-prompt"):
                role = "user" if isinstance(message, ModelRequest) else "assistant"
                content: Any = getattr(part, "content")  # noqa: B009 - both have it
                for each in [content] if isinstance(content, str) else content:
                    if isinstance(each, str):
                        yield (role, each)


def agent_framework(messages: list[Message]) -> Iterator[Told]:
    for message in map(FrameworkMessage.from_dict, messages):
        for content in message.contents:
            if content.type == "function_call":
                yield ("call", content.call_id, content.name, content.parse_arguments())
            elif content.type == "function_result":
                yield ("result", content.call_id, content.result)
            elif content.type == "text":
                yield (str(message.role), content.text)


def llama_index(messages: list[Message]) -> Iterator[Told]:
    for message in map(ChatMessage.model_validate, messages):
        said = [block for block in message.blocks if block.block_type == "text"]
        if message.role.value == "tool":
            id = message.additional_kwargs["tool_call_id"]
            yield ("result", id, "\n".join(block.text for block in said))
            continue
        for block in message.blocks:
            if block.block_type == "text":
                yield (message.role.value, block.text)
            elif block.block_type == "tool_call":
                yield ("call", block.tool_call_id, block.tool_name, block.tool_kwargs)


def ai_sdk(messages: list[Message]) -> Iterator[Told]:
    for message in messages:
        results: list[Told] = []
        for part in UIMessage.model_validate(message).parts:
            held: Any = part
            if part.type == "step-start":
                yield from results
                results = []
            elif part.type == "text":
                yield (message["role"], held.text)
            elif part.type.startswith("tool-"):
                id = held.tool_call_id
                yield ("call", id, part.type.removeprefix("tool-"), held.input)
                if held.state == "output-available":
                    assert isinstance(held.output, str)
                    results.append(("result", id, held.output))
        yield from results


READ: dict[str, Callable[[list[Message]], Iterator[Told]]] = {
    "openai": openai,
    "openai-responses": responses,
    "anthropic": anthropic,
    "bedrock": bedrock,
    "gemini": gemini,
    "langchain": langchain,
    "pydantic-ai": pydantic_ai,
    "agent-framework": agent_framework,
    "llama-index": llama_index,
    "ai-sdk": ai_sdk,
}
SHAPES = tuple(READ)


def read(messages: list[Message], shape: str, system: str | None) -> list[Told]:
    """All that is said: system prompts first."""
    said = list(READ[shape](messages))
    prompts = [told for told in said if told[0] == "system"]
    if system is not None:
        prompts = [("system", prompt) for prompt in system.split("\n\n")]
    return prompts + calls_last([told for told in said if told[0] != "system"])


def calls_last(said: list[Told]) -> list[Told]:
    """The words of an answer before its calls, and results in the order of their calls."""
    found: list[Told] = []
    waiting: list[Told] = []
    for told in said:
        if told[0] == "call":
            waiting.append(told)
            continue
        if told[0] != "assistant":
            found += waiting
            waiting = []
        found.append(told)
    found += waiting
    places = {told[1]: at for at, told in enumerate(found) if told[0] == "call"}
    ordered: list[Told] = []
    for results, run in groupby(found, lambda told: told[0] == "result"):
        told = list(run)
        ordered += sorted(told, key=lambda each: places.get(each[1], 0)) if results else told
    return ordered
