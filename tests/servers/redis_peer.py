"""A peer that says what a test wants: for what no real server can be made to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import hiredis

from stateward.engines.redis.client.server import Address

Command = list[bytes]
Answer = Callable[[Command], bytes | None]

GREETED = {b"PING": b"+PONG\r\n", b"AUTH": b"+OK\r\n", b"CLIENT": b"+OK\r\n"}


class Hang(Exception):
    """Raised by an answer: the connection ends, after what was given to say."""


class RedisPeer:
    """Listens on loopback and answers each command by a function: bytes, or None for silence.

    It greets like a server, unless the function answers to that as well.
    """

    def __init__(self, answer: Answer) -> None:
        self.commands: list[Command] = []  # all that were heard, but for greetings
        self.greetings: list[list[Command]] = []  # of each connection
        self.answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self._listening.getsockname()[1])

    def heard(self, word: bytes) -> int:
        """How many commands began with this word."""
        return sum(command[0] == word for command in self.commands)

    def say(self, data: bytes) -> None:
        """To whoever connected last, unasked."""
        self._open[-1].sendall(data)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            self.greetings.append([])
            serving = threading.Thread(
                target=self._serve, args=(connection, self.greetings[-1]), daemon=True
            )
            self._threads.append(serving)
            serving.start()

    def _serve(self, connection: socket.socket, greeting: list[Command]) -> None:
        reader = hiredis.Reader(notEnoughData=None)
        try:
            while data := connection.recv(65_536):
                reader.feed(data)
                while (command := reader.gets()) is not None:
                    self._hear(connection, command, greeting)
        except (OSError, Hang):
            pass
        finally:
            connection.close()

    def _hear(self, connection: socket.socket, command: Command, greeting: list[Command]) -> None:
        if command[0] in GREETED:
            greeting.append(command)
        else:
            self.commands.append(command)
        try:
            reply = self.answer(command)
        except Hang as ending:
            connection.sendall(b"".join(ending.args))
            raise
        if reply is None and command[0] in GREETED:
            reply = GREETED[command[0]]
        if reply is not None:
            connection.sendall(reply)

    def close(self) -> None:
        # A listener that another thread accepts on goes away when it is shut down.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join()


@contextmanager
def running_peer(answer: Answer = lambda _: b"+OK\r\n") -> Iterator[RedisPeer]:
    """A peer for as long as the block lasts."""
    peer = RedisPeer(answer)
    try:
        yield peer
    finally:
        peer.close()


def slots(*parts: tuple[int, int, Address]) -> bytes:
    """The answer of CLUSTER SLOTS."""
    said = b"*%d\r\n" % len(parts)
    for first, last, (host, port) in parts:
        said += b"*3\r\n:%d\r\n:%d\r\n*2\r\n$%d\r\n%b\r\n:%d\r\n" % (
            first,
            last,
            len(host),
            host.encode(),
            port,
        )
    return said
