"""Conversations by their keys, and the record of their archived messages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

from llama_index.core.bridge.pydantic import BaseModel, PrivateAttr
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.storage.chat_store.base_db import MessageStatus

from stateward import sync
from stateward.codec import Retention, decode, encode
from stateward.integrations.adapter import OnAnyStore
from stateward.integrations.recent import Recent
from stateward.layers.outage.answers import Suppressed
from stateward.ops import CommitsAt, Conflict, Head, Outcome, Put
from stateward.owner import UNSAID, Unsaid, Whose
from stateward.records import Change
from stateward.shapes import translate
from stateward.state.conversation_life import Life
from stateward.state.receipts import life_of
from stateward.state.refusals import deleted, stored

T = TypeVar("T")
S = TypeVar("S", bound="OnChats")
P = ParamSpec("P")

REMEMBERED = 1024  # conversations whose life is known: those read last
ARCHIVED = "llama-index archived"  # the document that lists the archived messages of a thread


class Chats(OnAnyStore):
    """The conversations of a store by their keys, for both of LlamaIndex's interfaces."""

    def __init__(self, store: Any, *, user: Whose = UNSAID, retain: Any = UNSAID) -> None:
        super().__init__(store)
        self.user = user
        self._retain = retain
        self._lives: Recent[str, Life | None] = Recent(REMEMBERED)  # that were read here, by key

    @staticmethod
    def _open(url: str | None, options: Mapping[str, Any]) -> Any:
        return sync.open(url, **options)  # LlamaIndex also calls from blocking code

    def thread(self, key: str) -> Any:
        return self._store.thread(key, user=self.user, retain=self._retain)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Carry out a method of LlamaIndex from blocking code."""
        return self._block(call)

    def close_own(self) -> None:
        if self._owned:
            self._store.close()

    async def keys(self) -> list[str]:
        listing = self._store.threads(self.user, archived=None)
        return [info.id async for info in self._each(listing)]

    async def entries(self, key: str, after: int = 0) -> list[Change]:
        """Return the messages after a place, with their numbers."""
        window = await self._call(self.thread(key).load, after=after, entries=True)
        self._lives[key] = life_of(window)
        return list(window.entries)

    async def append(self, key: str, messages: Sequence[ChatMessage]) -> int:
        """Append messages, and return the number of the last one; 0: stored locally for now.

        A message of a user may start a chat. Others answer the chat that was read last: if that
        was deleted since, raises `ConversationDeletedError`.
        """
        if messages[0].role == MessageRole.USER:
            self._lives.pop(key, None)
        handle, bodies = self.thread(key).handle, [*map(as_stored, messages)]
        outcome = await self._call(handle.append, bodies, keep=True, life=self._lives.get(key))
        if isinstance(outcome, Suppressed):
            return 0
        return stored(outcome, handle.entity).version

    async def replace(self, key: str, messages: Sequence[ChatMessage]) -> int:
        """Replace all messages; raises as `append` if the conversation was deleted since."""
        life = self._lives.get(key)
        if life is not None and life.is_over(
            (await self._call(self.thread(key).handle.fetch)).head
        ):
            raise deleted(self.thread(key).handle.entity)
        replaced = await self._call(self.thread(key).replace, [*map(as_stored, messages)])
        version: int = replaced.version
        return version

    async def remove(self, key: str, numbers: Sequence[int]) -> list[Change]:
        """Remove messages, and return those that this call has removed."""
        if not numbers:
            return []
        removed: list[Change] = await self._call(self.thread(key).edit, dict.fromkeys(numbers))
        return removed

    async def delete(self, key: str) -> None:
        await self._call(self.thread(key).delete)

    async def exists(self, key: str) -> bool:
        head: Head = (await self._call(self.thread(key).handle.fetch)).head
        return head.exists

    async def newest(self, key: str) -> list[Change]:
        window = await self._call(self.thread(key).load, last=1, exact=True, entries=True)
        return list(window.entries)

    # --- archived messages ------------------------------------------------

    async def of_status(self, key: str, status: MessageStatus | None) -> list[Change]:
        """Return the messages of a status, or all. Reading active ones skips the archived ones."""
        if status is None:
            return await self.entries(key)
        _, marks = await self._marks(key)
        if status == MessageStatus.ACTIVE:
            return [each for each in await self.entries(key, marks.upto) if marks.leave(each)]
        return [each for each in await self.entries(key) if not marks.leave(each)]

    async def archive(self, key: str, count: int) -> list[Change]:
        """Archive the oldest active messages, and return those that this call has archived."""
        while True:
            head, marks = await self._marks(key)
            entries = await self.entries(key, marks.upto)
            active = [each for each in entries if marks.leave(each)]
            chosen, rest = active[:count], active[count:]
            if not chosen:
                return []
            upto = rest[0].version - 1 if rest else entries[-1].version
            besides = [number for number in marks.besides if number > upto]
            outcome = await self._put(key, Archived(upto, besides), head)
            if not isinstance(outcome, Conflict):
                return chosen

    async def append_archived(self, key: str, messages: Sequence[ChatMessage]) -> None:
        while True:
            head, marks = await self._marks(key)
            new = range(head.version + 1, head.version + 1 + len(messages))
            put = Put(ARCHIVED, Archived(marks.upto, [*marks.besides, *new]).json)
            handle, unchanged = self.thread(key).handle, (CommitsAt(head.commits),)
            bodies = [*map(as_stored, messages)]
            outcome = await self._call(handle.append, bodies, None, unchanged, (put,), keep=False)
            if not isinstance(outcome, Conflict):
                stored(outcome, handle.entity)
                return

    async def archive_all(self, key: str, upto: int) -> None:
        """Archive all messages up to a number."""
        stored(await self._put(key, Archived(upto, [])), self.thread(key).handle.entity)

    async def _marks(self, key: str) -> tuple[Head, Archived]:
        fetched = await self._call(self.thread(key).handle.fetch, documents=(ARCHIVED,))
        value = fetched.documents.get(ARCHIVED)
        return fetched.head, Archived(0, []) if value is None else Archived(**decode(value.json))

    async def _put(self, key: str, marks: Archived, at: Head | None = None) -> Outcome:
        checks = () if at is None else (CommitsAt(at.commits),)
        handle = self.thread(key).handle
        outcome: Outcome = await self._call(handle.commit, (Put(ARCHIVED, marks.json),), checks)
        if not isinstance(outcome, Conflict):
            stored(outcome, handle.entity)
        return outcome


class Archived(NamedTuple):
    """The archived messages: all up to a number, and further ones."""

    upto: int
    besides: list[int]

    @property
    def json(self) -> str:
        return encode(self._asdict(), "what is archived")

    def leave(self, entry: Change) -> bool:
        """Return whether a message is still active."""
        return entry.version > self.upto and entry.version not in self.besides


def as_stored(message: ChatMessage) -> dict[str, Any]:
    dumped: dict[str, Any] = message.model_dump(mode="json")
    return dumped


def as_given(changes: Sequence[Change]) -> list[ChatMessage]:
    """Return stored messages as LlamaIndex's; those of other frameworks are translated."""
    own = translate([change.message for change in changes], "llama-index").messages
    return [ChatMessage.model_validate(message) for message in own]


class OnChats(BaseModel):
    """The common part of LlamaIndex's interfaces: a store with its owner and its end."""

    _chats: Chats = PrivateAttr()

    def __init__(
        self, store: Any, *, user: Whose = UNSAID, retain: Retention | Unsaid = UNSAID
    ) -> None:
        super().__init__()
        is_chats = isinstance(store, Chats)
        self._chats = store if is_chats else Chats(store, user=user, retain=retain)

    @classmethod
    def from_url(cls, url: str | None = None, **options: Any) -> Self:
        """Open a store at this URL: close it. `options` are also those of `stateward.open`."""
        return cls(Chats.from_url(url, **options))

    def close(self) -> None:
        """Let go of a store that `from_url` opened; one that was passed in is left alone."""
        self._chats.close_own()


def in_blocking_code(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """Return the blocking version of an async method of LlamaIndex."""

    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._chats.run(method(self, *args, **kwargs))

    return update_wrapper(call, method)
