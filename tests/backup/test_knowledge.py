"""Turns of an agent, moved to another engine: what each was given can be told exactly.

A model in plain Python says what was given for each turn and what became of it since: messages
that were edited or removed, summaries made anew, documents that changed, forks. What `knew` shows
is compared with it before and after a backup is restored into another engine.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stateward
from backup.conftest import NewStore
from stateward import sync
from stateward.transfer.backup import backup, restore

KEPT = 30  # versions of a document
DOCUMENTS = ("default", "taste", "address")
FORKS = 12
Message = dict[str, Any]


def as_bytes(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


class Given:
    """What the model was given for a turn, and what the thread was like then."""

    def __init__(self, context: Any, numbers: list[int], edits: int) -> None:
        self.messages = dict(zip(numbers, context.thread.messages, strict=True))
        self.summary = context.thread.summary
        self.documents = {name: (of.value, of.stamp) for name, of in context.user.items()}
        self.workflows = context.workflows
        self.receipt = context.receipt
        self.edits = edits  # how many there had been


class Conversation:
    """A thread as it should be."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.live: list[int] = []
        self.version = 0
        self.edits: list[tuple[int, str]] = []  # number, "edited" or "removed", in order
        self.turns: dict[int, Given] = {}  # by the number of the last message
        self.shared: dict[int, tuple[Conversation, int]] = {}  # copies, by their number here

    def appended(self, count: int) -> None:
        self.live += range(self.version + 1, self.version + count + 1)
        self.version += count

    def changed(self, numbers: dict[int, Any]) -> None:
        for number, message in sorted(numbers.items()):
            if number in self.live:
                self.edits.append((number, "removed" if message is None else "edited"))
                if message is None:
                    self.live.remove(number)

    def origin_of(self, number: int) -> tuple[Conversation, int]:
        """Where a message was first stored."""
        if number not in self.shared:
            return self, number
        origin, there = self.shared[number]
        return origin.origin_of(there)


class Walk:
    """An agent at work, and a model of all that it does."""

    def __init__(self, store: Any, seed: int) -> None:
        self.store = store
        self.chance = Random(seed)
        self.threads = [Conversation("t")]
        self.histories: dict[str, list[str | None]] = {name: [] for name in DOCUMENTS}  # stamps
        self.compaction = stateward.Compaction(self.summarize, after=16, keep=6)
        self.summaries = 0

    def summarize(self, previous: str | None, messages: list[Message]) -> str:
        self.summaries += 1
        return f"summary {self.summaries} é of {len(messages)} after {(previous or '')[:20]}"

    def go(self, turns: int) -> None:
        store, chance = self.store, self.chance
        with store.workflow("refund", kind="refund", user="u", input={"order": 7}) as run:
            run.wait("approval", timeout=1e6)
        for n in range(turns):
            of = chance.choice(self.threads)
            self.take_turn(of, n)
            if chance.random() < 0.3:
                self.write_document(n)
            if chance.random() < 0.15:
                self.edit(of, n)
            if chance.random() < 0.03:
                self.truncate(of)
            if chance.random() < FORKS / turns and len(self.threads) <= FORKS:
                self.fork(of)

    def take_turn(self, of: Conversation, n: int) -> None:
        bounds: dict[str, Any] = self.chance.choice(
            (
                {"last": 7},
                {"turns": 3},
                {"max_tokens": 120},
                {"last": 5, "exact": True},
                {"summarize": self.compaction},
                {"last": 4, "summarize": self.compaction},
            )
        )
        context = self.store.context(user="u", thread=of.id, entries=True, **bounds)
        numbers = [entry.version for entry in context.thread.entries]
        thread = self.store.thread(of.id, user="u")
        said = thread.append(*self.turn(n, first=not of.version), saw=context)
        given = Given(context, numbers, len(of.edits))
        of.appended(said.version - of.version)
        of.turns[said.version] = given

    def turn(self, n: int, *, first: bool) -> list[Message]:
        told: list[Message] = [{"role": "system", "content": "Be kind."}] if first else []
        told.append({"role": "user", "content": f"question {n} é \x00 😀", "meta": {"n": n / 7}})
        if self.chance.random() < 0.3:
            made = {"id": f"c-{n}", "type": "function"}
            made["function"] = {"name": "f", "arguments": "{}"}  # type: ignore[assignment]
            told.append({"role": "assistant", "content": None, "tool_calls": [made]})
            if self.chance.random() < 0.8:  # others never get their result
                told.append({"role": "tool", "tool_call_id": f"c-{n}", "content": f"found {n}"})
        return [*told, {"role": "assistant", "content": f"answer {n}"}]

    def write_document(self, n: int) -> None:
        name = self.chance.choice(DOCUMENTS)
        history = self.histories[name]
        if self.chance.random() < 0.1:
            if history and history[-1] is not None:
                self.store.user("u").delete(name)
                history.append(None)
            return
        said = self.store.user("u").put({"n": n, "text": "é \x00" * (n % 5)}, name)
        history.append(said.stamp)

    def edit(self, of: Conversation, n: int) -> None:
        numbers = {self.chance.randint(1, of.version) for _ in range(self.chance.randint(1, 3))}
        changes = {
            number: self.chance.choice((None, {"role": "user", "content": f"edited {n}"}))
            for number in numbers
        }
        self.store.thread(of.id, user="u").edit(changes)
        of.changed(changes)

    def truncate(self, of: Conversation) -> None:
        after = max(0, of.version - self.chance.randint(1, 6))
        self.store.thread(of.id, user="u").truncate(after=after)
        of.changed({number: None for number in of.live if number > after})

    def fork(self, of: Conversation) -> None:
        at = self.chance.randint(of.version // 2, of.version)
        copy = Conversation(f"fork-{len(self.threads)}")
        self.store.thread(of.id, user="u").fork(to=copy.id, at=at)
        copied = [number for number in of.live if number <= at]
        copy.appended(len(copied))
        copy.shared = {n: (of, number) for n, number in enumerate(copied, 1)}
        self.threads.append(copy)

    # --- what must be told --------------------------------------------------------------

    def check(self, store: Any) -> dict[str, int]:
        """Ask for every turn; how many were as they had been, in part, and not there any more."""
        counts = {"whole": 0, "in part": 0, "gone": 0, "shared": 0}
        for of in self.threads:
            for version, given in of.turns.items():
                if version not in of.live:
                    with pytest.raises(stateward.InvalidInput):
                        store.knew(of.id, version)
                    counts["gone"] += 1
                else:
                    knew = store.knew(of.id, version, user="u")
                    counts["in part" if self.check_turn(store, of, given, knew) else "whole"] += 1
            for number in of.shared:
                origin, there = of.origin_of(number)
                if number in of.live and there in origin.turns:
                    self.check_shared(store, of, number)
                    counts["shared"] += 1
        return counts

    def check_turn(self, store: Any, of: Conversation, given: Given, knew: Any) -> bool:
        """Whether something is gone, and then that it is named, and nothing else."""
        changed = dict(of.edits[given.edits :])
        left = [message for number, message in given.messages.items() if number not in changed]
        assert as_bytes(knew.messages) == as_bytes(left)
        assert knew.receipt == given.receipt
        assert knew.numbers == tuple(given.messages)
        gone = {("message", str(n), changed[n]) for n in given.messages if n in changed}
        summary = store.thread(of.id).summary() if given.summary is not None else None
        if given.summary is not None and (summary is None or summary.text != given.summary):
            gone.add(("summary", "", "deleted" if summary is None else "changed"))
            assert knew.summary is None
        else:
            assert knew.summary == given.summary
        documents = {}
        for name, (value, stamp) in given.documents.items():
            history = self.histories[name]
            if stamp in history[-KEPT:]:
                documents[name] = (value, stamp)
            else:
                gone.add(("document", name, "deleted" if history[-1] is None else "changed"))
        shown = {name: (of.value, of.stamp) for name, of in knew.user.items()}
        assert as_bytes(shown) == as_bytes(documents)
        assert knew.workflows == given.workflows
        assert {(each.what, each.name, each.why) for each in knew.gone} == gone
        return bool(gone)

    def check_shared(self, store: Any, of: Conversation, number: int) -> None:
        origin, there = of.origin_of(number)
        if there in origin.live:
            knew = store.knew(of.id, number)
            assert (knew.thread, knew.version) == (origin.id, there)
            self.check_turn(store, origin, origin.turns[there], knew)
        else:
            with pytest.raises(stateward.NotKept):
                store.knew(of.id, number)


def move(turns: int, seed: int, new_store: NewStore, folder: Path) -> None:
    """Take turns on SQLite, and ask for them there and wherever a backup of it is restored."""
    url, path = new_store("sqlite"), str(folder / "a.backup")
    with sync.open(url, keep=KEPT) as store:
        walk = Walk(store, seed)
        walk.go(turns)
        counts = walk.check(store)
        assert min(counts.values()) > turns // 50, counts
    backup(url, path)
    for target in ("valkey", "postgres"):
        restored = new_store(target)
        restore(path, restored)
        with sync.open(restored, keep=KEPT) as store:
            assert walk.check(store) == counts


@pytest.mark.verify
def test_what_each_turn_was_given_is_told_by_another_engine(
    new_store: NewStore, tmp_path: Path
) -> None:
    move(200, 17, new_store, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
def test_what_each_of_a_thousand_turns_was_given_is_told_by_another_engine(
    seed: int, new_store: NewStore, tmp_path: Path
) -> None:
    move(1000, seed, new_store, tmp_path)
