"""What an append costs the server: instructions of Valkey, and bytes of its append-only file.

    python -m bench.server_work_redis            needs valgrind; about a minute
    python -m bench.server_work_redis --bytes    what a turn stores and writes, part by part

Times on a shared machine differ from minute to minute. Instructions, which callgrind counts, agree
within 1.5 % from run to run. A turn is two messages of 500 bytes; each conversation has had
`TURNS` before anything is counted.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import redis

from bench.contestants.raw_redis import SAFE_APPEND
from stateward.engines.redis.engine import RedisEngine
from stateward.engines.redis.settings import parse_server
from stateward.engines.registry import parse
from stateward.ops import Append, Applied, Commit, Entity
from stateward.world import World

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # where servers are started

from servers.redis import RedisServer

CONVERSATIONS = 50  # of which a batch has one turn each
TURNS = 20
ROUNDS = 20
BODY = '{"role":"user","content":"' + "x" * 472 + '"}'
MONTH = 30 * 86_400
PATIENCE = 60.0  # seconds: under valgrind everything takes fifty times as long


class CountedServer(RedisServer):
    """A server whose instructions are counted while nobody else is asked."""

    def command(self) -> list[str]:
        out = f"--callgrind-out-file={self.folder}/counted"
        return ["valgrind", "-q", "--tool=callgrind", out, *super().command()]

    def counted(self, work: Callable[[], None]) -> int:
        self.control("--zero")
        work()
        return self.dumped()

    def dumped(self) -> int:
        """The instructions since they were last set to zero."""
        self.control("--dump")
        dumps = sorted(self.folder.glob("counted.*"), key=lambda path: int(path.suffix[1:]))
        for line in dumps[-1].read_text().splitlines():
            if line.startswith("totals:"):
                return int(line.split()[1])
        raise RuntimeError("callgrind has counted nothing")

    def control(self, word: str) -> None:
        subprocess.run(["callgrind_control", word, str(self.pid)], check=True, capture_output=True)


def appends(url: str, batch: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """What appends so many turns at once until each conversation has had one more; and its end."""
    loop, world = asyncio.new_event_loop(), World()
    engine = RedisEngine(parse_server(parse(f"{url}?timeout={PATIENCE:.0f}"), world))
    loop.run_until_complete(engine.open())
    entities = [Entity("default", "thread", f"s-{number:05}") for number in range(CONVERSATIONS)]

    def commit(entity: Entity) -> Commit:
        turn = Append((BODY, BODY))
        return Commit(entity, world.new_op(), (turn,), owner="u-42", retain=float(MONTH))

    def work() -> None:
        for at in range(0, CONVERSATIONS, batch):
            asked = [commit(entity) for entity in entities[at : at + batch]]
            for outcome in loop.run_until_complete(engine.execute(asked)):
                assert isinstance(outcome, Applied), outcome

    def end() -> None:
        loop.run_until_complete(engine.close())
        loop.close()

    return work, end


def raw(url: str, safe: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """The same by hand in one pipeline: bare, or with a key and an expiry."""
    client = redis.Redis.from_url(url, socket_timeout=PATIENCE)
    script, world = client.register_script(SAFE_APPEND), World()
    client.script_load(SAFE_APPEND)

    def work() -> None:
        with client.pipeline(transaction=False) as pipe:
            for number in range(CONVERSATIONS):
                if safe:
                    keys = [f"safe:{number}", f"key:{world.new_op()}"]
                    pipe.evalsha(script.sha, 2, *keys, 7 * 86_400, MONTH, BODY, BODY)
                else:
                    pipe.rpush(f"raw:{number}", BODY, BODY)
            pipe.execute()

    return work, client.close


def nothing(url: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """A script that does nothing with what an append of one caller sends."""
    client = redis.Redis.from_url(url, socket_timeout=PATIENCE)
    script, world = client.script_load("return 0"), World()

    def work() -> None:
        for number in range(CONVERSATIONS):
            client.evalsha(script, 1, f"key:{number}", world.new_op(), "=u-42", BODY, BODY)

    return work, client.close


def main() -> None:
    if "--bytes" in sys.argv[1:]:
        from bench import server_bytes_redis

        return server_bytes_redis.main()
    contestants: list[tuple[str, Callable[[str], tuple[Callable[[], None], Callable[[], None]]]]]
    contestants = [
        ("RPUSH, pipelined", lambda url: raw(url, safe=False)),
        ("a script: key, RPUSH, expiry", lambda url: raw(url, safe=True)),
        ("a script that does nothing", nothing),
        ("stateward, in batches of 50", lambda url: appends(url, CONVERSATIONS)),
        ("stateward, one at a time", lambda url: appends(url, 1)),
    ]
    print(f"{'':32}instructions an append   bytes of the append-only file")
    for name, begin in contestants:
        with tempfile.TemporaryDirectory() as folder:
            settings = ("--appendonly", "yes", "--appendfsync", "everysec")
            server = CountedServer(Path(folder), "valkey", *settings)
            server.start()
            work, end = begin(server.url)
            asking = redis.Redis(port=server.port, socket_timeout=PATIENCE)
            try:
                for _ in range(TURNS):
                    work()
                before = int(asking.info("persistence")["aof_current_size"])
                counted = server.counted(lambda work=work: [work() for _ in range(ROUNDS)])
                after = int(asking.info("persistence")["aof_current_size"])
                calls = CONVERSATIONS * ROUNDS
                print(f"{name:32}{counted / calls:>15,.0f}{(after - before) / calls:>25,.0f}")
            finally:
                end()
                asking.close()
                server.kill()


if __name__ == "__main__":
    main()
