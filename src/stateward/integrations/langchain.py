"""LangChain: `pip install 'stateward[langchain]'`.

    def history(session_id: str) -> StatewardChatMessageHistory:
        return StatewardChatMessageHistory(store, session_id, turns=20)

    chain = RunnableWithMessageHistory(model, history)

A session is a Stateward thread: every message is one of its messages, kept as LangChain's
`message_to_dict` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from stateward import sync
from stateward.codec import Retention, check_key
from stateward.integrations.adapter import AnyStore, OnAnyStore
from stateward.integrations.extras import extra
from stateward.integrations.window_options import WindowOptions, checked_window
from stateward.layers.outage.answers import Suppressed
from stateward.ops import KeyReused
from stateward.owner import UNSAID, Unsaid, Whose
from stateward.shapes import translate
from stateward.state.conversation_life import Life
from stateward.state.receipts import life_of
from stateward.state.refusals import stored
from stateward.state.window_record import Window

with extra("langchain", "StatewardChatMessageHistory needs LangChain"):
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.documents import Document
    from langchain_core.load import dumpd
    from langchain_core.load.load import Reviver
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolMessage,
        messages_from_dict,
    )
    from langchain_core.runnables import ensure_config

ESCAPED = "__lc_escaped__"  # wraps data that looks like a serialized object of LangChain


class StatewardChatMessageHistory(OnAnyStore, BaseChatMessageHistory):
    """A conversation of LangChain, kept in a store. Making one asks the store nothing.

    Make one for each run. A run of `RunnableWithMessageHistory` adds its question and its answer
    together, once the model has answered; what others add in the meantime is not lost.
    With `key`, the name of the request, a run that is repeated adds nothing more.

    A store of `stateward.sync.open` serves both `invoke` and `ainvoke`; one of `stateward.open`
    serves `ainvoke` alone. Messages added while the store does not answer are kept locally as its
    policy says; reading then raises `StoreUnavailable`, never an empty history.

    `last`, `turns`, `max_tokens` (by `count`) and `summarize` bound what a run gets to see, as
    `Thread.load` does it: tool calls and their results stay together.
    """

    def __init__(
        self,
        store: AnyStore,
        session_id: str,
        *,
        user: Whose = UNSAID,
        key: str | None = None,
        retain: Retention | Unsaid = UNSAID,
        **window: Unpack[WindowOptions],
    ) -> None:
        self._bounds = checked_window(**window)
        if key is not None:
            check_key(key, "first")
        self.session_id = session_id
        super().__init__(store)
        self._thread = self._store.thread(session_id, user=user, retain=retain)
        self._key = key
        self._added = 0
        self._given: list[BaseMessage] | None = None  # the history that the run has read
        self._life: Life | None = None  # of the conversation that was read
        self._reused = False

    @staticmethod
    def _open(url: str | None, options: Mapping[str, Any]) -> Any:
        return sync.open(url, **options)

    def close(self) -> None:  # type: ignore[override] # its store is a blocking one
        """Let go of a store that `from_url` opened; one that was passed in is left alone."""
        if self._owned:
            self._store.close()

    # --- what LangChain calls -------------------------------------------------------

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override] # no one may set it
        """Return the history, oldest message first."""
        return self._block(self.aget_messages())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages to the end, adjacent, all or none."""
        self._block(self.aadd_messages(messages))

    def clear(self) -> None:
        """Remove the conversation; a missing one is ignored."""
        self._block(self.aclear())

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the history, oldest message first."""
        messages = self._given_before()
        if messages is None:
            window = await self._call(self._thread.load, **self._bounds)
            self._life = life_of(window)
            messages = self._seen(window)
        return messages

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages to the end, adjacent, all or none."""
        if messages:
            handle, key = self._thread.handle, self._next_key()
            bodies = handle.redacted([*map(as_dict, messages)])
            how = {"keep": True, "takes_first": True, "life": self._life}
            outcome = await self._call(handle.append, bodies, key, **how)
            if not isinstance(outcome, Suppressed | KeyReused):  # `KeyReused`: added before
                stored(outcome, handle.entity)
            self._was_added()

    async def aclear(self) -> None:
        """Remove the conversation; a missing one is ignored."""
        await self._call(self._thread.delete)
        self._given = self._life = None

    # --- runs -----------------------------------------------------------------------

    def _in_run(self) -> bool:
        return ensure_config()["configurable"].get("message_history") is self

    def _given_before(self) -> list[BaseMessage] | None:
        """Return the messages that this run has read already: at its end it reads again, to count.

        A run cuts off the number of messages that it has read: a message added in between would
        make the run lose its question. An object for several runs cannot tell them apart.
        """
        if self._given is None or self._reused or not self._in_run():
            return None
        return self._given.copy()

    def _seen(self, window: Window) -> list[BaseMessage]:
        messages, pinned = window.messages, window.pinned
        if window.summary is None:
            history = as_messages(messages)
        else:
            summary = SystemMessage(window.summary)
            history = [*as_messages(messages[:pinned]), summary, *as_messages(messages[pinned:])]
        if self._in_run():
            self._given = history.copy()
        return history

    def _next_key(self) -> str | None:
        if self._key is None or not self._added:
            return self._key
        return f"{self._key} {self._added + 1}"

    def _was_added(self) -> None:
        self._added += 1
        self._reused = self._reused or self._in_run()
        self._given = None


# --- messages -----------------------------------------------------------------------------------


def as_dict(message: BaseMessage) -> dict[str, Any]:
    """Return a message in its stored form: LangChain's `message_to_dict`, as plain JSON.

    A tool's `artifact` for the application is stored if it is JSON, documents or messages;
    of any other artifact its description is stored.
    """
    data = message.model_dump()
    if "artifact" in data:
        data["artifact"] = getattr(message, "artifact", None)
    stored: dict[str, Any] = dumpd({"type": message.type, "data": data})
    return stored


def as_messages(stored: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    """Return stored messages as LangChain's; those of other frameworks are translated."""
    if not all(is_own(message) for message in stored):
        stored = translate(stored, "langchain").messages
    return messages_from_dict([_revived(message) for message in stored])


def is_own(message: Mapping[str, Any]) -> bool:
    """Return whether a message was stored by LangChain."""
    return isinstance(message.get("type"), str) and isinstance(message.get("data"), dict)


_revive = Reviver(allowed_objects=[Document, AIMessage, HumanMessage, SystemMessage, ToolMessage])


def _revived(value: Any) -> Any:
    if isinstance(value, list):
        return [_revived(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {ESCAPED}:
        return value[ESCAPED]
    revived = {name: _revived(each) for name, each in value.items()}
    try:
        return _revive(revived)
    except (ValueError, NotImplementedError):  # an unknown class: return its fields
        return revived
