"""Messages of a form of one's own, which a function describes; and of forms that nobody knows."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.windows import said
from stateward.context.compaction import Compaction
from stateward.errors import InvalidInput
from stateward.records import MessageShape
from stateward.testing.conformance.harness import raises

ROLES: dict[str, Any] = {"rules": "system", "customer": "user", "bot": "assistant", "desk": "tool"}


def shape(message: dict[str, Any]) -> MessageShape | None:
    if "from" not in message:
        return None
    asks, answers = tuple(message.get("asks", ())), tuple(message.get("answers", ()))
    return MessageShape(ROLES[message["from"]], asks, answers, message.get("says", ""))


def turn(number: int) -> list[dict[str, Any]]:
    return [
        {"from": "customer", "says": f"where is order {number}?"},
        {"from": "bot", "asks": ["a", "b"]},
        {"from": "desk", "answers": ["a", "b"], "says": "in the van"},
        {"from": "bot", "says": f"order {number} is in the van"},
    ]


@contextmanager
def warned(*threads: str) -> Any:
    """The names of what is logged below as a warning about these threads, and about which."""
    seen: list[tuple[str, str]] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            about: str = record.thread_id  # type: ignore[attr-defined]
            if about in threads:  # other cases may run beside this one
                seen.append((record.getMessage(), about))

    logger, handler = logging.getLogger("stateward.threads"), Listening(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield seen
    finally:
        logger.removeHandler(handler)


@case
async def a_form_of_ones_own_is_kept_together(h: StoreHarness) -> None:
    rules = {"from": "rules", "says": "be kind"}
    id = h.new_id()
    with warned(id) as seen:
        async with h.store(shape=shape) as store:
            thread = store.thread(id)
            await thread.append(rules, *turn(1), *turn(2), *turn(3))
            bounds: tuple[tuple[dict[str, Any], list[dict[str, Any]]], ...] = (
                ({"last": 4}, turn(3)),
                ({"last": 7}, turn(3)),
                ({"last": 3}, [turn(3)[0], turn(3)[3]]),
                ({"turns": 2}, [*turn(2), *turn(3)]),
                ({"max_tokens": 100_000}, [*turn(1), *turn(2), *turn(3)]),
            )
            for asked, wanted in bounds:
                window = await thread.load(**asked)
                assert window.messages == [rules, *wanted]
                assert window.pinned == 1
            await thread.append(
                {"from": "customer", "says": "and now?"}, {"from": "bot", "asks": ["c"]}
            )
            assert (await thread.load(last=5)).pending == ("c",)
            await thread.append(said("user", "mixed"), said("assistant", "forms"))
            assert (await thread.load(turns=1)).messages == [
                rules,
                said("user", "mixed"),
                said("assistant", "forms"),
            ]
    assert seen == []


@case
async def a_form_of_ones_own_is_cut_and_summarised(h: StoreHarness) -> None:
    asked: list[Any] = []

    def summarize(previous: str | None, messages: list[Any]) -> str:
        asked.append(messages)
        return "they spoke of orders"

    async with h.store(shape=shape) as store:
        thread = store.thread("t")
        for n in range(4):
            await thread.append(*turn(n))
        await thread.compact(Compaction(summarize, after=5, keep=5))
        assert asked == [[*turn(0), *turn(1)]], "a turn is not divided"
        long = {"from": "customer", "says": "word " * 500, "id": "x" * 100}
        await thread.append(long)
        window = await thread.load(max_tokens=200, oversized="shorten")
        (cut,) = window.messages
        assert window.shortened == 1
        assert cut["id"] == long["id"]
        assert "left out" in cut["says"]


@case
async def a_window_says_once_that_it_does_not_know_a_form(h: StoreHarness) -> None:
    known = [
        said("user", "hello"),
        {"role": "assistant", "tool_calls": [{"id": "1"}]},
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"type": "reasoning", "id": "r"},
        {"type": "function_call", "call_id": "c", "name": "f"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f"}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
    ]
    unknown: list[dict[str, Any]] = [
        {"from": "customer", "says": "hello"},
        {"role": "customer", "content": "hello"},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1"}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "1"}]},
    ]
    for message in (*known, *unknown):
        id = h.new_id()
        with warned(id) as seen:
            async with h.store() as store:
                thread = store.thread(id)
                await thread.append(message)
                await thread.load()
                await thread.load(last=1, exact=True)
                assert seen == [], "who takes messages as they are is not told"
                for _ in range(2):
                    await thread.load(last=10)
                    await store.thread(id).load(last=10)
        assert seen == ([("message_shape_unknown", id)] if message in unknown else [])


@case
async def a_shape_that_is_none_is_refused(h: StoreHarness) -> None:
    wrong: tuple[Any, ...] = ("user", {}, ())
    for each in wrong:
        with raises(InvalidInput):
            h.store(shape=each)

        def wrongly(message: Any, answer: Any = each) -> Any:
            return answer

        async with h.store(shape=wrongly) as store:
            await store.thread("t").append({"n": 1})
            with raises(InvalidInput):
                await store.thread("t").load(last=1)
            assert (await store.thread("t").load()).messages
            await store.thread("t").delete()


@case
async def a_conversation_of_many_shapes_is_read_in_one(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread(h.new_id())
        await thread.append(
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "where is it?"},
            {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "in the van"},
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "in the van"}]},
        )
        read = await thread.messages_as("anthropic")
        assert read.system == "be kind"
        assert [message["role"] for message in read.messages] == [
            *("user", "assistant", "user", "assistant")
        ]
        assert [(lost.number, lost.part, lost.what) for lost in read.lost] == [(5, 1, "thinking")]
        await thread.append({"role": "user", "content": "thanks"})
        last = await thread.messages_as("openai", turns=1)
        assert [message["content"] for message in last.messages] == ["be kind", "thanks"]
        assert (await store.thread(h.new_id()).messages_as("gemini")).messages == []
        with raises(InvalidInput):
            await thread.messages_as("cohere")  # type: ignore[arg-type]
