"""What a turn stores and writes on Valkey, part by part, beside the sessions of OpenAI's SDK.

    python -m bench.server_work_redis --bytes    some seconds; without openai-agents ours alone

Written are the commands of the append-only file, stored is what MEMORY USAGE says of the keys. As
in `bench.peers.keeping`, four conversations grow from nothing to 100 messages, and one of 1,000
messages by 2,000 more. The messages themselves take 1,000 bytes of each turn.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from typing import Any

import hiredis
import redis

from bench.conversations import Population, turn
from bench.driving import Tasks
from bench.homes import EVERYSEC, start_server
from bench.peers.table import STATE

SIZES = (("0 to 100 messages", 4, 50, 0), ("from 1,000 messages on", 1, 1_000, 1_000))


def commands_in(data: bytes) -> Iterator[tuple[list[bytes], int]]:
    """The commands of an append-only file, and how many bytes each takes."""
    reader = hiredis.Reader()
    reader.feed(data)
    while (words := reader.gets()) is not False:
        yield words, len(hiredis.pack_command(tuple(words)))


def part_of(words: list[bytes]) -> str:
    """A command with what it is about, without the names of conversations."""
    command = words[0].decode().upper()
    if len(words) == 1:
        return "MULTI and EXEC"
    key = words[1].decode()
    named = f"{command} {ending_of(key)}"
    if command != "HSET" or len(words) != 4 or key.endswith(":ops"):
        return named
    return f"{named} {words[2].decode()}"


def ending_of(key: str) -> str:
    """What all conversations have: of ours what follows the tag, of others the last word."""
    if "}" not in key:
        return ":" + key.rpartition(":")[2] if key.count(":") > 2 else "the session"
    beginning, _, ending = key.partition("{")
    if beginning != "stateward:":
        return f"index {beginning.split(':')[1]}"
    return ending.partition("}")[2] or "head"


def grown(entry: Any, conversations: int, turns: int, filled: int) -> list[dict[str, float]]:
    """Bytes written and stored for each turn, by part."""
    with tempfile.TemporaryDirectory(prefix="stateward-bytes-") as place:
        folder = Path(place)
        server = start_server(folder, *EVERYSEC)
        asking = redis.Redis(port=server.port)
        peer = Tasks(entry.load()(server.url), "asyncio")
        try:
            population = Population({filled: 1} if filled else {}, users=1, profiles=False)
            peer.once("fill", population)
            named = population.threads(filled) if filled else [f"c-{n}" for n in range(4)]
            kept, before = usage(asking), len(written(asking, folder))
            for number in range(turns):
                for name in named:
                    peer.once("append", name, population.user(0), turn(number))
            stored, wrote = usage(asking), Counter[str]()
            stored.subtract(kept)
            for words, size in commands_in(written(asking, folder)[before:]):
                wrote[part_of(words)] += size
        finally:
            peer.close()
            asking.close()
            server.stop()
    calls = conversations * turns
    return [{part: size / calls for part, size in each.most_common()} for each in (wrote, stored)]


def usage(asking: Any) -> Counter[str]:
    """What keys take, by their endings."""
    found: Counter[str] = Counter()
    for key in asking.keys("*"):
        found[ending_of(key.decode())] += asking.memory_usage(key, samples=0)
    return found


def written(asking: Any, folder: Path) -> bytes:
    """The append-only file, with all that was asked for: the server writes when it comes round."""
    size = asking.info("persistence")["aof_current_size"]
    size -= sum(path.stat().st_size for path in folder.rglob("*.base.*"))
    while True:
        data = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.incr.aof")))
        if len(data) >= size:
            return data
        sleep(0.05)


def main() -> None:
    entries = [entry for entry in STATE["redis"] if entry.role in ("stateward", "peer")]
    if find_spec("agents") is None:
        entries = [entry for entry in entries if entry.role == "stateward"]
    for name, conversations, turns, filled in SIZES:
        for entry in entries:
            wrote, stored = grown(entry, conversations, turns, filled)
            for what, parts in (("written", wrote), ("stored", stored)):
                total = sum(parts.values())
                print(f"\n{entry.load().name}, {name}: {total:,.0f} bytes {what} a turn")
                for part, size in parts.items():
                    if size >= 0.5:
                        print(f"  {size:>8,.1f}  {part}")


if __name__ == "__main__":
    main()
