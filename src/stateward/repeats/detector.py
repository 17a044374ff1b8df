"""A listener that notices lost context as it happens, counts it and logs `context_break`."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stateward.records import Shaper
from stateward.repeats.facts import Fact, state_facts
from stateward.repeats.find import (
    THRESHOLD,
    WINDOW,
    EmbedFunction,
    JudgeFunction,
    Models,
    checked_messages,
    checked_shape,
    plain_state,
)
from stateward.repeats.history import History, Repeat
from stateward.state.thread_listener import ThreadListener

logger = logging.getLogger("stateward.context")

THREADS = 1_000
DEFAULT = "default"  # the namespace of a store opened without one

Name = tuple[str, str]  # of a conversation or a user: namespace and id


class RepeatDetector(ThreadListener):
    """Follows many conversations at the same time, each over its last `window` messages.

        store = stateward.open("sqlite:///agents.db", listener=RepeatDetector())

    Every repeat is counted in `counts` by kind, logged as `context_break` (ids and numbers, never
    what was said), and passed to `on_repeat(namespace, thread, repeat)`. It remembers the `threads`
    conversations used last, and forgets what is edited, deleted or erased; one that it does not
    know begins where it first sees it. Several stores and threads may use one detector:
    namespaces are kept apart. It reads messages as the store's own `shape=` does, or as its own.
    """

    def __init__(
        self,
        *,
        embed: EmbedFunction | None = None,
        judge: JudgeFunction | None = None,
        on_repeat: Callable[[str, str, Repeat], object] | None = None,
        threshold: float = THRESHOLD,
        like: float | None = None,
        window: int = WINDOW,
        threads: int = THREADS,
        shape: Shaper | None = None,
    ) -> None:
        self._models = Models(embed, judge)
        self._models.history(window, like)  # refuse a wrong window here, not at the first message
        self._window, self._like, self._threshold, self._most = window, like, threshold, threads
        self._on_repeat = on_repeat
        self.shape = checked_shape(shape)
        self._followed: OrderedDict[Name, _Followed] = OrderedDict()
        self._users: OrderedDict[Name, list[Fact]] = OrderedDict()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def know(self, user: str, state: Mapping[str, Any], *, namespace: str = DEFAULT) -> None:
        """Remember the state of a user: from now on, asking for a value in it is a repeat.

        Pass the user's part of `store.context()`: `detector.know(id, context.user)`.
        """
        facts = state_facts(plain_state(state, "state"))
        with self._lock:
            self._users[namespace, user] = facts
            self._users.move_to_end((namespace, user))
            while len(self._users) > self._most:
                self._users.popitem(last=False)

    def prime(
        self, thread: str, messages: Sequence[Mapping[str, Any]], *, namespace: str = DEFAULT
    ) -> None:
        """Remember messages as a conversation's history so far, and report no repeats in them.

        Useful when a process continues a conversation from elsewhere. No model is called.
        """
        messages = checked_messages(messages, self.shape)
        plain = Models(None, None)
        with self._lock:
            followed = self._begin((namespace, thread))
            followed.history.models(embeds=False, judges=False)
            for message in messages:
                plain.run(followed.history.add(message, followed.next()))
            self._models.serve(followed.history)

    def feed(
        self,
        thread: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        user: str | None = None,
        namespace: str = DEFAULT,
    ) -> list[Repeat]:
        """Take a conversation's next messages, and return the repeats among them.

        `user` is the id that `know` was called with. Indexes count from where the detector first
        saw the conversation.
        """
        return self._feed((namespace, thread), user, messages)

    async def feed_async(
        self,
        thread: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        user: str | None = None,
        namespace: str = DEFAULT,
    ) -> list[Repeat]:
        """`feed` for an `embed` or `judge` that is async. Feed one conversation one at a time."""
        messages = checked_messages(messages, self.shape)
        with self._lock:
            followed = self._follow((namespace, thread), user)
        repeats = []
        for message in messages:
            plan = followed.history.add(message, followed.next())
            repeats += await self._models.run_async(plan)
        return self._report((namespace, thread), repeats)

    # --- called by a store ----------------------------------------------------------

    def appended(
        self,
        namespace: str,
        thread: str,
        user: str | None,
        messages: Sequence[Mapping[str, Any]],
        version: int,
    ) -> list[Repeat]:
        """Take in appended messages. A thread that is shorter than before was restarted."""
        return self._feed((namespace, thread), user, messages, version)

    def edited(self, namespace: str, thread: str) -> None:
        """Forget the conversation: a removed message may be one that the detector remembers."""
        self.deleted(namespace, thread)

    def deleted(self, namespace: str, thread: str) -> None:
        """Forget the conversation."""
        with self._lock:
            self._followed.pop((namespace, thread), None)

    def erased(self, namespace: str, user: str) -> None:
        """Forget the user, and every conversation of the user."""
        with self._lock:
            self._users.pop((namespace, user), None)
            for name, followed in list(self._followed.items()):
                if name[0] == namespace and followed.user == user:
                    del self._followed[name]

    # --- inside ---------------------------------------------------------------------

    def _feed(
        self,
        thread: Name,
        user: str | None,
        messages: Sequence[Mapping[str, Any]],
        version: int | None = None,
    ) -> list[Repeat]:
        messages = checked_messages(messages, self.shape)
        with self._lock:
            followed = self._follow(thread, user)
            if version is not None:
                if version - len(messages) < followed.version:
                    self._begin(thread)
                    followed = self._follow(thread, user)
                followed.version = version
            repeats = [
                repeat
                for message in messages
                for repeat in self._models.run(followed.history.add(message, followed.next()))
            ]
        return self._report(thread, repeats)

    def _follow(self, thread: Name, user: str | None) -> _Followed:
        followed = self._followed.get(thread) or self._begin(thread)
        self._followed.move_to_end(thread)
        if user is not None:
            followed.user = user
            state = self._users.get((thread[0], user))
            if state is not None:
                followed.history.know(state)
        return followed

    def _begin(self, thread: Name) -> _Followed:
        followed = _Followed(self._models.history(self._window, self._like))
        self._followed[thread] = followed
        while len(self._followed) > self._most:
            self._followed.popitem(last=False)
        return followed

    def _report(self, thread: Name, found: list[Repeat]) -> list[Repeat]:
        namespace, id_ = thread
        sure = [repeat for repeat in found if repeat.score >= self._threshold]
        with self._lock:
            self.counts.update(repeat.kind for repeat in sure)
        for repeat in sure:
            logger.warning(
                "context_break",
                extra={
                    "event": "context_break",
                    "namespace": namespace,
                    "thread_id": id_,
                    "kind": repeat.kind,
                    "at": repeat.at,
                    "earlier": repeat.earlier,
                    "score": repeat.score,
                },
            )
            if self._on_repeat is not None:
                self._on_repeat(namespace, id_, repeat)
        return sure


class _Followed:
    """A conversation, and the number of its messages seen so far."""

    user: str | None = None
    version = 0  # messages of the thread, as last reported by a store

    def __init__(self, history: History) -> None:
        self.history = history
        self._seen = 0

    def next(self) -> int:
        self._seen += 1
        return self._seen - 1
