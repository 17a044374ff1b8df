"""`find_repeats`: a whole conversation in one call, blocking or async."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from stateward.codec import shown
from stateward.context.tool_pairs import seen_as
from stateward.errors import InvalidInput
from stateward.records import Shaper
from stateward.repeats.facts import since_told, state_facts
from stateward.repeats.history import LIKE, Embed, History, Plan, Repeat, Request
from stateward.repeats.messages import speaker, text_of
from stateward.repeats.words import clipped

Vectors = Sequence[Sequence[float]]
EmbedFunction = Callable[[list[str]], Vectors | Awaitable[Vectors]]
JudgeFunction = Callable[[str, str], bool | float | Awaitable[bool | float]]

THRESHOLD = 0.5
WINDOW = 200


class Models:
    """The caller's own functions, if any, and the checks of their answers."""

    def __init__(self, embed: EmbedFunction | None, judge: JudgeFunction | None) -> None:
        for name, function in (("embed", embed), ("judge", judge)):
            if function is not None and not callable(function):
                raise InvalidInput(f"{name}= is a function, not {shown(function)}")
        self.embed, self.judge = embed, judge

    def call(self, request: Request) -> Any:
        if isinstance(request, Embed):
            assert self.embed is not None
            return self.embed(list(request.texts))
        assert self.judge is not None
        return self.judge(request.question, request.earlier)

    def checked(self, request: Request, answer: Any) -> Any:
        if isinstance(request, Embed):
            if len(answer) != len(request.texts):
                raise InvalidInput(
                    f"embed= gave {len(answer)} vectors for {len(request.texts)} texts; it must "
                    "give one for each, in their order"
                )
            return answer
        if not isinstance(answer, int | float):
            raise InvalidInput(
                f"judge= gave {shown(answer)}; it must give True or False, or a score from 0 to 1"
            )
        return answer

    def run(self, plan: Plan) -> list[Repeat]:
        """Carry a plan out with functions that answer immediately."""
        answer: Any = None
        while True:
            try:
                request = plan.send(answer)
            except StopIteration as end:
                repeats: list[Repeat] = end.value
                return repeats
            answer = self.call(request)
            if inspect.isawaitable(answer):
                if inspect.iscoroutine(answer):
                    answer.close()
                raise InvalidInput(
                    "embed= or judge= is async: await find_repeats_async(…) or "
                    "detector.feed_async(…) instead"
                )
            answer = self.checked(request, answer)

    async def run_async(self, plan: Plan) -> list[Repeat]:
        """Carry a plan out with functions of either colour."""
        answer: Any = None
        while True:
            try:
                request = plan.send(answer)
            except StopIteration as end:
                repeats: list[Repeat] = end.value
                return repeats
            answer = self.call(request)
            if inspect.isawaitable(answer):
                answer = await answer
            answer = self.checked(request, answer)

    def history(self, window: int, like: float | None) -> History:
        if like is None:
            like = getattr(self.embed, "like", LIKE)
        history = History(checked_window(window), like)
        self.serve(history)
        return history

    def serve(self, history: History) -> None:
        history.models(embeds=self.embed is not None, judges=self.judge is not None)


def find_repeats(
    messages: Sequence[Mapping[str, Any]],
    *,
    user: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    embed: EmbedFunction | None = None,
    judge: JudgeFunction | None = None,
    threshold: float = THRESHOLD,
    like: float | None = None,
    window: int = WINDOW,
    shape: Shaper | None = None,
) -> list[Repeat]:
    """Return the places where a conversation lost context, in the order of the messages.

    `user` is what the agent knows of the user at the end of these messages: slots and values,
    nested as you like, or the documents of `store.context()`. A value counts as known from where
    the user's words first have it. `before` is what was known before the first message: asking
    for any of it is a repeat from the start. `embed` turns texts into vectors, `judge` says
    whether a question asks for something settled earlier; neither is needed. Repeats below
    `threshold` are left out; `like` is the cosine from which on two vectors count as the same
    (it depends on the model: `embed.like` if the function has that, otherwise 0.72); each message
    is compared with the `window` messages before it. `shape` reads messages of a form of your own,
    as that of `stateward.open` does. Calls nothing but the functions given; what they raise comes
    through.
    """
    models = Models(embed, judge)
    history, numbered = prepare(models, messages, user, before, window, like, shape)
    repeats = [repeat for at, m in numbered for repeat in models.run(history.add(m, at))]
    return [repeat for repeat in repeats if repeat.score >= threshold]


async def find_repeats_async(
    messages: Sequence[Mapping[str, Any]],
    *,
    user: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    embed: EmbedFunction | None = None,
    judge: JudgeFunction | None = None,
    threshold: float = THRESHOLD,
    like: float | None = None,
    window: int = WINDOW,
    shape: Shaper | None = None,
) -> list[Repeat]:
    """`find_repeats` for functions that are async."""
    models = Models(embed, judge)
    history, numbered = prepare(models, messages, user, before, window, like, shape)
    repeats = [
        repeat for at, m in numbered for repeat in await models.run_async(history.add(m, at))
    ]
    return [repeat for repeat in repeats if repeat.score >= threshold]


def prepare(
    models: Models,
    messages: Sequence[Mapping[str, Any]],
    user: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None,
    window: int,
    like: float | None,
    shape: Shaper | None = None,
) -> tuple[History, list[tuple[int, Mapping[str, Any]]]]:
    history = models.history(window, like)
    numbered = list(enumerate(checked_messages(messages, checked_shape(shape))))
    spoken = [
        (at, clipped(text_of(message))) for at, message in numbered if speaker(message) == "user"
    ]
    learned = state_facts(plain_state(user, "user"))
    held = state_facts(plain_state(before, "before"))
    history.know(held + since_told(learned, spoken))
    return history, numbered


def checked_window(window: int) -> int:
    if type(window) is not int or window < 1:
        raise InvalidInput(f"window= is a number of messages, 1 or more, not {shown(window)}")
    return window


def checked_messages(
    messages: Sequence[Mapping[str, Any]], shape: Shaper | None = None
) -> Sequence[Mapping[str, Any]]:
    """Return the messages, with stand-ins for messages that have their own form."""
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise InvalidInput(
            "messages is a list of messages, as a window's `messages` has them, not "
            f"{shown(messages)}"
        )
    for at, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise InvalidInput(f"message {at} is {shown(message)}; every message is a JSON object")
    return messages if shape is None else seen_as([dict(message) for message in messages], shape)


def checked_shape(shape: Shaper | None) -> Shaper | None:
    if shape is not None and not callable(shape):
        raise InvalidInput(f"shape= is a function of a message, not {shown(shape)}")
    return shape


def plain_state(state: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    """Return slots and values; a document, as in `store.context()`, counts with its value."""
    if state is None:
        return {}
    if not isinstance(state, Mapping):
        raise InvalidInput(
            f"{name}= is a user's state, a mapping of names to values, not {shown(state)}"
        )
    return {str(name): getattr(value, "value", value) for name, value in state.items()}
