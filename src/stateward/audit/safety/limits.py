"""Limits of time for what the audit itself asks of a memory, a server or a command."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

CLEARING = 60.0  # seconds in which what was written must be removed,
INTERRUPTED = 8.0  # and after Ctrl-C
COMMAND = 600.0  # seconds for a command of the user's own


class AbandonedThreads(ThreadPoolExecutor):
    """Threads that nobody waits for at the end: a call that hangs must not keep the audit."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def carry_out() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **options))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=carry_out, daemon=True).start()
        return future
