"""Stored text is shown by every command, and a terminal obeys none of it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import stateward
from stateward import cli

HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
EVIL = "\x1b]0;x\x07\x1b[2J\x1b[31mred\r\nfake: line\x9b31m\u202eevil\u2066\x08\x7f"
COMMANDS = [
    *("thread list", "thread show {url} t1", "thread show {url} id{evil}", "user list"),
    *("user show {url} u{evil}", "workflow list", "workflow show {url} w{evil}", "task list"),
    *("task show {url} task{evil}", "lock list", "operations list", "operations verify", "inspect"),
    *("why {url} t1", "why {url} id{evil}", "namespaces", "signals", "waiting", "health"),
    *("key list", "effect list", "thread show {url} missing{evil}", "thread list {url} --wide"),
    *("user erase {url} u{evil} --dry-run", "thread delete {url} id{evil} --dry-run"),
    *("workflow cancel {url} w{evil} --dry-run", "inspect {url} --user u{evil}"),
    *("thread show {url} t1 --as openai", "why {url} t1 --user u{evil}"),
    *("thread show {url} t1 --as anthropic", "thread export {url} t1", "user export {url} u{evil}"),
    *("operations export {url}", "thread delete {url} id{evil} --yes", "thread list"),
    *("workflow cancel {url} w{evil} --yes", "user erase {url} u{evil} --yes", "inspect"),
]


async def fill(url: str) -> None:
    async with stateward.open(url) as store:
        for id in ("t1", f"id{EVIL}"):
            thread = store.thread(id, user=f"u{EVIL}")
            function = {"name": EVIL, "arguments": EVIL}
            call = {"id": EVIL, "type": "function", "function": function}
            await thread.append(
                {"role": f"user{EVIL}", "content": f"hello {EVIL}", "name": EVIL},
                {"role": "assistant", "content": EVIL, "tool_calls": [call]},
            )
            await thread.describe(title=EVIL, labels={f"l{EVIL}": EVIL})
        await store.user(f"u{EVIL}").document(f"d{EVIL}").patch({f"k{EVIL}": EVIL})
        await store.workflow(f"w{EVIL}", kind=f"k{EVIL}", user=f"u{EVIL}", input=EVIL).start()

        def fail(_: int) -> None:
            raise ValueError(EVIL)

        with pytest.raises(ValueError, match="fake"):
            await store.once(f"task{EVIL}", fail, 1)
        detail = {f"d{EVIL}": EVIL}
        about = (f"who{EVIL}", f"what{EVIL}", "thread", f"id{EVIL}")
        await store.operations.record(*about, detail=detail)


def test_no_command_lets_stored_text_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    asyncio.run(fill(url))
    for command in COMMANDS:
        words = (command if "{url}" in command else f"{command} {{url}}").split(" ")
        try:
            cli.main([word.format(url=url, evil=EVIL) for word in words])
        except SystemExit:
            pass
        shown = "".join(capsys.readouterr())
        assert shown, command
        assert HARMFUL.search(shown) is None, (command, shown)
