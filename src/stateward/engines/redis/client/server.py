"""A server as a new connection must know it: where it listens, and what to say there first."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hiredis import ReplyError

from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.failures import Demoted, refused
from stateward.world import World

Login = tuple[str | None, str] | None  # user (None: the server's own) and password; None: its own
CONNECTING = 3.0  # seconds that making a connection may take at most
DUE_SECONDS = 5.0  # at most, until a connection is asked whether its server is still the primary
WAITING = 0.5  # of a round trip's time may pass until another server has it
ROLE: Command = ("ROLE",)
NAME = "stateward"  # name of our connections in CLIENT LIST


class Address(NamedTuple):
    """Address of a server: a host and a port; or the path of a socket, and port 0."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"redis://{self.host}:{self.port}" if self.port else f"unix://{self.host}"


class Server(NamedTuple):
    """One server, a cluster, or a service that sentinels watch over."""

    addresses: tuple[Address, ...]  # of one server; or of some of a cluster's, or of sentinels
    username: str | None = None
    password: str | None = None
    tls: ssl.SSLContext | None = None
    timeout: float = 5.0  # seconds for one round trip
    wait_replicas: int = 0
    cluster: bool = False
    service: str = ""  # the name that sentinels know the primary by
    login: Callable[[], Login] | None = None  # asked at each new connection; may take its time
    world: World = World()
    sentinel_login: Login = None
    sentinel_tls: ssl.SSLContext | None = None

    def __repr__(self) -> str:
        return f"Server({', '.join(map(str, self.addresses))})"  # the fields include a password

    @property
    def connecting(self) -> float:
        return min(self.timeout, CONNECTING)

    def of_sentinels(self) -> Server:
        """Return how to talk to the sentinels, which have a login of their own, or none."""
        user, password = self.sentinel_login or (None, None)
        return self._replace(username=user, password=password, login=None, tls=self.sentinel_tls)

    def greeting(self, login: Login) -> list[Command]:
        """Return the first commands of a connection: its login, a PING, and its name."""
        commands: list[Command] = [("PING",), ("CLIENT", "SETNAME", NAME)]
        proof = self.proof(login)
        return [("AUTH", *proof), *commands] if proof else commands

    def proof(self, login: Login) -> tuple[str, ...]:
        """User and password, or the password alone; nothing where none is wanted."""
        user, password = login or (None, self.password)
        user = user or self.username
        if password is None:
            return ()
        return (password,) if user is None else (user, password)


def check_greeting(replies: Sequence[Any], greeting: Sequence[Command], address: Address) -> None:
    """Raise if the server will not have us. That it permits us no name, the last, is no reason."""
    for reply in replies[: len(greeting) - 1]:
        if isinstance(reply, ReplyError):
            raise refused(reply, str(address)) from reply


def check_role(replies: Sequence[Any], server: Server, address: Address) -> None:
    """Raise if what was asked for its `ROLE` is a replica; an error: the user may not ask."""
    role = replies[0]
    if isinstance(role, list) and role[0] != b"master" and not server.cluster:  # there it says so
        raise Demoted(f"{address}: the server has become a replica; a failover may be under way")
