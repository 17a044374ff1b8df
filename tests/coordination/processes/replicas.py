"""Replicas as real processes: they say in JSON lines what happens, and are killed and paused.

A replica that fails, or writes anything to its standard error, fails the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryFile
from threading import Condition, Thread
from typing import Any

import apsw

ROLES = Path(__file__).parent / "roles"
PATIENCE = 120.0  # seconds after which what a test waits for has not happened

Event = dict[str, Any]


class Replica:
    """One process that runs a script of `roles/` with one JSON argument."""

    def __init__(self, role: str, **facts: Any) -> None:
        self.role = role
        self.said: list[Event] = []
        self._silent = False
        self._heard = Condition()
        self._errors = TemporaryFile()  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(ROLES / f"{role}.py"), json.dumps(facts)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._ear = Thread(target=self._listen, daemon=True)
        self._ear.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # one that is killed may leave half a line
                with self._heard:
                    self.said.append(json.loads(line))
                    self._heard.notify_all()
        with self._heard:
            self._silent = True
            self._heard.notify_all()

    # --- talking --------------------------------------------------------------------

    def tell(self, **order: Any) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, happened: Callable[[list[Event]], bool], what: str) -> None:
        """Wait until what it has said so far satisfies a condition."""
        with self._heard:
            self._heard.wait_for(lambda: self._silent or happened(self.said), PATIENCE)
            assert happened(self.said), f"{self.role} never said {what}: {self._account()}"

    def until_said(self, count: int = 1, **event: Any) -> None:
        """Wait until it has said something with these facts, so many times."""
        self.until(lambda _: len(self.all(**event)) >= count, f"{event} {count} times")

    def all(self, **facts: Any) -> list[Event]:
        """All it said so far with these facts."""
        return [e for e in list(self.said) if facts.items() <= e.items()]

    # --- living and dying -----------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        assert self.alive, f"{self.role} was gone before {number.name}: {self._account()}"
        os.kill(self.process.pid, number)

    def pause(self) -> None:
        """Returns when it really stands still."""
        self.signal(signal.SIGSTOP)
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{self.role} did not stop"

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9. It must have been alive until then."""
        self.signal(signal.SIGKILL)
        status = self.process.wait(PATIENCE)
        self._ear.join(PATIENCE)
        assert status == -signal.SIGKILL, f"{self.role} ended by itself: {self._account()}"

    def finish(self) -> list[Event]:
        """Wait until it ends by itself, without complaint. Returns all it said."""
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.role} hangs: {self._account()}") from None
        self._ear.join(PATIENCE)
        assert (status, self._complaints()) == (0, ""), self._account()
        return self.said

    def end(self) -> None:
        """Leave no process, thread or file behind, whatever happened."""
        if self.alive:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._ear.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self._errors):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:  # told something that it died before reading
                pass

    def _complaints(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def _account(self) -> str:
        return (
            f"exit status {self.process.poll()}, last words {self.said[-3:]}, "
            f"standard error:\n{self._complaints()}"
        )


def pause_all(replicas: Iterable[Replica], path: Path | None) -> None:
    """Let all of them stand still at once, none of them in the middle of a transaction.

    One that is would block everybody else for as long as it stands still: that is SQLite's
    answer to such a pause, but not what is to be tested. Without a `path` the store is a server,
    which ends transactions by itself.
    """
    if path is None:
        for replica in replicas:
            replica.pause()
        return
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(200)
    some = list(replicas)
    while True:
        for replica in some:
            replica.pause()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            return connection.close()
        except apsw.BusyError:
            for replica in some:
                replica.resume()


class Effects:
    """What the steps and tasks of all replicas did to the world, in one order.

    A file that every replica appends to, one line a write: its order is the order of time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def all(self, **facts: Any) -> list[Event]:
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [line for line in lines if facts.items() <= line.items()]

    def count(self, fact: str, **facts: Any) -> Counter[Any]:
        """How often each value of this fact occurs."""
        return Counter(str(line[fact]) for line in self.all(**facts))
