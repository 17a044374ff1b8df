"""What users write, as their type checkers see it. Nothing here is run.

A line that ends with `# wrong` must be refused by mypy and by pyright, every other accepted.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict, assert_type

import msgspec
import pydantic
from anthropic.types import MessageParam
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionUserMessageParam
from openai.types.responses import EasyInputMessageParam

import stateward
from stateward import sync


@dataclasses.dataclass
class Preferences:
    theme: str = "light"


class Model(pydantic.BaseModel):
    theme: str = "light"


class Struct(msgspec.Struct):
    theme: str = "light"


class Typed(TypedDict):
    theme: str


async def charge(order: str, cents: int = 0, *, note: str = "") -> list[int]:
    return [len(order) + len(note), cents]


def lookup(order: str) -> dict[str, int]:
    return {order: 1}


async def messages(
    store: stateward.Store,
    chat: ChatCompletionMessageParam,
    chats: list[ChatCompletionMessageParam],
    claude: MessageParam,
    response: EasyInputMessageParam,
) -> None:
    thread = store.thread("t")
    question: ChatCompletionUserMessageParam = {"role": "user", "content": "hi"}
    await thread.append(chat, claude, response, question)
    await thread.append(*chats)
    await thread.append({"role": "user", "content": "hi"}, key="k")
    await thread.append(Struct(), Preferences())
    await thread.append("hi")  # type: ignore[arg-type]  # wrong
    window = await thread.load(last=20)
    assert_type(window.messages, list[dict[str, Any]])
    assert_type(window.as_type(Preferences), list[Preferences])


async def turns(store: stateward.Store, chat: ChatCompletionMessageParam) -> None:
    thread = store.thread("t", user="u")
    async with thread.turn(key="request-1", last=20, alone=True, context=True) as turn:
        assert_type(turn, stateward.Turn)
        assert_type(turn.messages, list[dict[str, Any]])
        assert_type(turn.window, stateward.Window | None)
        assert_type(turn.known, bool)
        if turn.answer is None:
            said = await turn.store(chat, Struct(), expect=turn.window)
            assert_type(said, stateward.Appended)
    assert_type(turn.answer, dict[str, Any] | None)
    await thread.append(chat, key="k", repeat="first")
    await thread.append(chat, key="k", repeat="last")  # type: ignore[arg-type]  # wrong
    thread.turn()  # type: ignore[call-arg]  # wrong


async def documents(store: stateward.Store) -> None:
    user = store.user("u")
    assert_type((await user.get()).value, dict[str, Any])
    assert_type((await user.document("prefs").get()).value, dict[str, Any])
    prefs = user.document("prefs", Preferences)
    found = await prefs.get()
    assert_type(found, stateward.Document[Preferences])
    assert_type(found.value.theme, str)
    await prefs.put(Preferences("dark"), expect=found)
    await prefs.update(lambda value: dataclasses.replace(value, theme="dark"))
    await prefs.put({"theme": "dark"})  # type: ignore[arg-type]  # wrong
    await prefs.update(lambda value: value.colour)  # type: ignore[attr-defined]  # wrong
    assert_type((await user.document("m", Model).get()).value, Model)
    assert_type((await user.document("s", Struct).get()).value, Struct)
    assert_type((await user.document("t", Typed).get()).value["theme"], str)
    await user.document("t", Typed).put({"theme": "dark"})


async def work(store: stateward.Store, run: stateward.Run) -> None:
    assert_type(await store.once("a", charge, "o", 7, note="n"), list[int])
    assert_type(await store.once("a", charge, "o", ttl=5.0, wait=1.0), list[int])
    assert_type(await store.once("a", lookup, "o", user="u"), dict[str, int])
    assert_type(await store.once("a", lambda: 3), int)
    await store.once("a", charge, 7)  # type: ignore[arg-type]  # wrong
    await store.once("a", lookup, "o", "p")  # type: ignore[call-arg, arg-type]  # wrong
    await store.once("a", lookup, "o", til=3)  # type: ignore[call-arg, arg-type]  # wrong
    assert_type(await run.step("a", charge, "o", note="n"), list[int])
    assert_type(await run.step("a", charge, "o", retries=3), list[int])
    assert_type(await run.step("a", lookup, "o", retries=3), dict[str, int])
    await run.step("a", charge, 7)  # type: ignore[call-overload]  # wrong


def blocking(store: sync.Store, run: sync.Run, chat: ChatCompletionMessageParam) -> None:
    store.thread("t").append(chat)
    assert_type(store.user("u").document("prefs", Preferences).get().value, Preferences)
    assert_type(store.once("a", lookup, "o", ttl=5.0), dict[str, int])
    assert_type(run.step("a", lookup, "o"), dict[str, int])
    store.once("a", lookup, 7)  # type: ignore[arg-type]  # wrong
