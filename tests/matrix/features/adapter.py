"""A framework's session over the same conversation."""

from __future__ import annotations

from typing import Any

from matrix.features.feature import Feature
from matrix.program import Action, Program, Talk, Violation, refused
from stateward.errors import ConversationDeletedError


class Adapter(Feature):
    """The OpenAI Agents SDK reads and writes what the library does."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.runs: list[tuple[Talk, int, Any]] = []  # that have read the conversation

    def actions(self) -> list[Action]:
        return [self.add, self.add, self.pop, self.read, self.begin_run, self.end_run, self.end_run]

    def _session(self, id: str, owner: str, **options: Any) -> Any:
        from stateward.integrations.openai_agents import StatewardSession

        return StatewardSession(self.program.store, id, user=owner, **options)

    def _item(self) -> dict[str, Any]:
        return {"role": "user", "content": self.program.new("item ")}

    async def add(self) -> str:
        talk, item = self.program.pick(), self._item()
        await self._session(talk.id, talk.owner).add_items([item])
        self.program.appended(talk, item)
        return f"{talk.id} {item['content']}"

    async def begin_run(self) -> str | None:
        talk = self.program.existing()
        if talk is None or self.program.cut_off:
            return None
        session = self._session(talk.id, talk.owner, conflict="append")
        await session.get_items()
        self.runs.append((talk, talk.life, session))
        return talk.id

    async def end_run(self) -> str | None:
        if not self.runs or self.program.cut_off:
            return None
        talk, life, session = self.runs.pop(0)
        item = self._item()
        if talk.life != life:
            with refused("a run that was begun before a deletion", ConversationDeletedError):
                await session.add_items([item])
            await self.program.taken_back(talk)
            return f"{talk.id} is refused: it had ended"
        await session.add_items([item])
        self.program.appended(talk, item)
        return f"{talk.id} {item['content']}"

    def restarted(self) -> None:
        self.runs.clear()

    async def pop(self) -> str | None:
        talk = self.program.existing()
        if talk is None or not talk.entries:
            return None
        newest = max(talk.entries)
        item = await self._session(talk.id, talk.owner).pop_item()
        if item is None or item["content"] != talk.entries[newest]["content"]:
            raise Violation(f"{item} was taken from {talk.id} instead of {talk.entries[newest]}")
        del talk.entries[newest]
        return f"{talk.id} {newest}"

    async def read(self) -> str:
        talk = self.program.pick()
        items = await self._session(talk.id, talk.owner).get_items()
        contents = [message["content"] for message in talk.entries.values()]
        if [item["content"] for item in items] != contents:
            raise Violation(f"the session reads {items} from {talk.id}")
        return talk.id
