"""Conversations as agents have them, made from a seed: nested and parallel tool calls, crashes."""

from __future__ import annotations

from random import Random
from typing import Any

Message = dict[str, Any]

WORDS = ("the order", "refund", "was", "sent to a customer", "Lisbon", "流程", "état", "42", "{ok}")


class Maker:
    """One conversation of one shape."""

    def __init__(self, seed: int, shape: str) -> None:
        self.random = Random(f"{shape} {seed}")
        self.shape = shape
        self.ids = 0
        self.reuses_ids = self.random.random() < 0.2  # some models number calls within a turn

    def conversation(self, *, crashes: float = 0.0) -> list[Message]:
        """Whole turns; with `crashes`, some end in the middle of a tool call."""
        messages: list[Message] = []
        if self.shape.startswith("openai") and self.random.random() < 0.5:
            messages += [
                {"role": self.random.choice(("system", "developer")), "content": self.text()}
                for _ in range(self.random.choice((1, 1, 2, 5)))
            ]
        for _ in range(self.random.randrange(1, 9)):
            messages += self.turn(crashed=self.random.random() < crashes)
        return messages

    def text(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.choice((1, 4, 12, 40))))

    def new_id(self) -> str:
        self.ids += 1
        return f"call_{self.ids}"

    def turn(self, *, crashed: bool) -> list[Message]:
        if self.reuses_ids:
            self.ids = 0
        messages = [self.said("user")]
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3, 8))):
            messages += self.step(self.random.choice((1, 1, 1, 2, 3, 5)))
        if not crashed:
            return [*messages, *self.answer()]
        step = self.step(self.random.choice((1, 2, 3)))
        alone = self.shape in ("anthropic", "bedrock") or len(step) < 3
        return messages + step[: 1 if alone else self.random.randrange(1, len(step) - 1)]

    def said(self, role: str) -> Message:
        text = self.text()
        if self.shape == "bedrock":
            return {"role": role, "content": [{"text": text}]}
        if self.shape == "anthropic" and (role == "assistant" or self.random.random() < 0.5):
            return {"role": role, "content": [{"type": "text", "text": text}]}
        return {"role": role, "content": text}

    def answer(self) -> list[Message]:
        answer = self.said("assistant")
        if self.shape != "openai_responses" or self.random.random() < 0.5:
            return [answer]
        return self.reasoned([answer | {"type": "message"}])

    def reasoned(self, items: list[Message]) -> list[Message]:
        id = f"rs_{self.random.random()}"
        reasoning = {"type": "reasoning", "id": id, "summary": []}
        return [reasoning, *(item | {"made_by": id, "reasoned": True} for item in items)]

    def step(self, calls: int) -> list[Message]:
        ids = [self.new_id() for _ in range(calls)]
        order = self.random.sample(ids, calls)
        return getattr(self, f"_{self.shape}_step")(ids, order)

    def _openai_chat_step(self, ids: list[str], order: list[str]) -> list[Message]:
        calls = [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for id in ids
        ]
        return [
            {"role": "assistant", "content": None, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": id, "content": self.text()} for id in order),
        ]

    def _openai_responses_step(self, ids: list[str], order: list[str]) -> list[Message]:
        kind = self.random.choice(("function_call", "function_call", "custom_tool_call"))
        calls: list[Message] = [{"type": kind, "call_id": id, "name": "f"} for id in ids]
        if self.random.random() < 0.5:
            calls = self.reasoned(calls)
        outputs: list[Message] = [
            {"type": f"{kind}_output", "call_id": id, "output": self.text()} for id in order
        ]
        if len(ids) > 1 and self.random.random() < 0.3:  # a call within a call
            inner = self.new_id()
            outputs.insert(1, {"type": "function_call", "call_id": inner, "name": "g"})
            outputs.insert(
                2, {"type": "function_call_output", "call_id": inner, "output": self.text()}
            )
        return calls + outputs

    def _anthropic_step(self, ids: list[str], order: list[str]) -> list[Message]:
        blocks: list[Message] = [
            {"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids
        ]
        if self.random.random() < 0.5:
            blocks.insert(0, {"type": "text", "text": self.text()})
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": self.text()} for id in order
        ]
        if len(ids) > 1 and self.random.random() < 0.3:  # results in several messages
            answers = [results[:1], results[1:]]
        else:
            answers = [results]
        return [
            {"role": "assistant", "content": blocks},
            *({"role": "user", "content": part} for part in answers),
        ]

    def _bedrock_step(self, ids: list[str], order: list[str]) -> list[Message]:
        return [
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": id, "name": "f", "input": {}}} for id in ids],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": id, "content": [{"text": self.text()}]}}
                    for id in order
                ],
            },
        ]
