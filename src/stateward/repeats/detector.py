"""A hook on append: notices lost context as it happens, counts it and logs `context_break`."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stateward.repeats.facts import Fact, state_facts
from stateward.repeats.find import (
    THRESHOLD,
    WINDOW,
    EmbedFunction,
    JudgeFunction,
    Models,
    checked_messages,
    plain_state,
)
from stateward.repeats.history import History, Repeat

logger = logging.getLogger("stateward.context")

THREADS = 1_000


class RepeatDetector:
    """Follows many conversations at once, each over its last `window` messages.

        detector = RepeatDetector()
        store = stateward.open("sqlite:///agents.db", on_append=detector.appended)

    Every repeat is counted in `counts` by kind, logged as `context_break` (ids and numbers, never
    what was said), and passed to `on_repeat(thread, repeat)`. It remembers the `threads`
    conversations used last; one that it does not know begins where it first sees it. Several
    threads may use one detector.
    """

    def __init__(
        self,
        *,
        embed: EmbedFunction | None = None,
        judge: JudgeFunction | None = None,
        on_repeat: Callable[[str, Repeat], object] | None = None,
        threshold: float = THRESHOLD,
        like: float | None = None,
        window: int = WINDOW,
        threads: int = THREADS,
    ) -> None:
        self._models = Models(embed, judge)
        self._models.history(window, like)  # a wrong window is told here, not at the first message
        self._window, self._like, self._threshold, self._most = window, like, threshold, threads
        self._on_repeat = on_repeat
        self._followed: OrderedDict[str, _Followed] = OrderedDict()
        self._users: OrderedDict[str, list[Fact]] = OrderedDict()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def know(self, user: str, state: Mapping[str, Any]) -> None:
        """Take this as the state of a user: asking for what it holds is a repeat from now on.

        Give it what `store.context()` gave the prompt: `detector.know(id, context.user)`.
        """
        facts = state_facts(plain_state(state, "state"))
        with self._lock:
            self._users[user] = facts
            self._users.move_to_end(user)
            while len(self._users) > self._most:
                self._users.popitem(last=False)

    def prime(self, thread: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Take these as a conversation's history so far, and report nothing about them.

        For a process that goes on with a conversation it has not seen. No model is called.
        """
        checked_messages(messages)
        plain = Models(None, None)
        with self._lock:
            followed = self._begin(thread)
            followed.history.models(embeds=False, judges=False)
            for message in messages:
                plain.run(followed.history.add(message, followed.next()))
            self._models.serve(followed.history)

    def feed(
        self, thread: str, messages: Sequence[Mapping[str, Any]], *, user: str | None = None
    ) -> list[Repeat]:
        """Take a conversation's next messages; the repeats that they show.

        `user` is the id that `know` was called with. Indexes count from where the detector first
        saw the conversation.
        """
        checked_messages(messages)
        with self._lock:
            followed = self._follow(thread, user)
            found = [
                repeat
                for message in messages
                for repeat in self._models.run(followed.history.add(message, followed.next()))
            ]
        return self._report(thread, found)

    async def feed_async(
        self, thread: str, messages: Sequence[Mapping[str, Any]], *, user: str | None = None
    ) -> list[Repeat]:
        """`feed` for an `embed` or `judge` that is async. Feed one conversation one at a time."""
        checked_messages(messages)
        with self._lock:
            followed = self._follow(thread, user)
        found = []
        for message in messages:
            plan = followed.history.add(message, followed.next())
            found += await self._models.run_async(plan)
        return self._report(thread, found)

    def appended(
        self, thread: str, user: str | None, messages: Sequence[Mapping[str, Any]]
    ) -> list[Repeat]:
        """What `stateward.open(on_append=…)` calls after an append was stored."""
        return self.feed(thread, messages, user=user)

    def _follow(self, thread: str, user: str | None) -> _Followed:
        followed = self._followed.get(thread) or self._begin(thread)
        self._followed.move_to_end(thread)
        if user is not None and user in self._users:
            followed.history.know(self._users[user])
        return followed

    def _begin(self, thread: str) -> _Followed:
        followed = _Followed(self._models.history(self._window, self._like))
        self._followed[thread] = followed
        while len(self._followed) > self._most:
            self._followed.popitem(last=False)
        return followed

    def _report(self, thread: str, found: list[Repeat]) -> list[Repeat]:
        sure = [repeat for repeat in found if repeat.score >= self._threshold]
        with self._lock:
            self.counts.update(repeat.kind for repeat in sure)
        for repeat in sure:
            logger.warning(
                "context_break",
                extra={
                    "event": "context_break",
                    "thread_id": thread,
                    "kind": repeat.kind,
                    "at": repeat.at,
                    "earlier": repeat.earlier,
                    "score": repeat.score,
                },
            )
            if self._on_repeat is not None:
                self._on_repeat(thread, repeat)
        return sure


class _Followed:
    """A conversation, and how many of its messages were seen."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._seen = 0

    def next(self) -> int:
        self._seen += 1
        return self._seen - 1
