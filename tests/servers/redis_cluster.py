"""A real cluster, and a real pair of servers under sentinels, made by hand from single servers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.ports import free_port
from servers.redis import RedisServer

PRIMARIES = 3
SLOTS = 16_384
PATIENCE = 100.0  # a sentinel whose disk stood still for 2 s does nothing for the next 30
SETTINGS = (
    *("--cluster-enabled", "yes"),
    *("--cluster-node-timeout", "1000"),
    *("--cluster-require-full-coverage", "no"),
)


class RedisCluster:
    """Three primaries, each with as many replicas as asked for."""

    def __init__(
        self, folder: Path, name: str = "valkey", *settings: str, replicas: int = 1
    ) -> None:
        settings = settings or ("--appendonly", "no")
        count = PRIMARIES * (1 + replicas)
        self.nodes = [
            RedisServer(folder / f"node{n}", name, *SETTINGS, *settings, port=free_port())
            for n in range(count)
        ]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:PRIMARIES])
        return f"redis+cluster://{hosts}"

    def start(self) -> RedisCluster:
        for node in self.nodes:
            node.start()
        for number, node in enumerate(self.nodes[:PRIMARIES]):
            first = SLOTS * number // PRIMARIES
            last = SLOTS * (number + 1) // PRIMARIES - 1
            _ok(node.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last)))
            _ok(node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1)))
        for node in self.nodes[1:]:
            _ok(self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port)))
        size = f"cluster_known_nodes:{len(self.nodes)}".encode()
        _until(lambda: all(size in node.ask("CLUSTER", "INFO") for node in self.nodes))
        for number, node in enumerate(self.nodes[PRIMARIES:]):
            id = self.nodes[number % PRIMARIES].ask("CLUSTER", "MYID").split()[1].decode()
            _until(lambda node=node, id=id: node.ask("CLUSTER", "REPLICATE", id) == b"+OK\r\n")
        self.wait_until_ready()
        return self

    def wait_until_ready(self) -> None:
        """Every node knows that all is well, and every replica is in step."""
        _until(lambda: all(b"cluster_state:ok" in n.ask("CLUSTER", "INFO") for n in self.nodes))
        up = b"master_link_status:up"
        replicas = [node for node in self.nodes if b"role:slave" in node.ask("INFO", "replication")]
        _until(lambda: all(up in replica.ask("INFO", "replication") for replica in replicas))

    def is_primary(self, node: RedisServer) -> bool:
        return b"role:master" in node.ask("INFO", "replication")

    def open_slots(self) -> None:
        """Every node is handing all of its slots over to the next one, and never ends it."""
        primaries = self.nodes[:PRIMARIES]
        ids = [node.ask("CLUSTER", "MYID").split()[1].decode() for node in primaries]
        for number, node in enumerate(primaries):
            after = (number + 1) % PRIMARIES
            slots = range(SLOTS * number // PRIMARIES, SLOTS * (number + 1) // PRIMARIES)
            for at, word, other in (
                (primaries[after], "IMPORTING", number),
                (node, "MIGRATING", after),
            ):
                asked = [("CLUSTER", "SETSLOT", str(slot), word, ids[other]) for slot in slots]
                assert at.ask_all(asked) == b"+OK\r\n" * len(slots)

    def empty(self) -> None:
        """Remove everything, for a test that wants to begin with nothing."""
        for node in self.nodes:
            if self.is_primary(node):
                _ok(node.ask("FLUSHALL"))

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


class RedisSentinels:
    """A primary, two replicas, and three sentinels that watch over them."""

    service = "state"

    def __init__(self, folder: Path, name: str = "valkey", *settings: str) -> None:
        settings = settings or ("--appendonly", "no")
        self.primary = RedisServer(folder / "primary", name, *settings)
        follow = ("--replicaof", f"127.0.0.1 {self.primary.port}")
        self.replicas = [
            RedisServer(folder / f"replica{n}", name, *settings, *follow) for n in range(2)
        ]
        self.sentinels = [_Sentinel(folder / f"sentinel{n}", name) for n in range(3)]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{self.service}"

    def start(self) -> RedisSentinels:
        self.primary.start()
        up = b"master_link_status:up"
        for replica in self.replicas:
            replica.start()
        _until(lambda: all(up in r.ask("INFO", "replication") for r in self.replicas))
        for sentinel in self.sentinels:
            sentinel.watch(self.service, self.primary.port)
        for sentinel in self.sentinels:
            _until(lambda s=sentinel: s.knows(self.service, 2, 2))
        return self

    def heir(self) -> RedisServer | None:
        """The replica that has become the primary."""
        for replica in self.replicas:
            if b"role:master" in replica.ask("INFO", "replication"):
                return replica
        return None

    def stop(self) -> None:
        for server in (*self.sentinels, self.primary, *self.replicas):
            server.stop()


class _Sentinel(RedisServer):
    def __init__(self, folder: Path, name: str) -> None:
        config = folder / "sentinel.conf"
        super().__init__(folder, name, str(config), "--sentinel")
        self._config = config

    def command(self) -> list[str]:
        binary, *_ = super().command()
        return [binary, str(self._config), "--sentinel"]

    def watch(self, service: str, port: int) -> None:
        self._config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
            f"sentinel monitor {service} 127.0.0.1 {port} 2\n"
            f"sentinel down-after-milliseconds {service} 500\n"
            f"sentinel failover-timeout {service} 3000\n"
        )
        self.start()

    def knows(self, service: str, sentinels: int, replicas: int) -> bool:
        said = self.ask("SENTINEL", "MASTER", service)
        return _field(said, b"num-other-sentinels") == sentinels and (
            _field(said, b"num-slaves") == replicas
        )


@contextmanager
def running_cluster(folder: Path, name: str = "valkey", **options: int) -> Iterator[RedisCluster]:
    """A cluster for as long as the block lasts."""
    cluster = RedisCluster(folder, name, **options)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@contextmanager
def running_sentinels(folder: Path, name: str = "valkey") -> Iterator[RedisSentinels]:
    """Servers under sentinels for as long as the block lasts."""
    sentinels = RedisSentinels(folder, name)
    try:
        yield sentinels.start()
    finally:
        sentinels.stop()


def _field(reply: bytes, name: bytes) -> int:
    words = reply.split(b"\r\n")
    return int(words[words.index(name) + 2]) if name in words else -1


def _ok(reply: bytes) -> None:
    assert reply == b"+OK\r\n", reply


def _until(condition: object) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "the servers do not get ready"
        time.sleep(0.01)
