"""An offline model and workflow of Microsoft's Agent Framework."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Executor,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
)

Step = Content | str | BaseException | Callable[[], Awaitable[str]]


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc,type-arg]
    """Says one thing after the other, and remembers what it was shown."""

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.steps = list(steps)
        self.seen: list[list[Message]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Any, **kwargs: Any
    ) -> Any:
        if stream:
            return ResponseStream(self._updates(messages), finalizer=ChatResponse.from_updates)

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [await self._next(messages)])])

        return answer()

    async def _updates(self, messages: Sequence[Message]) -> AsyncIterator[ChatResponseUpdate]:
        said = await self._next(messages)
        contents = [said if isinstance(said, Content) else Content.from_text(said)]
        yield ChatResponseUpdate(role="assistant", contents=contents)

    async def _next(self, messages: Sequence[Message]) -> Content | str:
        self.seen.append(list(messages))
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step if isinstance(step, Content | str) else await step()


def calls(name: str, id: str = "call-1", **arguments: Any) -> Content:
    return Content.from_function_call(id, name, arguments=arguments)


def agent(history: Any, *steps: Step, tools: Sequence[Any] = ()) -> Agent[Any]:
    return Agent(ScriptedClient(*steps), name="waiter", context_providers=[history], tools=[*tools])


class Stage(Executor):
    """Passes on what it was told with its own name behind it; counts how often it was asked."""

    def __init__(self, id: str, before: Callable[[], None] = lambda: None) -> None:
        super().__init__(id=id)
        self.asked = 0
        self._before = before

    @handler
    async def pass_on(self, told: str, context: WorkflowContext[str, str]) -> None:
        self._before()
        self.asked += 1
        context.set_state("log", [*(context.get_state("log") or []), self.id])
        if self.id == "serve":
            await context.yield_output(f"{told} {self.id}")
        else:
            await context.send_message(f"{told} {self.id}")

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"asked": self.asked}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.asked = state["asked"]


def kitchen(before_grill: Callable[[], None] = lambda: None) -> Workflow:
    """Three stages, one superstep each."""
    stages = [Stage("order"), Stage("grill", before_grill), Stage("serve")]
    built = WorkflowBuilder(name="kitchen", start_executor=stages[0])
    return built.add_edge(stages[0], stages[1]).add_edge(stages[1], stages[2]).build()
