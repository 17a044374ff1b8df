"""A real PgBouncer in transaction mode before a real PostgreSQL.

No wheel carries it: tools/system_packages.py installs it where that is allowed. Where there is none
the tests that need it say loudly that they did not run; in CI they fail.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import pytest

from servers.ports import free_port
from servers.postgres import PostgresServer, as_nobody, give
from system_packages import find, is_required

READY_SECONDS = 15.0
SERVER_CONNECTIONS = 3  # fewer than clients: each transaction gets another session than the last
MISSING = "PgBouncer is not on this machine and could not be installed: NOT TESTED behind it"

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
server_round_robin = 1
log_connections = 0
log_disconnections = 0
{more}
"""


class PgBouncer:
    """One process on a free loopback port. `more` are lines of its configuration."""

    def __init__(
        self,
        server: PostgresServer,
        *more: str,
        size: int = SERVER_CONNECTIONS,
        port: int | None = None,
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="stateward-pgbouncer-"))
        self.port = port or free_port()
        users = self._folder / "users"
        users.write_text('"postgres" ""\n')
        configuration = self._folder / "pgbouncer.ini"
        configuration.write_text(
            CONFIGURATION.format(
                target=server.port, port=self.port, users=users, size=size, more="\n".join(more)
            )
        )
        for path in (self._folder, users, configuration):
            give(path)
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [_binary(), str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                **as_nobody(),
            )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while True:
            log = (self._folder / "log").read_text(errors="replace")
            assert self._process.poll() is None, f"PgBouncer ended:\n{log}"
            try:
                return psycopg.connect(self.url_of("any").partition("?")[0]).close()
            except psycopg.OperationalError:
                assert time.monotonic() < end, f"PgBouncer is not ready in time:\n{log}"
                time.sleep(0.02)

    def url_of(self, schema: str, **options: str) -> str:
        """The URL of a store in that schema."""
        pairs = {"schema": schema} | options
        query = "&".join(f"{name}={value}" for name, value in pairs.items())
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres?{query}"

    def remove(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def need_pgbouncer(request: pytest.FixtureRequest) -> None:
    """Go on only where there is one."""
    if _binary():
        return
    if is_required("pgbouncer"):
        pytest.fail(MISSING)
    capturing = request.config.pluginmanager.getplugin("capturemanager")
    with capturing.global_and_fixture_disabled():
        print(f"\n*** {MISSING} ***", file=sys.stderr, flush=True)
    pytest.skip(MISSING)


def keeps_nothing() -> list[str]:
    """The setting with which newer releases do not keep prepared statements either."""
    said = subprocess.run([_binary(), "--version"], capture_output=True, text=True, check=True)
    release = tuple(map(int, said.stdout.split()[1].split(".")[:2]))
    return ["max_prepared_statements = 0"] if release >= (1, 21) else []


def _binary() -> str:
    return find("pgbouncer") or ""
