"""100,000 messages of each source, killed twenty times on their way."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from backup.conftest import NewStore
from servers.redis import RedisServer

import stateward
from moves.kills import import_killed
from moves.test_openai_agents import Item, Origin, items
from stateward import sync
from stateward.integrations.openai_agents import StatewardSession
from stateward.transfer.moves.mover import import_from

MESSAGES, KILLS = 100_000, 20


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.stop()


async def make(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """Half of the messages in one conversation, half in many."""
    sizes = [10_000, *[40] * 250]
    if kind == "jsonl":
        path = folder / "messages.jsonl"
        with path.open("w") as file:
            for number, turns in enumerate(sizes):
                for turn in range(turns):
                    line = {"thread": f"s-{number}", "at": 1.7e9 + turn, "messages": items(turn)}
                    file.write(json.dumps(line) + "\n")
        return f"jsonl:{path}"
    origin = Origin(kind, folder, request)
    async with origin.sessions() as session:
        for number, turns in enumerate(sizes):
            said: list[Item] = [item for turn in range(turns) for item in items(turn)]
            one = session(f"s-{number}")
            for start in range(0, len(said), 5000):
                await one.add_items(said[start : start + 5000])
    return origin.url


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "sqlalchemy", "postgres", "redis"])
async def test_a_hundred_thousand_messages_survive_twenty_kills(
    kind: str, tmp_path: Path, new_store: NewStore, request: pytest.FixtureRequest
) -> None:
    source, url, chance = await make(kind, tmp_path, request), new_store("sqlite"), random.Random(7)
    surveyed, all_said = 500, 1700  # words until anything is written, and until the end
    for kill in range(1, KILLS + 1):
        words = chance.randrange(surveyed, surveyed + (all_said - surveyed) * kill // KILLS)
        assert import_killed(source, url, words, free=True).isdigit()
    with sync.open(url) as store:
        held = sum(thread.messages for thread in store.threads())
    began = time.monotonic()
    report = import_from(source, url)
    print(f"\n{kind}: {held:,} were there after {KILLS} kills; the last run added {report.added:,}")
    assert 0 < held < MESSAGES
    assert held + report.added == MESSAGES
    assert (report.items, report.refused) == (MESSAGES, 0)
    assert report.digest == report.read
    took = time.monotonic() - began
    second = import_from(source, url)
    print(f"{kind}: last run {took:.1f} s, digest {report.digest}")
    assert (second.added, second.there) == (0, 251)
    fresh = new_store("sqlite")
    began = time.monotonic()
    whole = import_from(source, fresh)
    took = time.monotonic() - began
    print(f"{kind}: in one go {took:.1f} s, {MESSAGES / took:,.0f} messages/s")
    assert whole.digest == whole.read == report.digest
    with sync.open(url) as store:
        assert sum(thread.messages for thread in store.threads()) == MESSAGES
    async with stateward.open(url) as store:
        mine = StatewardSession(store, "s-7")
        assert await mine.get_items() == [item for turn in range(40) for item in items(turn)]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_memory_does_not_grow_with_the_source(tmp_path: Path, new_store: NewStore) -> None:
    peaks = []
    for number in (10_000, 200_000):
        path = tmp_path / f"{number}.jsonl"
        with path.open("w") as file:
            for turn in range(number):
                message = {"role": "user", "content": "x" * 400}
                file.write(json.dumps({"thread": f"s-{turn % 3}", "message": message}) + "\n")
        code = (
            "import re, sys; from stateward.transfer.moves.mover import import_from; "
            "import_from(sys.argv[1], sys.argv[2]); "  # what it was forked from counts not
            r"print(re.search(r'VmHWM:\s*(\d+)', open('/proc/self/status').read())[1])"
        )
        command = [sys.executable, "-c", code, f"jsonl:{path}", new_store("sqlite")]
        peaks.append(int(subprocess.run(command, check=True, capture_output=True).stdout))
    print(f"\npeak of 10,000 messages {peaks[0] // 1024} MB, of 200,000 {peaks[1] // 1024} MB")
    assert peaks[1] - peaks[0] < 40 * 1024
