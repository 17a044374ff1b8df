"""What a cache is for: a tail of long messages that has not changed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from servers.postgres import PostgresServer

import stateward.sync as stateward

ROUNDS = 20


class Relay:
    """Before a server: counts the bytes that come from it."""

    def __init__(self, port: int) -> None:
        self.bytes = 0
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def _begin(self, work: Callable[..., None], *args: object) -> None:
        self._threads.append(threading.Thread(target=work, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            for source, target in ((client, server), (server, client)):
                self._begin(self._pump, source, target, source is server)

    def _pump(self, source: socket.socket, target: socket.socket, counts: bool) -> None:
        try:
            while data := source.recv(65_536):
                self.bytes += len(data) * counts
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # and the other way ends, too
            each.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()


@contextmanager
def relayed(server: PostgresServer) -> Iterator[tuple[str, Relay]]:
    """The server's URL by way of a relay."""
    relay = Relay(server.port)
    try:
        yield server.url.replace(f":{server.port}/", f":{relay.port}/"), relay
    finally:
        relay.close()


def test_a_cached_load_of_an_unchanged_tail_is_cheaper() -> None:
    """By what the server has to send, which no other process makes more or less."""
    server = PostgresServer().start()
    try:
        with (
            relayed(server) as (url, relay),
            stateward.open(url) as plain,
            stateward.open(url, cache=stateward.Cache()) as cached,
        ):
            for number in range(20):
                words = " ".join(f"word{(number * at) % 977}" for at in range(700))[:4000]
                plain.thread("t").append({"role": "user", "content": words})
            cost = []
            for store in (plain, cached):
                store.thread("t").load(last=20)
                before = relay.bytes
                for _ in range(ROUNDS):
                    assert len(store.thread("t").load(last=20).messages) == 20
                cost.append(relay.bytes - before)
        assert cached.counters.cache_misses == 1
        assert cost[0] > ROUNDS * 20 * 4000
        assert cost[1] < cost[0] / 50
    finally:
        server.remove()
