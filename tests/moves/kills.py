"""An import that is killed, and begun again, as often as a test likes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

IMPORTER = Path(__file__).parent / "roles" / "importer.py"
PATIENCE = 60  # seconds for a child that was killed to be gone


def import_killed(source: str, url: str, words: int, *, free: bool = False) -> str:
    """Let an import say so many words of how far it is, then kill -9; returns its last word.

    One that is `free` does not wait while it is listened to, and is killed wherever it is by then.
    """
    command = [sys.executable, "-W", "error", str(IMPORTER), source, url, "free"]
    if not free:
        command.pop()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdin is not None
        said = child.stdout.readline().strip()
        for _ in range(words - 1):
            if said == "done":
                break
            if not free:
                child.stdin.write("\n")
                child.stdin.flush()
            said = child.stdout.readline().strip()
        assert said, "the import ended by itself"
        return said
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE)


class Killed(BaseException):
    """Ends an import at once, in this process: nothing that is under way is cleared away."""


class MortalEngine:
    """An engine that dies with the call of that number: before it is carried out, or after."""

    def __init__(self, engine: object, at: int, *, after: bool) -> None:
        self._engine = engine
        self._left = at
        self._after = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    @property
    def execute(self) -> Callable[..., object]:
        return self._execute

    def _execute(self, ops: object, **more: object) -> object:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Killed
        outcomes = self._engine.execute(ops, **more)  # type: ignore[attr-defined]
        if self._left == 0:
            raise Killed
        return outcomes
