"""Real processes that run a script of `roles/` and talk by lines.

A child says what it has done on its standard output, one line at a time, and is told what to do
on its standard input. A child that fails, or writes anything to its standard error, fails the test.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from threading import Condition, Thread
from typing import Any

ROLES = Path(__file__).parent / "roles"
PATIENCE = 30.0  # seconds after which a child that says nothing has failed the test


class Child:
    """One process; used by one test, ended by it or by the fixture."""

    def __init__(self, role: str, *args: object) -> None:
        self.role = role
        self.lines: list[str] = []  # complete lines only: a killed writer may leave a half
        self._silent = False
        self._heard = Condition()
        self._errors = TemporaryFile()  # noqa: SIM115 - closed by `_end`
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", str(ROLES / f"{role}.py"), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # a group of its own: what it forks can be ended with it
        )
        self._ear = Thread(target=self._listen, daemon=True)
        self._ear.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):
                with self._heard:
                    self.lines.append(line.decode().rstrip("\n"))
                    self._heard.notify_all()
        with self._heard:
            self._silent = True
            self._heard.notify_all()

    # --- talking --------------------------------------------------------------------

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def until(self, happened: Callable[[list[str]], bool], what: str) -> list[str]:
        """Wait until what it has said so far satisfies a condition; returns all of it."""
        with self._heard:
            self._heard.wait_for(lambda: self._silent or happened(self.lines), PATIENCE)
            if not happened(self.lines):
                raise AssertionError(f"{self.role} never said {what}: {self._account()}")
            return list(self.lines)

    def until_said(self, line: str) -> None:
        """Wait until it has said exactly this line."""
        self.until(lambda lines: line in lines, repr(line))

    def until_lines(self, count: int) -> list[str]:
        """Wait until it has said this many lines."""
        return self.until(lambda lines: len(lines) >= count, f"{count} lines")

    def report(self, patience: float = PATIENCE) -> dict[str, Any]:
        """Let it finish; its last line, which is JSON."""
        report: dict[str, Any] = json.loads(self.finish(patience)[-1])
        return report

    # --- living and dying -----------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        assert self.alive, f"{self.role} was gone before it could be sent {number.name}"
        os.kill(self.process.pid, number)

    def kill(self) -> list[str]:
        """kill -9. It must have been alive until then. Returns what it had said by then."""
        self.signal(signal.SIGKILL)
        status = self.process.wait(PATIENCE)
        self._ear.join(PATIENCE)
        assert status == -signal.SIGKILL, f"{self.role} ended by itself: {self._account()}"
        return self.lines

    def finish(self, patience: float = PATIENCE) -> list[str]:
        """Wait until it ends by itself, without complaint. Returns all it said."""
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.role} hangs: {self._account()}") from None
        self._ear.join(PATIENCE)
        assert (status, self._complaints()) == (0, ""), self._account()
        return self.lines

    def end(self) -> None:
        """Leave no process, thread or file behind, whatever happened."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:  # nobody of its group is left
            pass
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
            f"exit status {self.process.poll()}, last words {self.lines[-3:]}, "
            f"standard error:\n{self._complaints()}"
        )


def begin_together(children: list[Child]) -> None:
    """Let them go at one moment, when the last of them has got ready.

    One that was told before the next could else be done before that one begins.
    """
    for child in children:
        child.until_said("ready")
    moment = time.monotonic() + (0.1 if len(children) > 1 else 0.0)
    for child in children:
        child.tell(str(moment))
