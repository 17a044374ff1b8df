"""What the audit itself waits for has an end, whatever a memory holds."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from servers.postgres import wheel_binaries

from audit.auditing import answer, judged, recorded, small
from stateward.audit.safety import command, limits
from stateward.audit.servers.postgres import Postgres
from stateward.errors import InvalidInput

IDLE = '''
import json

from audit.mutations.sound.plain import PlainPostgresMemory


class Idle(PlainPostgresMemory):
    """Leaves a transaction open after a read of users' state."""

    provides = ("threads", "users", "erasure")

    def get_user(self, user):
        with self._transaction():
            pass
        self._own.db.autocommit = False
        found = self._own.db.execute('select body from users where "user" = %s', (user,)).fetchone()
        return json.loads(found[0]) if found else {}

    def _transaction(self):
        if getattr(self._own, "db", None) is not None and not self._own.db.closed:
            self._own.db.commit()
            self._own.db.autocommit = True
        return super()._transaction()

    def update_user(self, user, change):
        self.put_user(user, change(self.get_user(user)))

    def put_user(self, user, value, expect=None):
        with self._transaction() as db:
            db.execute('delete from users where "user" = %s', (user,))
            db.execute("insert into users values (%s, %s, 1)", (user, json.dumps(value)))

    def erase(self, user, threads):
        with self._transaction() as db:
            db.execute('delete from users where "user" = %s', (user,))
            for table in ("messages", "keys"):
                db.execute(f"delete from {table} where thread = any(%s)", (threads,))
'''


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "idle.py").write_text(IDLE)
    paths = [str(tmp_path), str(Path(__file__).parents[2]), *filter(None, sys.path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("PATH", os.pathsep.join([str(wheel_binaries()), os.environ["PATH"]]))
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("idle")
def test_a_transaction_that_a_call_leaves_open_is_named_and_keeps_nothing_waiting() -> None:
    record = recorded(small("idle:Idle", "erasure", with_server="postgres", faults=("crash",)))
    assert record.problems == {}
    found = answer(judged(record), "erasure")
    assert found.verdict == "fail"
    assert "a transaction stays open after get_user (1 of 4 trials)" in found.summary
    assert "idle in transaction after 'select body" in found.counter_example
    assert "no trace in the server's files" in {check.promise for check in record.erasure or ()}


@pytest.mark.usefixtures("idle")
async def test_a_lock_that_is_not_given_back_is_waited_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from psycopg import AsyncConnection
    from psycopg.errors import LockNotAvailable

    monkeypatch.setattr("stateward.audit.servers.postgres.LOCK", 1)
    server = Postgres({})
    try:
        await server.start()
        async with await AsyncConnection.connect(server.url) as holder:
            await holder.execute("create table held (id int)")
            await holder.commit()
            await holder.execute("select * from held")
            with pytest.raises(LockNotAvailable):
                await server.search(["text"])
            assert list((await server.open_transactions()).values()) == ["select * from held"]
    finally:
        server.remove()


def test_a_command_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "COMMAND", 0.2)
    with pytest.raises(InvalidInput, match=r"sleep did not end within 0\.2 s"):
        command.shell("sleep 60", {})


def test_nobody_waits_for_a_thread_that_hangs() -> None:
    free = threading.Event()

    async def hang() -> None:
        asyncio.get_running_loop().set_default_executor(limits.AbandonedThreads())
        assert await asyncio.to_thread(int, "5") == 5
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await asyncio.to_thread(free.wait)

    began = time.monotonic()
    asyncio.run(hang())
    free.set()
    assert time.monotonic() - began < 20.0


HANGS = """
import time

class Hangs:
    def __init__(self, namespace):
        pass

    def append(self, thread, messages, key):
        open("begun", "w").close()
        time.sleep(600)

    def load(self, thread, last):
        return []

    def clean(self):
        time.sleep(600)
"""


def test_a_memory_that_hangs_ends_soon_after_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(HANGS)
    os.mkfifo(tmp_path / "begun")
    program = "import sys; from stateward.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", program, "audit", "hangs:Hangs", "--yes", "--json"]
    process = subprocess.Popen(
        [*words, "--only", "sessions"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        text=True,
    )
    (tmp_path / "begun").read_text()  # a pipe, that the first call opens
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60.0)
    assert time.monotonic() - began < limits.INTERRUPTED + 2.0
    report = json.loads(output)
    assert report["interrupted"]
    assert f"did not end within {limits.INTERRUPTED:g} s" in report["left"]
