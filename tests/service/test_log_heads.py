"""Heads of the operations logs are published, and a log that lacks one is found."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from servers import until

import stateward
from stateward import cli, sync
from stateward.errors import InvalidInput
from stateward.kinds import OPERATIONS
from stateward.ops import Commit, Drop, Entity
from stateward.server.log_heads import LogHeads, LogHeadSettings, append_heads, read_heads
from stateward.server.service import app
from stateward.world import World

WORLD = World()
END = datetime.now(UTC) + timedelta(days=1)


class Witness:
    """A service that keeps the heads that it is sent."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.status = 204
        witness = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status = witness.status
                if status == 204:
                    witness.bodies.append(body)
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/heads"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(30)
        self._server.server_close()


@pytest.fixture
def witness() -> Iterator[Witness]:
    made = Witness()
    yield made
    made.close()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


def opened(url: str) -> Any:
    return stateward.open(url, spill=False, heartbeat=None, metrics=False)


async def rewrite(url: str, entries: int, namespace: str = "default") -> None:
    """Write another log in the place of the one that is there, as its database's owner can."""
    async with opened(url) as store:
        entity = Entity(namespace, OPERATIONS, OPERATIONS)
        drop = Commit(entity, WORLD.new_op(), (Drop(),))
        await store.sections["workflows"].execute((drop,))
        for number in range(entries):
            await store.within(namespace).operations.record("eve", "nothing", "thread", f"{number}")


def logged(caplog: pytest.LogCaptureFixture, event: str) -> list[Any]:
    return [each for each in caplog.records if each.getMessage() == event]


async def test_heads_that_changed_are_published_everywhere(
    url: str, tmp_path: Path, witness: Witness, caplog: pytest.LogCaptureFixture
) -> None:
    file = str(tmp_path / "heads.jsonl")
    settings = LogHeadSettings(file=file, webhook=witness.url, log=True)
    async with opened(url) as store:
        heads = LogHeads(settings, store, WORLD)
        assert await heads.publish() == []
        await store.operations.record("ann", "thread read", "thread", "t")
        await store.within("shop").operations.record("bob", "thread read", "thread", "t")
        first = await heads.publish()
        assert await heads.publish() == [], "nothing has changed"
        await store.operations.record("ann", "thread read", "thread", "u")
        second = await heads.publish()
        head = (await store.operations.verify()).head
    assert [(each.namespace, each.head[:2]) for each in first] == [
        ("default", "1:"),
        ("shop", "1:"),
    ]
    assert [(each.namespace, each.head) for each in second] == [("default", head)]
    assert read_heads(file) == first + second
    assert stat.S_IMODE(os.stat(file).st_mode)
    assert [len(body["heads"]) for body in witness.bodies] == [2, 1]
    assert witness.bodies[1]["heads"][0]["head"] == head
    assert logged(caplog, "operations_log_head")[-1].head == head
    assert heads.counts == {"published": 3, "rewritten": 0, "unpublished": 0}


@pytest.mark.parametrize("entries", [0, 1, 2, 5])
async def test_a_log_that_was_rewritten_is_found_by_its_published_head(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, entries: int
) -> None:
    file = str(tmp_path / "heads.jsonl")
    verify = ["operations", "verify", url]
    for restarts in (False, True):
        async with opened(url) as store:
            heads = LogHeads(LogHeadSettings(file=file), store, WORLD)
            for number in range(2):
                await store.operations.record("ann", "thread read", "thread", f"{number}")
            await heads.publish()
            assert cli.main([*verify, "--head-file", file]) == 0
            await rewrite(url, entries)
            if entries:
                assert cli.main(verify) == 0, "without a head there is nothing to see"
            assert cli.main([*verify, "--head-file", file]) == 1
            if restarts:
                heads = LogHeads(LogHeadSettings(file=file), store, WORLD)
                running = asyncio.create_task(heads.run())
                await until(lambda: bool(heads.counts["rewritten"]))  # noqa: B023
                running.cancel()
                await asyncio.wait([running])
            else:
                await heads.publish()
        assert heads.counts["rewritten"] == 1
        (line,) = logged(caplog, "operations_log_rewritten")
        assert (line.namespace, line.published, line.entries) == ("default", 2, entries)
        caplog.clear()
        assert [each.rewritten for each in read_heads(file)] == [False] + [True] * bool(entries)
        os.unlink(file)
        await rewrite(url, 0)


async def test_a_log_that_goes_on_or_is_trimmed_is_not_taken_for_a_rewritten_one(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = str(tmp_path / "heads.jsonl")
    async with opened(url) as store:
        heads = LogHeads(LogHeadSettings(file=file), store, WORLD)
        for number in range(4):
            await store.operations.record("ann", "thread read", "thread", f"{number}")
            await heads.publish()
        await store.operations.trim(END)
        await heads.publish()
        await store.operations.record("ann", "thread read", "thread", "5")
        await heads.publish()
    assert heads.counts["rewritten"] == 0
    assert logged(caplog, "operations_log_rewritten") == []
    assert cli.main(["operations", "verify", url, "--head-file", file]) == 0


async def test_what_could_not_be_published_is_published_later(
    url: str, tmp_path: Path, witness: Witness, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    settings = LogHeadSettings(file=str(folder / "heads.jsonl"), webhook=witness.url)
    witness.status = 503
    async with opened(url) as store:
        heads = LogHeads(settings, store, WORLD)
        folder.rmdir()
        await store.operations.record("ann", "thread read", "thread", "t")
        for _ in range(2):
            await heads.publish()
        assert len(logged(caplog, "operations_head_unpublished")) == 4
        folder.mkdir()
        await heads.publish()
        assert witness.bodies == []
        witness.status = 204
        await heads.publish()
    assert len(read_heads(str(folder / "heads.jsonl"))) == 1
    assert len(witness.bodies) == 1
    assert heads.counts["unpublished"] == 5, "file and webhook, twice, and the webhook once more"


async def test_an_application_publishes_for_as_long_as_it_lives(url: str, tmp_path: Path) -> None:
    file = tmp_path / "heads.jsonl"
    store = opened(url)
    application = app(store, log_heads=LogHeadSettings(file=str(file), every_seconds=1.0))
    inbox: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    sent: list[str] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await inbox.put({"type": "lifespan.startup"})
    living = asyncio.create_task(application({"type": "lifespan"}, inbox.get, send))
    await until(lambda: "lifespan.startup.complete" in sent)
    await store.operations.record("ann", "thread read", "thread", "t")
    await until(file.exists)
    await inbox.put({"type": "lifespan.shutdown"})
    await living
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert [each.namespace for each in read_heads(str(file))] == ["default"]


def test_the_command_line_appends_the_head_to_a_file(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "heads.jsonl")
    verify = ["operations", "verify", url]
    with sync.open(url, heartbeat=None) as store:
        store.operations.record("ann", "thread read", "thread", "t")
        assert cli.main([*verify, "--head-file", file]) == 2, "it has no head"
        assert cli.main([*verify, "--publish"]) == 2
        assert cli.main([*verify, "--head-file", file, "--publish"]) == 0
        assert (
            "would not show a log that the owner of its database rewrote" in capsys.readouterr().out
        )
        store.operations.record("ann", "thread read", "thread", "u")
    assert cli.main([*verify, "--head-file", file, "--publish"]) == 0
    assert "nothing from elsewhere confirms the 1 entry after it" in capsys.readouterr().out
    assert cli.main([*verify, "--head-file", file]) == 0
    assert "up to entry 2 it is the log whose head was stored" in capsys.readouterr().out
    assert [each.head[:2] for each in read_heads(file)] == ["1:", "2:"]


def test_a_file_that_was_cut_off_is_read_and_any_other_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "heads.jsonl"
    head = f'{{"at":"2026-01-01T00:00:00+00:00","namespace":"default","head":"1:{"a" * 64}"}}'
    file.write_text(f'{head}\n{head}\n{{"at":"2026')
    heads = read_heads(str(file))
    assert len(heads) == 2
    append_heads(str(file), heads[:1])
    with pytest.raises(InvalidInput, match="line 3"):
        read_heads(str(file))
    for text in (f"nonsense\n{head}", f'{{"at":"","namespace":"x","head":"1:2"}}\n{head}'):
        file.write_text(text)
        with pytest.raises(InvalidInput, match="line 1"):
            read_heads(str(file))


@pytest.mark.parametrize(
    "wrong",
    [
        {"every_seconds": 0.5},
        {"webhook": "http://witness.example.com/"},
        {"webhook": "ftp://witness.example.com/"},
        {"file": "/nowhere/at/all/heads.jsonl"},
    ],
)
async def test_a_setting_that_could_not_work_is_refused(wrong: dict[str, Any], url: str) -> None:
    with pytest.raises(InvalidInput):
        app(opened(url), log_heads=LogHeadSettings(**wrong))
