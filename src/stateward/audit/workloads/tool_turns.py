"""Turns in which a tool is called, and why a model would refuse a conversation of such."""

from __future__ import annotations

from typing import Any

from stateward.audit.workloads.samples import message

Message = dict[str, Any]


def call(name: str, count: int = 1) -> Message:
    """Return a message in which the model asks for this many tools."""
    made = [
        {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for id in ids(name, count)
    ]
    return {"role": "assistant", "content": f"{name} asks", "tool_calls": made}


def ids(name: str, count: int = 1) -> list[str]:
    return [f"{name}.{number}" for number in range(count)]


def result(id: str, text: str = "found") -> Message:
    return message("tool", f"{id} {text}", tool_call_id=id)


def turn(name: str, count: int = 1, text: str = "found") -> list[Message]:
    """A question, calls, their results, and the answer."""
    results = [result(id, text) for id in ids(name, count)]
    question, answer = message("user", f"{name} question"), message("assistant", f"{name} answer")
    return [question, call(name, count), *results, answer]


def refusal(messages: list[Message]) -> str:
    """Say why the APIs of models refuse the messages; "" if they take them.

    A result must follow its call, and every call must have its result before anything else comes.
    At the very end results may be missing: the caller of the model is about to add them.
    """
    open_calls: list[str] = []
    for each in messages:
        if not isinstance(each, dict):
            return f"{each!r} is not a message"
        answered = each.get("tool_call_id")
        if answered is not None:
            if answered not in open_calls:
                return f"the result {answered!r} has no call before it"
            open_calls.remove(answered)
            continue
        if open_calls:
            return f"the call {open_calls[0]!r} has no result before {each.get('content')!r}"
        open_calls = [str(made.get("id")) for made in each.get("tool_calls") or ()]
    return ""


def is_complete(messages: list[Message]) -> bool:
    """Return True if every result has its call, and every call its result, in whatever order."""
    made = [str(one.get("id")) for each in messages for one in each.get("tool_calls") or ()]
    answered = [str(each["tool_call_id"]) for each in messages if "tool_call_id" in each]
    return sorted(made) == sorted(answered)
