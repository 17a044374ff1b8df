"""A framework's session over the same conversation."""

from __future__ import annotations

from typing import Any

from matrix.features.feature import Feature
from matrix.program import Action, Violation


class Adapter(Feature):
    """The OpenAI Agents SDK reads and writes what the library does."""

    def actions(self) -> list[Action]:
        return [self.add, self.add, self.pop, self.read]

    def _session(self, id: str, owner: str) -> Any:
        from stateward.integrations.openai_agents import StatewardSession

        return StatewardSession(self.program.store, id, user=owner)

    async def add(self) -> str:
        talk = self.program.pick()
        item = {"role": "user", "content": self.program.new("item ")}
        await self._session(talk.id, talk.owner).add_items([item])
        self.program.appended(talk, item)
        return f"{talk.id} {item['content']}"

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
