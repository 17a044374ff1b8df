"""Servers of the audit's own: started for it, killed by it, and gone when it ends.

They are durable unless the user's settings say otherwise, listen on a free port of this machine
alone, and want a password that nobody else knows.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import Any, ClassVar

from stateward.errors import InvalidInput

READY = 30.0  # seconds for a server to answer
AGAIN = 0.05  # seconds before one is started anew that met what a killed one has left
GUARD = os.path.join(os.path.dirname(__file__), "guard.py")
EMPTY = '""'
SETTING = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


class OwnServer:
    """One server process in a folder of its own. Its URL stays the same over restarts."""

    kind: ClassVar[str]
    defaults: ClassVar[dict[str, str]] = {}

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**self.defaults, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._password = secrets.token_hex(16)
        self._port = _free_port()
        self._folder = Path(tempfile.mkdtemp(prefix=f"stateward-audit-{self.kind}-"))
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", GUARD, str(self._folder)],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,  # Ctrl-C is the audit's
        )

    @property
    def url(self) -> str:
        raise NotImplementedError

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start it, for the first time or again; returns when it answers."""
        await self._prepare()
        end = time.monotonic() + READY
        while True:
            process = self._process = self._spawn()
            self._tell(process.pid)
            while process.poll() is None and time.monotonic() < end:
                if await self._is_ready():
                    return
                await asyncio.sleep(0.02)
            # What a killed one held may still be held: its port, its shared memory.
            if time.monotonic() >= end or not self._was_hasty():
                self._kill_all()
                raise InvalidInput(f"the {self.kind} server does not start: {self._last_words()}")
            await asyncio.sleep(AGAIN)

    def kill(self) -> None:
        """SIGKILL to all of it at once: nothing is flushed, nobody is told."""
        self._kill_all()

    def remove(self) -> None:
        """End it, and delete all that it has stored. Can be called at any time."""
        self._kill_all()
        self._guard.communicate()

    async def _prepare(self) -> None:
        """What must be there before the first start."""

    def _command(self) -> list[str]:
        raise NotImplementedError

    async def _is_ready(self) -> bool:
        raise NotImplementedError

    def _as_whom(self) -> dict[str, Any]:
        """Arguments of `Popen`: the user that runs it."""
        return {}

    def _spawn(self) -> subprocess.Popen[bytes]:
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # Ctrl-C is the audit's
                **self._as_whom(),
            )

    def _kill_all(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        children = _children(process.pid)
        for pid in (process.pid, *children):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it has ended with the first
        process.wait()
        self._tell(0)

    def _tell(self, pid: int) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(b"%d\n" % pid)
        self._guard.stdin.flush()

    def _log(self) -> str:
        path = self._folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _was_hasty(self) -> bool:
        """Whether it ended because of what a killed one has left behind for a moment."""
        said = self._last_words()
        return "already in use" in said or "shared memory" in said

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log().splitlines() if line.strip()]
        errors = [line for line in lines[-20:] if re.search("FATAL|rror|Bad|not ", line)]
        return " ".join(errors[-3:] or lines[-3:])[-400:] or "it says nothing"


class RedisLike(OwnServer):
    """Redis, or what speaks as it does."""

    program: ClassVar[str]
    defaults: ClassVar[dict[str, str]] = {"appendonly": "yes", "appendfsync": "always", "save": ""}

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._binary = _program(self.program, self.kind)
        super().__init__(settings)

    @property
    def url(self) -> str:
        return f"redis://:{self._password}@127.0.0.1:{self._port}"

    async def _prepare(self) -> None:
        fixed = {
            "port": str(self._port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "daemonize": "no",
            "requirepass": self._password,
        }
        lines = [f"{name} {value or EMPTY}" for name, value in self._settings.items()]
        lines += [f'{name} "{value}"' for name, value in fixed.items()]
        path = self._folder / "server.conf"
        path.touch(0o600)
        path.write_text("\n".join([*lines, ""]))

    def _command(self) -> list[str]:
        return [self._binary, str(self._folder / "server.conf")]

    async def _is_ready(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        try:
            writer.write(f"AUTH {self._password}\r\nPING\r\n".encode())
            async with asyncio.timeout(5.0):
                return (await reader.readline(), await reader.readline()) == (
                    b"+OK\r\n",
                    b"+PONG\r\n",
                )
        except (OSError, TimeoutError):
            return False
        finally:
            writer.transport.abort()


class Redis(RedisLike):
    kind = "redis"
    program = "redis-server"


class Valkey(RedisLike):
    kind = "valkey"
    program = "valkey-server"


class Postgres(OwnServer):
    """PostgreSQL. It refuses to run as root, so root runs it as nobody."""

    kind = "postgres"

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._binaries = _postgres_folder()
        super().__init__(settings)
        self._data = self._folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://audit:{self._password}@127.0.0.1:{self._port}/postgres"

    async def _prepare(self) -> None:
        if (self._data / "PG_VERSION").exists():
            return
        secret = self._folder / "password"
        secret.touch(0o600)
        secret.write_text(self._password)
        for path in (self._folder, secret):
            _give(path)
        process = await asyncio.create_subprocess_exec(
            os.path.join(self._binaries, "initdb"),
            *("-D", str(self._data), "-U", "audit", "-A", "scram-sha-256"),
            *(f"--pwfile={secret}", "-E", "UTF8", "--locale=C", "--no-sync"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd="/",
            **self._as_whom(),
        )
        try:
            said, _ = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise InvalidInput(f"initdb failed: {said.decode(errors='replace').strip()[-300:]}")

    def _command(self) -> list[str]:
        fixed = {
            "port": str(self._port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
        }
        command = [os.path.join(self._binaries, "postgres"), "-D", str(self._data)]
        for name, value in {**self._settings, **fixed}.items():
            command += ["-c", f"{name}={value}"]
        return command

    async def _is_ready(self) -> bool:
        """Its own file says so, as it does to pg_ctl."""
        path = self._data / "postmaster.pid"
        if self._process is None or not path.exists():
            return False
        lines = path.read_text(errors="replace").splitlines()
        mine = lines[:1] == [str(self._process.pid)]
        return mine and len(lines) > 7 and lines[7].strip() == "ready"

    def _as_whom(self) -> dict[str, Any]:
        if not _is_root():
            return {}
        uid, gid = _nobody()
        return {"user": uid, "group": gid, "extra_groups": []}


KINDS: dict[str, type[OwnServer]] = {kind.kind: kind for kind in (Redis, Valkey, Postgres)}


def own_server(kind: str, settings: Mapping[str, str]) -> OwnServer:
    """A server that is not started yet; `InvalidInput` says what is missing for it."""
    if kind not in KINDS:
        raise InvalidInput(f"no server {kind!r} can be started; there are: {', '.join(KINDS)}")
    return KINDS[kind](settings)


def read_settings(given: list[str]) -> dict[str, str]:
    """From "name=value" each; raises `InvalidInput` for what is none."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not SETTING.fullmatch(name) or not value.isprintable() or '"' in value:
            raise InvalidInput(f"--server-setting is like fsync=off, not {text!r}")
        found[name] = value
    return found


def _program(name: str, kind: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise InvalidInput(
            f"--with-server {kind} needs {name}, which is not on the PATH: install {kind} (e.g. "
            f"apt-get install {kind}-server, brew install {kind}), or pass the URL of a server"
        )
    return found


# Where packages put PostgreSQL without putting it on the PATH; the newest is used.
POSTGRES_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


def _postgres_folder() -> str:
    """Where `postgres` and `initdb` both are."""
    on_path = shutil.which("postgres")
    folders = [os.path.dirname(os.path.realpath(on_path))] if on_path is not None else []
    for pattern in POSTGRES_FOLDERS:
        folders += sorted(glob(pattern), key=_version, reverse=True)
    for folder in folders:
        if all(os.access(os.path.join(folder, name), os.X_OK) for name in ("postgres", "initdb")):
            return folder
    raise InvalidInput(
        "--with-server postgres needs postgres and initdb, which are neither on the PATH nor where "
        "packages put them: install PostgreSQL (e.g. apt-get install postgresql, brew install "
        "postgresql), or pass the URL of a server"
    )


def _version(folder: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_root() -> bool:
    return hasattr(os, "getuid") and os.getuid() == 0


def _nobody() -> tuple[int, int]:
    import pwd  # not on every system

    user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


def _give(path: Path) -> None:
    if _is_root():
        os.chown(path, *_nobody())


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []
