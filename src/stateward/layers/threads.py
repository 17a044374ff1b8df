"""Calls of blocking code side by side, each on a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TypeVar

from stateward.world import start_in_time

T = TypeVar("T")


def results_of_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results in the order of `calls`: all but the last run on threads of their own.

    Every call has ended when this returns or raises; of several errors the first is raised.
    """
    results: dict[int, T] = {}
    errors: dict[int, BaseException] = {}
    late: set[int] = set()  # calls whose threads have not begun in time

    def make(number: int) -> None:
        if number in late and threading.current_thread() is not caller:
            return
        try:
            results[number] = calls[number]()
        except BaseException as error:
            errors[number] = error

    caller, last = threading.current_thread(), len(calls) - 1
    # The context goes along: a call checks the leases that its caller holds.
    threads = []
    for number in range(last):
        thread = threading.Thread(target=copy_context().run, args=(make, number), daemon=True)
        try:
            start_in_time(thread)
        except (RuntimeError, MemoryError):  # a moment without threads
            late.add(number)
            make(number)
        else:
            threads.append(thread)
    make(last)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(calls))]
