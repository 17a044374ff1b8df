"""The reasons that `why` gives for a turn are true, whatever was edited or removed.

Drawn programs of one thread: the program notes what each turn was really given, and what a summary
stood for. Every turn is explained at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

import stateward
from stateward.records import Cursor
from stateward.why.explanation import explain
from stateward.why.moment import read_moment
from stateward.why.records import Explanation

SAMPLE, ALL = range(60), range(60, 3000)
NAMES = ("profile", "orders")


@dataclass
class Given:
    """The context of a turn: numbers, documents by version and stamp, and workflows."""

    numbers: set[int]
    summarised: set[int]
    left_out: set[int]
    documents: dict[str, tuple[int, str | None]] | None
    workflows: set[str] | None


@dataclass
class Program:
    store: stateward.Store
    random: Random
    there: list[int] = field(default_factory=list)  # the numbers that the thread has
    version: int = 0
    turns: dict[int, Given] = field(default_factory=dict)  # by their first message

    @property
    def thread(self) -> Any:
        return self.store.thread("t", user="u")

    def added(self, count: int) -> None:
        self.there += range(self.version + 1, self.version + 1 + count)
        self.version += count

    async def talk(self) -> None:
        count = self.random.randint(1, 4)
        await self.thread.append(*[message(self.version + 1 + n) for n in range(count)])
        self.added(count)

    async def turn(self) -> None:
        bounds: dict[str, Any] = self.random.choice(
            ({}, {"last": 2}, {"last": 5}, {"turns": 2}, {"max_tokens": 200})
        )
        if self.random.random() < 0.4:
            bounds = bounds | {"summarize": stateward.Compaction(in_short, after=6, keep=4)}
        saw: Any
        if self.random.random() < 0.5:
            saw = await self.store.context(user="u", thread="t", entries=True, **bounds)
            window = saw.thread
            documents = {name: (each.version, each.stamp) for name, each in saw.user.items()}
            workflows = {each.id for each in saw.workflows}
        else:
            saw = window = await self.thread.load(entries=True, **bounds)
            documents, workflows = None, None
        numbers = {entry.version for entry in window.entries}
        left = [number for number in self.there if number not in numbers]
        summarised = set(left[: window.summarised])
        first = self.version + 1
        if self.random.random() < 0.2:
            await self.talk()  # by another request, after this one has read
            first = self.version + 1
        await self.thread.append(message(first, "user"), message(first + 1, "assistant"), saw=saw)
        self.added(2)
        given = Given(numbers, summarised, set(left) - summarised, documents, workflows)
        self.turns[first] = given

    async def remove(self) -> None:
        gone = self.random.sample(self.there, min(len(self.there), self.random.randint(1, 4)))
        if gone:
            await self.thread.edit(dict.fromkeys(gone))
            self.there = [number for number in self.there if number not in gone]

    async def rewrite(self) -> None:
        if self.there:
            number = self.random.choice(self.there)
            answers = {first + 1 for first in self.turns}
            role = "assistant" if number in answers else "user" if number in self.turns else ""
            await self.thread.edit({number: {**message(number, role), "content": "reworded"}})

    async def truncate(self) -> None:
        at = self.random.randint(self.version // 2, self.version)
        await self.thread.truncate(after=at)
        self.there = [number for number in self.there if number <= at]

    async def put(self) -> None:
        await self.store.user("u").put({"n": self.random.randint(0, 3)}, self.random.choice(NAMES))

    async def forget(self) -> None:
        await self.store.user("u").delete(self.random.choice(NAMES))

    async def work(self) -> None:
        workflow = self.store.workflow(self.random.choice(("w1", "w2")), kind="k", user="u")
        if (info := await workflow.info()) is None:
            await workflow.start()
        elif info.status == "active":
            await workflow.cancel()
        else:
            await workflow.delete()

    async def run(self) -> None:
        await self.talk()
        steps = (self.talk, self.turn, self.turn, self.remove, self.rewrite, self.truncate)
        for _ in range(self.random.randint(8, 25)):
            await self.random.choice((*steps, self.put, self.put, self.forget, self.work))()


def message(number: int, role: str = "") -> dict[str, Any]:
    said = role or ("user" if number % 2 else "assistant")
    return {"role": said, "content": f"fact number {number}"}


async def in_short(previous: str | None, messages: list[dict[str, Any]]) -> str:
    return f"{previous or 'before'}, {len(messages)} more"


def check(program: Program, first: int, told: Explanation, current: dict[str, Any]) -> None:
    given = program.turns[first]
    shown = {each.number: each for each in told.messages}
    assert {*shown} == {number for number in program.there if number < first}
    for number, each in shown.items():
        if each.reason == "no_receipt":
            continue
        expected = "later"
        if number in given.numbers:
            expected = "given"
        elif number in given.summarised:
            expected = "summarised"
        elif number in given.left_out:
            expected = "window"
        assert (each.reason or "given") == expected, f"message {number}"
    for cause in told.causes:
        assert "older ones" not in cause.sentence, cause.sentence  # all of them were read
    check_now(given, told, current)
    check_before(program, first, told)


def check_now(given: Given, told: Explanation, current: dict[str, Any]) -> None:
    assert told.now is not None
    changed = {
        name
        for name in NAMES
        if given.documents is not None and given.documents.get(name) != current.get(name)
    }
    assert named(told.now.sentences, "Document") == changed


def check_before(program: Program, first: int, told: Explanation) -> None:
    if told.before is None:
        return
    before = [number for number in program.turns if number < first and number + 1 in program.there]
    old, new = program.turns[max(before)], program.turns[first]
    sentences = told.before.sentences
    documents, workflows = set(), set()
    if old.documents is not None and new.documents is not None:
        both = (old.documents, new.documents)
        documents = {name for name in NAMES if both[0].get(name) != both[1].get(name)}
        workflows = (old.workflows or set()) ^ (new.workflows or set())
    assert named(sentences, "Document") == documents
    assert named(sentences, "Workflow") == workflows
    apart = (old.documents is None) != (new.documents is None)
    assert any(each.startswith("Documents and workflows") for each in sentences) == apart


def named(sentences: tuple[str, ...], what: str) -> set[str]:
    """The names in the sentences about documents, or about workflows."""
    own = (each for each in sentences if each.startswith(f"{what} “"))
    return {each.split("“")[1].split("”")[0] for each in own}


async def explained(seed: int) -> None:
    async with stateward.open("memory://") as store:
        program = Program(store, Random(seed))
        await program.run()
        documents = {name: each async for name, each in store.user("u").list()}
        current = {name: (each.version, each.stamp) for name, each in documents.items()}
        for first in program.turns:
            if first in program.there and first + 1 in program.there:  # its receipt is there
                moment = await read_moment(store, "t", Cursor(first), hosts=False)
                assert moment is not None
                check(program, first, explain(moment), current)


@pytest.mark.parametrize("seed", SAMPLE)
async def test_what_why_says_of_an_edited_thread_is_true(seed: int) -> None:
    await explained(seed)


@pytest.mark.soak
async def test_what_why_says_is_true_of_thousands_of_edited_threads() -> None:
    for seed in ALL:
        await explained(seed)


async def test_only_a_document_that_was_changed_since_is_called_outdated() -> None:
    async with stateward.open("memory://") as store:
        user, thread = store.user("u"), store.thread("t", user="u")
        for name in NAMES:
            await user.put({"n": 1}, name)
        context = await store.context(user="u", thread="t")
        await user.put({"n": 2}, "orders")
        await thread.append(message(1), message(2), saw=context)
        moment = await read_moment(store, "t", Cursor(1), hosts=False)
        assert moment is not None
        later = [cause for cause in explain(moment).causes if cause.reason == "later"]
        assert [cause.documents for cause in later] == [("orders",)]
