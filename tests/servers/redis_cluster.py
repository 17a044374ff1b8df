"""A real cluster, and a real pair of servers under sentinels, made by hand from single servers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from servers.ports import free_port
from servers.redis import RedisServer
from stateward.engines.redis.client.slots import slot_of

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


class SlotMove:
    """A slot on its way from one primary to another, as operators move it: key by key.

    When it has arrived, the two have changed places, and it can be moved back.
    """

    def __init__(self, cluster: RedisCluster, key: str) -> None:
        slot = slot_of(key)
        self._key = key
        self._nodes = cluster.nodes[:PRIMARIES]
        self._ids = [node.ask("CLUSTER", "MYID").split()[1].decode() for node in self._nodes]
        self._slot = str(slot)
        has = [node.ask("EXISTS", key).startswith(b":") for node in self._nodes]
        self._from = has.index(True)
        self._to = (self._from + 1) % PRIMARIES

    @property
    def source(self) -> RedisServer:
        return self._nodes[self._from]

    @property
    def target(self) -> RedisServer:
        return self._nodes[self._to]

    def begin(self) -> None:
        """From now on both know that it moves.

        A node that takes a slot over counts its epoch on from the highest that it knows: it must
        know all of them, or what is said of the past may count more for ever.
        """
        _until(self._is_settled)
        setslot = "CLUSTER", "SETSLOT", self._slot
        _ok(self.target.ask(*setslot, "IMPORTING", self._ids[self._from]))
        _ok(self.source.ask(*setslot, "MIGRATING", self._ids[self._to]))

    def keys(self) -> list[str]:
        """What the old node still has."""
        said = self.source.ask("CLUSTER", "GETKEYSINSLOT", self._slot, "1000")
        return sorted(word.decode() for word in said.split(b"\r\n")[2::2])

    def carry(self, keys: Sequence[str], *options: str) -> bytes:
        """Move these keys."""
        to = "127.0.0.1", str(self.target.port), "", "0", "1000"
        return self.source.ask("MIGRATE", *to, *options, "KEYS", *keys) if keys else b""

    def end(self) -> None:
        """Move what is left, and tell everybody. A node that hung may just have stored more."""
        _until(self._ended)
        self._from, self._to = self._to, self._from

    def _ended(self) -> bool:
        self.carry(self.keys(), "REPLACE")
        setslot = "CLUSTER", "SETSLOT", self._slot, "NODE", self._ids[self._to]
        said = [node.ask(*setslot) for node in (self.target, *self._nodes)]
        if set(said) != {b"+OK\r\n"}:
            return False
        _until(self._is_agreed)
        return True

    def _is_settled(self) -> bool:
        epochs = []
        for node in self._nodes:
            lines = node.ask("CLUSTER", "NODES").split(b"\r\n", 1)[-1].splitlines()
            words = [line.split() for line in lines if line.strip()]
            epochs.append({of[0]: of[6] for of in words})
        return epochs == [epochs[0]] * len(epochs)

    def _is_agreed(self) -> bool:
        """Whether every node sends whoever asks to the new one: gossip may be of the past."""
        there = b"-MOVED %b 127.0.0.1:%d\r\n" % (self._slot.encode(), self.target.port)
        return all(
            node.ask("EXISTS", self._key).startswith(b":" if node is self.target else there)
            for node in self._nodes
        )


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
        self.sentinels = [Sentinel(folder / f"sentinel{n}", name) for n in range(3)]

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


class Sentinel(RedisServer):
    """A sentinel with a configuration file of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        config = folder / "sentinel.conf"
        super().__init__(folder, name, str(config), "--sentinel")
        self._config = config

    def command(self) -> list[str]:
        binary, *_ = super().command()
        return [binary, str(self._config), "--sentinel"]

    def watch(self, service: str, port: int, *lines: str) -> None:
        self._config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
            f"sentinel monitor {service} 127.0.0.1 {port} 2\n"
            f"sentinel down-after-milliseconds {service} 500\n"
            f"sentinel failover-timeout {service} 3000\n" + "".join(f"{line}\n" for line in lines)
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
