"""What takes the square of a length is found by counting: ten times the length, ten times as much.

Nothing here measures time: steps of SQLite's virtual machine, pages that PostgreSQL touches, what
the choice of a window and a translation look at and copy, and lines and calls of the search for
repeats.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import psycopg
import pytest
from servers.postgres import PostgresServer

from stateward import sync
from stateward.context import window
from stateward.context.tool_pairs import Message
from stateward.context.window import Bounds, Conversation
from stateward.engines.postgres.arrays import register
from stateward.engines.postgres.fetch import reads, whole
from stateward.engines.postgres.schema import Queries
from stateward.engines.registry import create_engine, create_sync_engine, parse
from stateward.engines.sqlite.fetch import Reads
from stateward.engines.sqlite.file import File
from stateward.ops import Append, Commit, Entity, Fetch, Fetched, Log
from stateward.repeats import find_repeats, with_receipts
from stateward.repeats.words import LONGEST
from stateward.shapes import translate
from stateward.shapes.pairs import ITEMS, digest, paired
from stateward.shapes.parts import CallPart, Speech, TextPart
from stateward.shapes.sources import Sources
from stateward.sync.why.moment import read_thread
from stateward.why.signs import signs_of
from stateward.world import World

LENGTHS = (1_000, 10_000)
LINEAR = 15  # times as much at ten times the length; the square would be a hundred times

DETAILED = {
    "from the beginning": Log(details=True),
    "from the end": Log(last=1 << 40, details=True),
    "after a place": Log(1, last=1 << 40, details=True, stamp="op"),
    "for a backup": Log(whole=True),
}


def assert_linear(cost: Callable[[int], int], lengths: tuple[int, int] = LENGTHS) -> None:
    short, long = (cost(length) for length in lengths)
    assert 0 < short <= long <= LINEAR * short, (short, long)


def append(length: int) -> Commit:
    """One append of so many entries, as an import or a fork makes it."""
    entity = Entity("n", "thread", f"of {length}")
    return Commit(entity, "op", (Append(tuple(map(str, range(length)))),))


# --- entries with details ---------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> File:
    path = tmp_path_factory.mktemp("growth") / "a.db"
    engine: Any = create_sync_engine(parse(f"sqlite:///{path}"), World())
    engine.open()
    engine.execute([append(length) for length in LENGTHS])
    engine.close()
    return File(str(path), relaxed=False, migrate=False, world=World())


@pytest.mark.parametrize("name", DETAILED)
def test_sqlite_reads_a_long_append_with_details_once(name: str, file: File) -> None:
    steps = 0

    def counted() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection = file.connect()
    connection.set_progress_handler(counted, 10)

    def cost(length: int) -> int:
        nonlocal steps
        steps = 0
        fetch = Fetch(append(length).entity, log=DETAILED[name])
        (fetched,) = Reads(connection).read_all([fetch], World().now())
        assert isinstance(fetched, Fetched)
        assert fetched.count >= length - 1
        assert {entry.stamp for entry in fetched.entries} == {"op"}
        return steps

    assert_linear(cost)
    connection.close()


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off").start()

    async def fill() -> None:
        engine = create_engine(parse(server.url), World())
        await engine.open()
        await engine.execute([append(length) for length in LENGTHS])
        await engine.close()

    asyncio.run(fill())
    yield server
    server.remove()


@pytest.mark.verify
@pytest.mark.parametrize("name", DETAILED)
def test_postgres_reads_a_long_append_with_details_once(
    name: str, database: PostgresServer
) -> None:
    with psycopg.connect(database.url) as connection:
        register(connection)

        def cost(length: int) -> int:
            fetch = Fetch(append(length).entity, log=DETAILED[name])
            queries = Queries("stateward")
            if DETAILED[name].whole:
                statement = whole(0, fetch, queries)
            else:
                statement = reads([(0, fetch)], [], queries)
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.query}"
            (row,) = connection.execute(explain, statement.params).fetchall()  # type: ignore[arg-type]
            pages: int = row[0][0]["Plan"]["Shared Hit Blocks"]
            return pages

        assert_linear(cost)


# --- windows ----------------------------------------------------------------------------


class Copied(list[Any]):
    """A list that counts what is copied to put it before or after another."""

    items = 0

    def __add__(self, other: list[Any]) -> Copied:  # type: ignore[override]
        Copied.items += len(self) + len(other)
        return Copied([*self, *other])

    def __iter__(self) -> Iterator[Any]:
        Copied.items += len(self)
        return super().__iter__()


def conversation(length: int) -> list[Message]:
    return [
        {"role": role, "content": role} for _ in range(length) for role in ("user", "assistant")
    ]


@pytest.mark.parametrize("bounds", [{"last": 1}, {"turns": 1}, {"max_tokens": 1, "turns": 1}])
def test_a_long_window_looks_at_each_message_a_few_times(
    bounds: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read in pages of 100 from the end, as a thread is; the bounds leave a tenth out."""
    looks = 0
    lay_out, turns_of = window.lay_out, window._turns

    def counted(messages: list[Message], **options: Any) -> Any:
        nonlocal looks
        looks += len(messages)
        return lay_out(messages, **options)

    monkeypatch.setattr(window, "lay_out", counted)
    monkeypatch.setattr(window, "_turns", lambda *a: [Copied(turn) for turn in turns_of(*a)])

    def cost(length: int) -> int:
        nonlocal looks
        looks = Copied.items = 0
        messages = conversation(length)
        most = {name: length * 9 // 10 * (100 if name == "max_tokens" else 1) for name in bounds}
        picking = Conversation(Bounds(**most))
        left = len(messages)
        while True:
            picking.add_older(messages[left - 100 : left])
            left -= 100
            if left == 0 or not picking.surely_more():
                picked = picking.pick([], 0, complete=left == 0)
                if picked is not None:
                    assert len(picked.messages) >= length * 9 // 10
                    return looks + Copied.items

    assert_linear(cost)


def test_the_newest_steps_of_a_long_turn_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    turns_of = window._turns
    monkeypatch.setattr(window, "_turns", lambda *a: [Copied(turn) for turn in turns_of(*a)])

    def cost(length: int) -> int:
        Copied.items = 0
        picking = Conversation(Bounds(last=length * 9 // 10))
        answers = [{"role": "assistant", "content": str(n)} for n in range(length)]
        picking.add_older([{"role": "user", "content": "question"}, *answers])
        picked = picking.pick([], 0, complete=True)
        assert picked is not None
        assert len(picked.messages) == length * 9 // 10
        return Copied.items

    assert_linear(cost)


# --- translations -----------------------------------------------------------------------


class CountedSaid(Speech):
    """A message that counts, also in its copies, how often its parts are read."""

    def __post_init__(self) -> None:
        self.parts = Copied(self.parts)


@pytest.mark.parametrize("turn", ["", "t"], ids=["as items", "as an answer in pieces"])
def test_an_answer_in_many_pieces_is_put_together_once(turn: str) -> None:
    def cost(length: int) -> int:
        parts: list[Any] = [TextPart("wait"), *(CallPart("f", {}, str(n)) for n in range(length))]
        saids = [CountedSaid("assistant", [part], turn=turn, shape=ITEMS) for part in parts]
        sources = Sources([saids], [None])
        Copied.items = 0
        (whole,) = paired(saids, sources, re.compile(".*"))
        assert len(whole.parts) == length + 1
        return Copied.items

    assert_linear(cost)


def test_messages_of_one_role_are_joined_once() -> None:
    def cost(length: int) -> int:
        blocks = Copied([{"type": "text", "text": "a", "citations": []}])
        first = {"role": "assistant", "content": blocks, "stop_reason": "end_turn"}
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        later = [{**call, "call_id": f"c{number}"} for number in range(length)]
        Copied.items = 0
        (whole,) = translate([first, *later], "anthropic").messages
        assert len(whole["content"]) == length + 1
        return Copied.items

    assert_linear(cost)


def test_equal_calls_without_ids_are_told_apart_without_trying_every_number() -> None:
    def cost(length: int) -> int:
        calls = [{"role": "model", "parts": [{"functionCall": {"name": "f"}}]}] * length
        told = {"functionResponse": {"name": "f", "response": {}}}
        results = [{"role": "user", "parts": [told]}] * length
        assert not translate([*calls, *results], "openai").lost
        return steps(lambda: translate([*calls, *results], "openai"))

    assert_linear(cost, (30, 300))


def test_results_by_the_digest_of_an_id_do_not_look_through_every_call() -> None:
    def cost(length: int) -> int:
        ids = [f"a call of {number}" for number in range(length)]
        parts = [{"functionCall": {"name": "f", "id": id}} for id in ids]
        results = [{"role": "tool", "tool_call_id": digest(id), "content": ""} for id in ids]
        messages = [{"role": "model", "parts": parts}, *reversed(results)]
        assert {lost.what for lost in translate(messages, "anthropic").lost} == {"id"}
        return steps(lambda: translate(messages, "anthropic"))

    assert_linear(cost, (30, 300))


# --- repeats ----------------------------------------------------------------------------

HOSTILE = """
import importlib, re
from stateward.repeats import words
patterns = [pattern for pattern, _ in words.JOINED]
for name in ("words", "replies", "wants", "complaints", "history", "facts"):
    module = importlib.import_module(f"stateward.repeats.{name}")
    patterns += [value for value in vars(module).values() if isinstance(value, re.Pattern)]
parts = "1. 1, 1 a a. a@ +1( tell_ is_there_a_ how_does_ in_A_ _".replace("_", "\\t").split(" ")
for part in (part.replace("\\t", " ") for part in parts):
    for pattern in patterns:
        pattern.sub("", part * (100_000 // len(part)))
print(len(patterns))
"""


def steps(work: Callable[[], object]) -> int:
    """Lines that are executed and functions that are called, C's among them, until it is done."""
    count = 0

    def traced(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return traced

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(traced)
    sys.setprofile(traced)
    try:
        work()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return count


def talk(text: str, turns: int) -> list[Message]:
    return [{"role": role, "content": text} for _ in range(turns) for role in ("assistant", "user")]


ASKED = {
    "a question": "What day do you want? ",
    "several in one": "Which day and which city do you want? ",
    "a question and what answers it": "Where do you go? In A, to B on 4th. ",
    "a choice": "Do you like a window or an aisle? ",
    "what answers": "Where are you? 2 rooms at 5 pm. ",
}


@pytest.mark.parametrize("name", ASKED)
def test_a_message_that_repeats_itself_is_looked_through_once(name: str) -> None:
    """All of it is read: of a message that is longer, only both ends are."""
    assert len(ASKED[name]) * 100 <= LONGEST
    find_repeats(talk(ASKED[name], 2))  # what is worked out once for each word

    def cost(times: int) -> int:
        return steps(lambda: find_repeats(talk(ASKED[name] * times, 2)))

    assert_linear(cost, (10, 100))


@pytest.mark.parametrize("name", ASKED)
def test_many_equal_turns_are_each_compared_with_a_window(name: str) -> None:
    find_repeats(talk(ASKED[name], 2))

    def cost(turns: int) -> int:
        return steps(lambda: find_repeats(talk(ASKED[name] * 4, turns), window=10))

    assert_linear(cost, (40, 400))


@pytest.mark.parametrize("slot", ["city", "date", "end_date", "color"])
def test_the_slots_of_a_state_are_not_compared_with_each_other(slot: str) -> None:
    asked = talk("Which city, on what day, how long, and a red or a blue one?", 2)

    def cost(slots: int) -> int:
        known = {f"{number}.{slot}": "blue" for number in range(slots)}
        find_repeats(asked, before=known)
        return steps(lambda: find_repeats(asked, before=known))

    assert_linear(cost, (25, 250))


@pytest.mark.parametrize("together", [True, False], ids=["one append", "many appends"])
@pytest.mark.parametrize("shape", [("assistant", "user"), ("user",)], ids=["asked", "complaints"])
def test_signs_of_a_thread_are_found_without_reading_it_for_each(
    shape: tuple[str, ...], together: bool
) -> None:
    said = {"assistant": "Which city do you want?", "user": "I already told you: in Porto."}
    turn = [{"role": role, "content": said[role]} for role in shape]

    def cost(turns: int) -> int:
        with sync.open("memory://") as store:
            thread = store.thread("t")
            for messages in [turn * turns] if together else [turn] * turns:
                thread.append(*messages)
            read = read_thread(store, "t", None, last=2 * turns)
        repeats = find_repeats([entry.message for entry in read.entries])
        assert len(repeats) >= turns
        return steps(lambda: signs_of(with_receipts(repeats, read.entries, {}), read))

    assert_linear(cost, (40, 400))


def test_no_pattern_of_the_repeats_takes_the_square_of_a_message() -> None:
    """A pattern cannot be counted: here the square would take many minutes, and its end is far."""
    command = [sys.executable, "-c", HOSTILE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) > 30
