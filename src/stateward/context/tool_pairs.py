"""Ties between messages: tool calls and their results, in the shapes that providers use.

Eleven shapes are known, and may be told apart by the messages alone:

- OpenAI chat: `tool_calls` of an assistant message, answered by messages of the role `tool`;
- OpenAI Responses: items such as `function_call` and `function_call_output`, tied by `call_id`,
  and `reasoning` items that must stay with what the model made of them;
- Anthropic: `tool_use` blocks, answered by `tool_result` blocks in a user message;
- Bedrock and Strands: `toolUse` blocks, answered by `toolResult` blocks in a user message;
- Gemini: `functionCall` parts, answered by `functionResponse` parts, tied by id or by name;
- LangChain: dumps of its messages, whose `type` (`human`, `ai`, `tool`) is their role;
- Pydantic AI: requests and responses, whose parts say by their `part_kind` what they are;
- LlamaIndex: `tool_call` blocks, answered by messages of the role `tool`;
- Microsoft's Agent Framework: `contents` such as `function_call` and `function_result`, tied by
  `call_id`, and questions whether a call is approved;
- Claude Code: lines of its transcripts, in whose `message` an Anthropic message is;
- Google's ADK: events, in whose `content` one of Gemini's is.

A form of one's own is described by a `Shaper`, and looked at through a stand-in. Messages of any
other form are left alone: each stands for itself. Reading only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stateward.errors import InvalidInput
from stateward.records import MessageShape, Shaper

Message = dict[str, Any]

SYSTEM_ROLES = ("system", "developer")
MODEL_ROLES = ("assistant", "model")
ROLES = ("user", *MODEL_ROLES, *SYSTEM_ROLES, "tool", "function")
LANGCHAIN = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
LANGCHAIN |= {  # of answers that were streamed
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
}


class Ties(NamedTuple):
    """The ties of a message to others: the ids of the calls it makes, and of those it answers."""

    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


NO_TIES = Ties()
TYING = frozenset({"type", "tool_calls", "tool_call_id", "function_call", "parts", "blocks"})


def is_plain(message: Message) -> bool:
    """A mere text, or nothing that any provider knows: tied to no other message."""
    if not message.keys().isdisjoint(TYING):
        return False
    if type(message.get("content")) is str:
        return message.get("role") != "function"
    return "content" not in message and "role" not in message


def are_plain(messages: Sequence[Message]) -> bool:
    """Whether none of them is tied to another; quick about what most are: a role and a text."""
    try:
        for message in messages:  # not in C: sets of roles and types take thrice as long
            if len(message) != 2 or type(message["content"]) is not str:
                break
            if message["role"] == "function":
                return False
        else:
            return True
    except KeyError:  # another form
        pass
    return all(map(is_plain, messages))


def _unwrapped(message: Message) -> Message:
    """Return the message itself where LangChain, Claude Code or Google's ADK have wrapped it."""
    if "type" in message:
        for name in ("data", "kwargs"):
            held = message.get(name)
            if type(held) is dict and _langchain(held) is not None:
                return held
        held = message.get("message")
        if type(held) is dict and held.get("role") == message["type"]:
            return held
    elif "author" in message:
        held = message.get("content")
        if type(held) is dict and type(held.get("role")) is str:
            return held
    return message


def _langchain(message: Message) -> str | None:
    kind = message.get("type")
    return LANGCHAIN.get(kind) if type(kind) is str and "role" not in message else None


def seen_as(messages: Sequence[Message], shaper: Shaper | None) -> Sequence[Message]:
    """The messages, with stand-ins of a known form for those that have their own form."""
    return messages if shaper is None else [_stand_in(message, shaper) for message in messages]


def _stand_in(message: Message, shaper: Shaper) -> Message:
    shape = shaper(message)
    if shape is None:
        return message
    if not isinstance(shape, MessageShape):
        raise InvalidInput(
            f"shape= returned {type(shape).__name__}; it takes a message and returns its "
            "MessageShape, or None for one of a known form"
        )
    blocks: list[Message] = [{"type": "tool_use", "id": id} for id in shape.calls]
    blocks += ({"type": "tool_result", "tool_use_id": id} for id in shape.results)
    return {"role": shape.role, "content": blocks or shape.text}


def is_known(message: Message) -> bool:
    """Return whether the speaker of a message and its tool calls and results can be told."""
    role = role_of(message)
    if role is None:
        return is_item(message)
    if role not in ROLES:
        return False
    calls, results = ties(message)
    if calls or results:
        return True
    blocks = [each for name in ("content", "contents") for each in _list(message.get(name))]
    blocks += (each for each in _list(message.get("parts")) if not _is_whole_call(each))
    kinds = [str(each.get("type", "")) for each in blocks if type(each) is dict]
    return role not in ("tool", "function") and not any("tool" in kind for kind in kinds)


def _is_whole_call(part: Any) -> bool:
    """Return whether a part is a call of a UIMessage, which its result becomes part of."""
    if type(part) is not dict:
        return False
    return "toolCallId" in part or type(part.get("toolInvocation")) is dict


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def role_of(message: Message) -> Any:
    """Return the speaker in the word that most providers use; None: the message does not say."""
    role = message.get("role")
    if role is None:
        if "type" in message:
            held = _unwrapped(message)
            return held.get("role") or _langchain(held)
        if "author" in message:
            return _unwrapped(message).get("role")
        return _pydantic(message) if "kind" in message else None
    return LANGCHAIN.get(role, role) if type(role) is str else role


def _pydantic(message: Message) -> str | None:
    """Return the speaker of a message of Pydantic AI: the user, if a request has their prompt."""
    parts = message.get("parts")
    if type(parts) is not list or message["kind"] not in ("request", "response"):
        return None
    if message["kind"] == "response":
        return "assistant"
    kinds = {str(each.get("part_kind")) for each in parts if type(each) is dict}
    if "user-prompt" in kinds:
        return "user"
    return "system" if kinds == {"system-prompt"} else "tool"


def ties(message: Message) -> Ties:
    """The tool calls a message makes and the ones it answers; an answer within it is no tie."""
    if is_plain(message):
        return NO_TIES
    message = _unwrapped(message)
    calls: list[str] = []
    results: list[str] = []
    kind = message.get("type")
    if type(kind) is str and kind != "message":
        _item_ties(message, kind, calls, results)
    made = message.get("tool_calls")
    if type(made) is list:
        calls.extend(_text(call.get("id")) for call in made if type(call) is dict)
    if "blocks" in message:
        _beside_ties(message.get("additional_kwargs"), calls, results)
    if "tool_call_id" in message:
        results.append(_text(message["tool_call_id"]))
    elif message.get("role") == "function" and "parts" not in message:
        # the older form of chat, tied by the function's name
        results.append(f"function {message.get('name')}")
    if type(message.get("function_call")) is dict:
        calls.append(f"function {message['function_call'].get('name')}")
    for content in (message.get("content"), message.get("parts"), message.get("blocks")):
        for block in content if type(content) is list else ():
            if type(block) is dict:
                _block_ties(block, calls, results)
    if "contents" in message:
        _contents_ties(_list(message["contents"]), calls, results)
    if not calls and not results:
        return NO_TIES
    return Ties(tuple(dict.fromkeys(calls)), tuple(id for id in results if id not in calls))


def _item_ties(item: Message, kind: str, calls: list[str], results: list[str]) -> None:
    """Items of the Responses API; the work of tools that OpenAI itself runs has no `call_id`."""
    if kind == "mcp_approval_request":
        calls.append(_text(item.get("id")))
    elif kind == "mcp_approval_response":
        results.append(_text(item.get("approval_request_id")))
    elif kind == "local_shell_call_output" and "call_id" not in item:
        results.append(_text(item.get("id")))
    elif "call_id" in item:
        (results if kind.endswith("_output") else calls).append(_text(item["call_id"]))


def _beside_ties(beside: Any, calls: list[str], results: list[str]) -> None:
    """Add the ties that LlamaIndex keeps beside the blocks of a message."""
    if type(beside) is dict:
        made = (call for call in _list(beside.get("tool_calls")) if type(call) is dict)
        calls.extend(_text(call.get("id")) for call in made)
        if "tool_call_id" in beside:
            results.append(_text(beside["tool_call_id"]))


_PYDANTIC_RESULTS = ("tool-return", "retry-prompt")

_PARTS = (  # of Gemini, in both of its spellings
    ("functionCall", True),
    ("function_call", True),
    ("functionResponse", False),
    ("function_response", False),
)


def _block_ties(block: Message, calls: list[str], results: list[str]) -> None:
    kind = block.get("type")
    part = block.get("part_kind")
    if part is not None:
        if part == "tool-call":
            calls.append(_text(block.get("tool_call_id")))
        elif part in _PYDANTIC_RESULTS and block.get("tool_name") is not None:
            results.append(_text(block.get("tool_call_id")))
    elif block.get("block_type") == "tool_call":
        calls.append(_text(block.get("tool_call_id")))
    elif "tool_use_id" in block:
        results.append(_text(block["tool_use_id"]))
    elif type(kind) is str and kind.endswith("tool_use"):
        calls.append(_text(block.get("id")))
    elif type(block.get("toolUse")) is dict:
        calls.append(_text(block["toolUse"].get("toolUseId")))
    elif type(block.get("toolResult")) is dict:
        results.append(_text(block["toolResult"].get("toolUseId")))
    else:
        for name, made in _PARTS:
            part = block.get(name)
            if type(part) is dict:
                made_or_answered = calls if made else results
                made_or_answered.append(_text(part.get("id") or f"function {part.get('name')}"))


def _contents_ties(contents: list[Any], calls: list[str], results: list[str]) -> None:
    """Add the ties in Agent Framework's contents; the approval of a call answers its question."""
    for held in contents:
        kind = held.get("type") if type(held) is dict else None
        if type(kind) is not str:
            continue
        if "call_id" in held:
            (results if kind.endswith("_result") else calls).append(_text(held["call_id"]))
        elif kind.startswith("function_approval_"):
            (results if kind.endswith("_response") else calls).append(_text(held.get("id")))


def _text(id: Any) -> str:
    return id if type(id) is str else repr(id)


def is_item(message: Message) -> bool:
    """An item of the Responses API that the model or a tool made: no message, and no beginning."""
    kind = message.get("type")
    if type(kind) is not str or "role" in message:
        return False
    return (
        kind == "reasoning"
        or "call_id" in message
        or kind.endswith(("_call", "_output"))
        or kind.startswith("mcp_")
    )


def by_model(message: Message) -> bool:
    """Whether the model made it."""
    role = role_of(message)
    if role is not None:
        return role in MODEL_ROLES
    return is_item(message) and not _is_answer(message)


def _is_answer(message: Message) -> bool:
    kind = message.get("type")
    return type(kind) is str and (kind.endswith("_output") or kind == "mcp_approval_response")


def starts_turn(message: Message) -> bool:
    """A turn starts where the user speaks; a tool's result under the user's role is not that."""
    return role_of(message) == "user" and not ties(message).results


def may_start(message: Message) -> bool:
    """Whether a window may begin here, for every provider."""
    if role_of(message) is not None:
        return starts_turn(message)
    return not is_item(message)


class Shape(NamedTuple):
    """Demands of a provider on a conversation besides whole pairs."""

    user_first: bool | None = None  # it must begin with the user's own words; None: cannot be told
    alternates: bool = False  # the roles must take turns


def shape_of(messages: Sequence[Message]) -> Shape:
    """Tell the demands from the messages. Plain texts look the same for every provider."""
    user_first: bool | None = None
    for wrapped in messages:
        message = _unwrapped(wrapped)
        content = message.get("content")
        if type(message.get("parts")) is list or _langchain(message) is not None:
            return Shape(user_first=True)
        if "tool_calls" in message or "tool_call_id" in message or is_item(message):
            return Shape(user_first=False)
        if type(content) is not list:
            continue
        for block in content:
            kind = block.get("type") if type(block) is dict else ""
            if kind is None and ("text" in block or "toolUse" in block or "toolResult" in block):
                return Shape(user_first=True, alternates=True)
            if kind in ("tool_use", "tool_result", "thinking") or (
                kind == "text" and message.get("role") == "assistant"
            ):
                user_first = True
    return Shape(user_first=user_first)
