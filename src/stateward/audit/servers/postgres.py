"""PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from glob import glob
from pathlib import Path
from typing import Any

from stateward.audit.servers.server import READY, OwnServer
from stateward.errors import InvalidInput

# Where packages put PostgreSQL without putting it on the PATH; the newest is used.
POSTGRES_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
LOCK, STATEMENT = 5, 60  # seconds that one may be waited for


class Postgres(OwnServer):
    """PostgreSQL server. It refuses to run as root, so root runs it as the user nobody."""

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
            output, _ = await asyncio.wait_for(process.communicate(), READY)
        except (asyncio.CancelledError, TimeoutError):
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise InvalidInput(f"initdb failed: {output.decode(errors='replace').strip()[-300:]}")

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
        """Return True if the server's status file says that it is ready, as pg_ctl checks it."""
        path = self._data / "postmaster.pid"
        if self._process is None or not path.exists():
            return False
        lines = path.read_text(errors="replace").splitlines()
        mine = lines[:1] == [str(self._process.pid)]
        return mine and len(lines) > 7 and lines[7].strip() == "ready"

    async def _write_anew(self) -> None:
        """Rewrite tables and indexes; the server recycles its write-ahead log in its own time."""
        async with self._connected() as connection:
            await connection.execute("VACUUM FULL")
            await connection.execute("CHECKPOINT")

    async def open_transactions(self) -> dict[int, str]:
        async with self._connected() as connection:
            rows = await connection.execute(
                "SELECT pid, query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
            )
            return {pid: " ".join(query.split()) for pid, query in await rows.fetchall()}

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """Connect with limits: what a memory holds must not be waited for without end."""
        from psycopg import AsyncConnection

        limits = f"-c lock_timeout={LOCK}s -c statement_timeout={STATEMENT}s"
        async with await AsyncConnection.connect(
            self.url, autocommit=True, connect_timeout=LOCK, options=limits
        ) as connection:
            yield connection

    def _stored(self) -> list[Path]:
        return [*self._data.glob("base/*/*"), *self._data.glob("global/*")]

    def _as_whom(self) -> dict[str, Any]:
        if not _is_root():
            return {}
        uid, gid = _nobody()
        return {"user": uid, "group": gid, "extra_groups": []}


def _postgres_folder() -> str:
    """Return the folder with both `postgres` and `initdb`."""
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


def _is_root() -> bool:
    return hasattr(os, "getuid") and os.getuid() == 0


def _nobody() -> tuple[int, int]:
    import pwd  # missing on some systems

    user = pwd.getpwnam("nobody")
    return user.pw_uid, user.pw_gid


def _give(path: Path) -> None:
    if _is_root():
        os.chown(path, *_nobody())
