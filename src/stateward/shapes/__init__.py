"""One conversation in the shape that a provider or framework takes.

    translate(messages, "anthropic").messages

Messages may come in any known shape, mixed. One that has the wanted shape already is given as it
was stored. What the target cannot hold is named in `lost`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from re import Pattern
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from stateward.errors import InvalidInput
from stateward.shapes import (
    agent_framework,
    ai_sdk,
    anthropic,
    bedrock,
    gemini,
    langchain,
    llama_index,
    openai_chat,
    openai_responses,
    pydantic_ai,
)
from stateward.shapes.blocks import BLOCKS, MEDIA
from stateward.shapes.pairs import paired
from stateward.shapes.parts import Message, Speech
from stateward.shapes.sources import Lost, Sources

__all__ = ["Lost", "Shape", "Translation", "shape_of", "translate"]

Shape = Literal[
    "openai",
    "openai-responses",
    "anthropic",
    "bedrock",
    "gemini",
    "langchain",
    "pydantic-ai",
    "agent-framework",
    "llama-index",
    "ai-sdk",
]


class Translation(Struct, frozen=True):
    """A conversation in another shape.

    `system` is the text of its system prompts, where the shape has no such messages; `lost` names
    what the shape cannot hold.
    """

    messages: list[dict[str, Any]]
    lost: tuple[Lost, ...] = ()
    system: str | None = None


class Target(NamedTuple):
    """How one shape is written."""

    kept: Callable[[Speech], Message | None]
    write: Callable[[Sequence[Speech], Sources], list[Message]]
    ids: Pattern[str]


TARGETS: dict[str, Target] = {
    "openai": Target(openai_chat.kept, openai_chat.write, openai_chat.IDS),
    "openai-responses": Target(openai_responses.kept, openai_responses.write, openai_responses.IDS),
    "anthropic": Target(anthropic.kept, anthropic.write, anthropic.IDS),
    "bedrock": Target(bedrock.kept, bedrock.write, bedrock.IDS),
    "gemini": Target(gemini.kept, gemini.write, gemini.IDS),
    "langchain": Target(langchain.kept, langchain.write, langchain.IDS),
    "pydantic-ai": Target(pydantic_ai.kept, pydantic_ai.write, pydantic_ai.IDS),
    "agent-framework": Target(agent_framework.kept, agent_framework.write, agent_framework.IDS),
    "llama-index": Target(llama_index.kept, llama_index.write, llama_index.IDS),
    "ai-sdk": Target(ai_sdk.kept, ai_sdk.write, ai_sdk.IDS),
}

READERS: dict[str, Callable[[Message], Speech | list[Speech]]] = {
    "plain": openai_chat.read,
    "openai": openai_chat.read,
    "openai-responses": openai_responses.read,
    "anthropic": anthropic.read,
    "claude": anthropic.read_entry,
    "bedrock": bedrock.read,
    "strands": bedrock.read,
    "gemini": gemini.read,
    "adk": gemini.read_event,
    "langchain": langchain.read,
    "pydantic-ai": pydantic_ai.read,
    "agent-framework": agent_framework.read,
    "llama-index": llama_index.read,
    "ai-sdk": ai_sdk.read,
}

ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}
ROLES |= {role: role for role in ("system", "developer", "user", "assistant", "tool")}
CHAT = frozenset({"tool_calls", "tool_call_id", "function_call", "refusal", "audio"})
ENTRY = frozenset({"uuid", "leafUuid", "sessionId", "parentUuid"})
BEDROCK = frozenset({"toolUse", "toolResult", "reasoningContent", "cachePoint", *bedrock.FORMATS})
RESPONSES = frozenset({"input_text", "output_text", "input_image", "input_file"})
MARKS = CHAT | ENTRY | {"parts", "data", "blocks", "contents", "message", "author", "strands"}
MARKS |= {"kwargs", langchain.MESSAGE}  # what items of Responses and mere texts do not have
ANTHROPIC = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "document"})


def shape_of(message: Mapping[str, Any]) -> str | None:
    """The shape of a message: one of `translate`'s targets, or what it can read besides.

    Those are `plain` (a role and text, as several providers have it), `strands`, `adk` and
    `claude`. None: it has no known shape.
    """
    role, kind = message.get("role"), message.get("type")
    content = message.get("content")
    if len(message) == 2 and type(content) is str and type(role) is str:
        return "openai" if role in ("tool", "function") else "plain"
    if "strands" in message:
        return "strands"
    if message.get("kind") in ("request", "response") and "parts" in message and role is None:
        return "pydantic-ai"
    if type(role) is str:
        return _shape_by_role(message, kind, content)
    if "author" in message and ("invocation_id" in message or "actions" in message):
        return "adk"
    if langchain.MESSAGE in message or langchain.unwrapped(dict(message))[0] in langchain.ROLES:
        return "langchain"
    if type(kind) is str and not ENTRY.isdisjoint(message):
        return "claude"
    if type(message.get("contents")) is list:
        return "agent-framework"
    if type(message.get("parts")) is list:
        return "gemini" if role is None and gemini.is_content(message) else None
    return "openai-responses" if type(kind) is str and kind not in BLOCKS else None


def _shape_by_role(message: Mapping[str, Any], kind: Any, content: Any) -> str | None:
    if type(kind) is str and langchain.ROLES.get(kind) not in (None, ROLES.get(message["role"])):
        return None  # its type names another speaker than its role
    if type(message.get("contents")) is list:
        return "agent-framework"
    if type(message.get("blocks")) is list:
        return "llama-index"
    if type(message.get("parts")) is list:
        if ai_sdk.is_message(message):
            return "ai-sdk"
        return "gemini" if gemini.is_content(message) else None
    if "stop_reason" in message:
        return "anthropic"
    if kind == "message":
        return "openai-responses"
    if not CHAT.isdisjoint(message) or message["role"] in ("tool", "function"):
        return "openai"
    if type(content) is list:
        return next((shape for block in content if (shape := _shape_by_block(block))), "plain")
    return "plain" if type(content) is str else None


def _shape_by_block(block: Any) -> str | None:
    """None: it looks the same in several shapes."""
    if not isinstance(block, Mapping):
        return None
    kind = block.get("type")
    if kind is None:
        return "bedrock" if "text" in block or not BEDROCK.isdisjoint(block) else None
    if kind in RESPONSES:
        return "openai-responses"
    if kind in ANTHROPIC or "source" in block:
        return "anthropic"
    return "openai" if kind in MEDIA or kind == "refusal" else None


def are_foreign(messages: Sequence[Message], *own: str) -> bool:
    """Whether any of them has a known shape that is none of these: then they are translated.

    Quick about mere texts and items of Responses, which are most of what there is.
    """
    return any(
        shape_of(message) not in (None, *own)
        for message in messages
        if not MARKS.isdisjoint(message) or type(message.get("content")) is list
    )


def translate(
    messages: Sequence[Message], shape: Shape, numbers: Sequence[int] | None = None
) -> Translation:
    """The conversation in that shape.

    Every tool call is followed by its result, whatever lay between them. One that was never
    answered, and a result without a call, are left out and named, because no provider takes them;
    calls at the very end stay, for their results are still to come. `numbers` are those by which
    `lost` names messages; by default they are counted from 1.
    """
    target = TARGETS.get(shape)
    if target is None:
        names = ", ".join(repr(name) for name in get_args(Shape))
        raise InvalidInput(f"there is no shape {shape!r}; use one of: {names}")
    read = [_read(message) for message in messages]
    own_forms = [target.kept(speeches[0]) if speeches else None for speeches in read]
    if all(own is message for own, message in zip(own_forms, messages, strict=True)):
        return Translation(list(messages))
    sources = Sources(read, own_forms)
    speakers: list[Speech] = []  # whose role is known
    for home, speeches in enumerate(read):
        for speech in speeches:
            role = ROLES.get(speech.role)
            if role is not None:
                speech.role = role
                speakers.append(speech)
            elif speech.parts or speech.shape == "":
                why = f"unknown role {speech.role!r}" if speech.role else "of no known shape"
                sources.lose_message(home, "message", why)
    written = target.write(paired(speakers, sources, target.ids), sources)
    lost = sorted(sources.lost, key=lambda each: (each.number, each.part))
    if numbers is not None:
        lost = [replace(each, number=numbers[each.number - 1]) for each in lost]
    return Translation(written, tuple(lost), "\n\n".join(sources.system) or None)


def _read(message: Message) -> list[Speech]:
    shape = shape_of(message)
    if shape is None:
        return [Speech("", [], raw=message)]
    read = READERS[shape](message)
    speeches = read if isinstance(read, list) else [read]
    for speech in speeches:
        speech.shape, speech.raw = shape, message
    return speeches or [Speech("user", [], shape=shape, raw=message)]
