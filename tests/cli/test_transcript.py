"""`stateward thread show`: a conversation as it reads in a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from stateward import cli, sync
from stateward.cli.common import Screen
from stateward.cli.message_view import ViewedCall, ViewedResult, view
from stateward.cli.transcript import ThreadPage, transcript
from stateward.records import Change, Cursor, Late, Summary


def at(second: int, day: int = 16) -> datetime:
    return datetime(2026, 11, day, 12, 0, second, tzinfo=UTC)


def change(number: int, message: dict[str, Any], day: int = 16) -> Change:
    return Change(message, number, Cursor(number), at(number, day))


CALL = {"id": "c1", "type": "function", "function": {"name": "get_order", "arguments": '{"id": 9}'}}
LONG = "\n".join(
    ["It is on its way:", "def eta():", "    return 2"] + [f"line {n}" for n in range(9)]
)
MESSAGES = [
    change(
        3, {"role": "user", "content": "Where is my order 991? It was due yesterday, they said."}
    ),
    change(4, {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]}),
    change(
        5,
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": '{"status": "shipped", "eta": "Tuesday"}',
        },
    ),
    change(6, {"role": "assistant", "content": LONG}),
    change(9, {"role": "user", "content": "日本語 \x1b[31mred\x07"}, day=17),
    change(10, {"role": "assistant", "content": "", "tool_calls": [CALL | {"id": "c2"}]}, day=17),
]
PAGE = ThreadPage(
    id="s-1",
    user="u-42",
    kind="thread",
    title="Order 991",
    labels={"folder": "work"},
    messages=8,
    version=10,
    created=at(1),
    updated=at(10, 17),
    expires=None,
    leader="host-a:17",
    archived=False,
    origin=None,
    entries=tuple(MESSAGES),
    older=3,
    newest=True,
    summary=Summary("The guest asks for order 991.", 5, 4, at(30)),
    late=(Late(6, 6, at(2)),),
    edited=frozenset({9}),
    waiting=(("host-b", 2),),
)

AT_80 = """\
thread s-1 · user u-42
Order 991 (folder=work)
8 messages · version 10 · begun 2026-11-16 12:00:01 · led by host-a:17

    2026-11-16, UTC

 3  user  12:00:03
    Where is my order 991? It was due yesterday, they said.

 4  assistant  12:00:04
    Let me look.
    ▸ get_order {"id": 9}
 5  = {"status": "shipped", "eta": "Tuesday"}

    summary of 4 messages up to 5, made 2026-11-16 12:00:30
    │ The guest asks for order 991.

 6  assistant  12:00:06
    arrived late: written 2026-11-16 12:00:02, spilled in between
    It is on its way:
    def eta():
        return 2
    line 0
    line 1
    line 2
    line 3
    line 4
    … 4 more lines: --full

    7–8 removed

    2026-11-17, UTC

 9  user  12:00:09
    edited since
    日本語 �[31mred�

10  assistant  12:00:10
    ▸ get_order {"id": 9}
    = no result is stored

older messages: --before 3
2 turns of this store's threads still spilled on host-b"""

AT_40 = """\
thread s-1 · user u-42
Order 991 (folder=work)
8 messages · version 10 · begun
2026-11-16 12:00:01 · led by host-a:17

    2026-11-16, UTC

 3  user  12:00:03
    Where is my order 991? It was due
    yesterday, they said.

 4  assistant  12:00:04
    Let me look.
    ▸ get_order {"id": 9}
 5  = {"status": "shipped", "eta": "Tue…

    summary of 4 messages up to 5, made
    2026-11-16 12:00:30
    │ The guest asks for order 991.

 6  assistant  12:00:06
    arrived late: written 2026-11-16
    12:00:02, spilled in between
    It is on its way:
    def eta():
        return 2
    line 0
    line 1
    line 2
    line 3
    line 4
    … 4 more lines: --full

    7–8 removed

    2026-11-17, UTC

 9  user  12:00:09
    edited since
    日本語 �[31mred�

10  assistant  12:00:10
    ▸ get_order {"id": 9}
    = no result is stored

older messages: --before 3
2 turns of this store's threads still
spilled on host-b"""


@pytest.mark.parametrize(("width", "text"), [(80, AT_80), (40, AT_40)])
def test_a_conversation_reads_like_this(width: int, text: str) -> None:
    assert transcript(PAGE, Screen(False, width)) == text


def test_in_full_nothing_is_cut_or_folded() -> None:
    text = transcript(PAGE, Screen(False, 40), full=True)
    assert "line 8" in text
    assert "--full" not in text
    assert ' 5  = {\n        "status": "shipped",\n        "eta": "Tuesday"\n      }' in text


def test_colours_change_nothing_but_the_colours() -> None:
    coloured = transcript(PAGE, Screen(True, 80))
    assert "\x1b[1;36muser\x1b[0m" in coloured
    plain = "".join(part.partition("m")[2] for part in f"\x1b[m{coloured}".split("\x1b["))
    assert plain == AT_80


def test_a_call_whose_result_comes_later_is_said_to_have_it_elsewhere() -> None:
    page = replace(PAGE, entries=tuple(MESSAGES[:2]), newest=False, summary=None)
    assert "= its result is not on this page" in transcript(page, Screen(False, 80))
    page = replace(PAGE, entries=tuple(MESSAGES[2:4]), summary=None)
    assert ' 5  tool  12:00:05\n 5  = {"status"' in transcript(page, Screen(False, 80))


# --- forms of messages ------------------------------------------------------------------

ASKED = ViewedCall("1", "get_order", '{"id": 9}')
TOLD = ViewedResult("1", "shipped")


@pytest.mark.parametrize(
    ("message", "role", "text", "calls", "results"),
    [
        ({"role": "developer", "content": "Be kind."}, "system", "Be kind.", (), ()),
        (  # Pydantic AI
            {
                "kind": "response",
                "parts": [
                    {"part_kind": "thinking", "content": "hm"},
                    {"part_kind": "text", "content": "I look."},
                    {
                        "part_kind": "tool-call",
                        "tool_call_id": "1",
                        "tool_name": "get_order",
                        "args": {"id": 9},
                    },
                ],
            },
            "assistant",
            "I look.",
            (ViewedCall("1", "get_order", '{"id": 9}'),),
            (),
        ),
        (
            {
                "kind": "request",
                "parts": [
                    {
                        "part_kind": "tool-return",
                        "tool_call_id": "1",
                        "tool_name": "get_order",
                        "content": "shipped",
                    }
                ],
            },
            "tool",
            "",
            (),
            (ViewedResult("1", "shipped"),),
        ),
        (
            {
                "kind": "request",
                "parts": [{"part_kind": "user-prompt", "content": ["Hi.", {"kind": "image-url"}]}],
            },
            "user",
            "Hi.\n[image-url]",
            (),
            (),
        ),
        (  # Microsoft's Agent Framework
            {
                "type": "message",
                "role": "assistant",
                "contents": [
                    {"type": "text_reasoning", "text": "hm"},
                    {"type": "text", "text": "I look."},
                    {
                        "type": "function_call",
                        "call_id": "1",
                        "name": "get_order",
                        "arguments": {"id": 9},
                    },
                ],
            },
            "assistant",
            "I look.",
            (ViewedCall("1", "get_order", '{"id": 9}'),),
            (),
        ),
        (
            {
                "type": "message",
                "role": "tool",
                "contents": [{"type": "function_result", "call_id": "1", "result": "shipped"}],
            },
            "tool",
            "",
            (),
            (ViewedResult("1", "shipped"),),
        ),
        (  # a line of Claude Code's
            {
                "type": "assistant",
                "uuid": "a",
                "sessionId": "s",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "I look."},
                        {"type": "tool_use", "id": "1", "name": "get_order", "input": {"id": 9}},
                    ],
                },
            },
            "assistant",
            "I look.",
            (ASKED,),
            (),
        ),
        (
            {
                "type": "user",
                "uuid": "b",
                "sessionId": "s",
                "message": {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "1", "content": "shipped"}],
                },
            },
            "user",
            "",
            (),
            (TOLD,),
        ),
        (
            {"type": "queue-operation", "sessionId": "s", "content": "Hi"},
            "-",
            "[queue-operation]",
            (),
            (),
        ),
        (
            {"type": "system", "sessionId": "s", "content": "Compacted"},
            "system",
            "Compacted",
            (),
            (),
        ),
        (  # LlamaIndex
            {
                "role": "assistant",
                "additional_kwargs": {},
                "blocks": [
                    {"block_type": "text", "text": "I look."},
                    {
                        "block_type": "tool_call",
                        "tool_call_id": "1",
                        "tool_name": "get_order",
                        "tool_kwargs": {"id": 9},
                    },
                ],
            },
            "assistant",
            "I look.",
            (ViewedCall("1", "get_order", '{"id": 9}'),),
            (),
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "1", "name": "get_order", "input": {"id": 9}},
                ],
            },
            "assistant",
            "I look.",
            (ASKED,),
            (),
        ),
        (
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "no", "is_error": True}
                ],
            },
            "user",
            "",
            (),
            (ViewedResult("1", "no", True),),
        ),
        (
            {
                "type": "function_call",
                "call_id": "1",
                "name": "get_order",
                "arguments": '{"id": 9}',
            },
            "assistant",
            "",
            (ASKED,),
            (),
        ),
        (
            {"type": "function_call_output", "call_id": "1", "output": "shipped"},
            "tool",
            "",
            (),
            (TOLD,),
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {"toolUse": {"toolUseId": "1", "name": "get_order", "input": {"id": 9}}}
                ],
            },
            "assistant",
            "",
            (ASKED,),
            (),
        ),
        (
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "1", "content": [{"text": "shipped"}]}}],
            },
            "user",
            "",
            (),
            (TOLD,),
        ),
        (
            {
                "author": "waiter",
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "I look."},
                        {"function_call": {"id": "1", "name": "get_order", "args": {"id": 9}}},
                    ],
                },
            },
            "assistant",
            "I look.",
            (ASKED,),
            (),
        ),
        (
            {
                "$message": "ai",
                "data": {
                    "content": "I look.",
                    "tool_calls": [{"name": "get_order", "args": {"id": 9}, "id": "1"}],
                },
            },
            "assistant",
            "I look.",
            (ASKED,),
            (),
        ),
        (
            {"$message": "tool", "data": {"content": "shipped", "tool_call_id": "1"}},
            "tool",
            "",
            (),
            (TOLD,),
        ),
        ({"type": "human", "data": {"content": "hi", "type": "human"}}, "user", "hi", (), ()),
        ({"n": 1}, "-", '{"n": 1}', (), ()),
        ({"role": 7, "content": {"x": []}}, "-", '{"role": 7, "content": {"x": []}}', (), ()),
        ({"role": "assistant", "content": None}, "assistant", "", (), ()),
    ],
)
def test_a_message_of_any_form_says_who_speaks_and_what(
    message: dict[str, Any], role: str, text: str, calls: Any, results: Any
) -> None:
    seen = view(message)
    assert (seen.role, seen.text, seen.calls, seen.results) == (role, text, calls, results)


# --- the command ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('shown')}/agents.db"
    with sync.open(url) as store:
        thread = store.thread("s-1", "u-42")
        for n in range(30):
            thread.append({"role": "user", "content": f"question {n}"}, key=f"k{n}")
        thread.edit({3: None, 4: {"role": "user", "content": "changed"}})
        thread.describe(title="Order 991")
    return url


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main(["thread", "show", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_pages_go_back_to_the_first_message(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []
    before: list[str] = []
    while True:
        page = told(capsys, url, "s-1", "--last", "12", *before)
        seen = [each["number"] for each in page["messages"]] + seen
        if page["before"] is None:
            break
        before = ["--before", str(page["before"])]
    assert seen == [1, 2, *range(4, 31)]
    assert page["thread"]["title"] == "Order 991"
    assert (page["thread"]["messages"], page["thread"]["version"]) == (29, 30)
    assert [each["number"] for each in page["messages"] if each["edited"]] == [4]
    assert page["messages"][0]["key"] == "k0"
    assert cli.main(["thread", "show", url, "s-1", "--before", "6"]) == 0
    text = capsys.readouterr().out
    assert "    3 removed\n" in text
    assert "older" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say which thread: stateward thread show [URL] ID"),
        (("a", "b"), "say which thread"),
        (("s-9",), "there is no thread 's-9' in the namespace 'default': stateward thread list"),
        (("s-1", "--last", "0"), "--last must be from 1 to 1000"),
        (("s-1", "--before", "0"), "--before must be the number of a message"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    words: tuple[str, ...], said: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["thread", "show", url, *words]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert said in shown.err


@pytest.mark.parametrize(("more", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gives_its_width_and_takes_colours(
    more: dict[str, str], coloured: bool, url: str
) -> None:
    watcher, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 34, 0, 0))
    kept = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")
    }
    command = [sys.executable, "-m", "stateward", "thread", "show", url, "s-1", "--last", "1"]
    with subprocess.Popen(command, stdout=terminal, env=kept | more) as process:
        os.close(terminal)
        said = b""
        try:
            while part := os.read(watcher, 4096):
                said += part
        except OSError:  # how a terminal says that nobody writes any more
            pass
        assert process.wait(60) == 0
    os.close(watcher)
    assert (b"\x1b[1;36muser\x1b[0m" in said) is coloured
    assert (b"\x1b" in said) is coloured
    assert b"29 messages \xc2\xb7 version 30 \xc2\xb7" in said
    assert "question 29" in said.decode()


def test_a_conversation_is_shown_in_another_shape(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with sync.open(url) as store:
        thread = store.thread("s-1")
        thread.append({"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"})
        thread.append({"role": "model", "parts": [{"text": "hello"}, {"executableCode": {}}]})
    assert cli.main(["thread", "show", url, "s-1", "--as", "anthropic"]) == 0
    told = capsys.readouterr()
    assert [json.loads(line)["role"] for line in told.out.splitlines()] == ["user", "assistant"]
    assert told.err.splitlines() == [
        "system prompt, which is not a message in this shape: be kind",
        "lost: message 3, part 2 (executableCode): Anthropic has no block for it",
    ]
    assert cli.main(["thread", "show", url, "s-1", "--as", "openai", "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert [message["content"] for message in read["messages"]] == ["be kind", "hi", "hello"]
    assert read["system"] is None
    assert [lost["what"] for lost in read["lost"]] == ["executableCode"]
