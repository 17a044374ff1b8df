"""Time, randomness, fresh ids and background threads.

No other module asks the operating system for the time, a random number or a fresh id. A test
or a simulation passes its own `World` and controls all of them.
"""

from __future__ import annotations

import _thread
import asyncio
import base64
import logging
import os
import socket
import threading
import time
from binascii import b2a_base64
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import lru_cache, partial
from itertools import count
from random import SystemRandom
from typing import Any, TypeVar

from stateward.errors import StoreUnavailable

T = TypeVar("T")

# The digits of base 64 in the order of their values, so that text sorts as the bytes do.
_IN_ORDER = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz",
)
_48_BITS = (1 << 48) - 1

AFTER_ERROR = 1.0  # seconds until failed background work is retried
BEGIN_SECONDS = 1.0  # until a thread that has not begun will never begin
AFTER_NO_THREAD = 0.05  # seconds until a thread that could not be started is started

logger = logging.getLogger("stateward.background")


def went_wrong(what: str, error: Exception) -> None:
    """Log that background work has failed and will be retried."""
    logger.error("background_failed", extra={"what": what, "error": repr(error)}, exc_info=error)


class _Begun(threading.Event):
    """Set by a thread when it begins, and waited for in `Thread.start`: by us not for ever."""

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(BEGIN_SECONDS if timeout is None else timeout)


def start_in_time(thread: threading.Thread, begin: Callable[[], None] | None = None) -> None:
    """Start a thread; raises `MemoryError` if it has ended before its first line.

    Where there is memory for a thread but not for its first frame, `Thread.start` waits for ever.
    """
    thread._started = _Begun()  # type: ignore[attr-defined]
    (begin or thread.start)()
    if thread.ident is None:
        raise MemoryError("a new thread could not begin")


def start(thread: threading.Thread) -> None:
    """Start a thread; raises `StoreUnavailable` at a moment without threads."""
    try:
        start_in_time(thread)
    except (RuntimeError, MemoryError) as error:
        raise _no_thread(error) from error


def _no_thread(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"this process cannot start another thread now ({error}): raise its limit of processes and "
        "threads (ulimit -u, a container's pids limit) or its memory",
        applied="no",
    )


class Helper(threading.Thread):
    """A thread that is either started or not, even if a signal handler raises meanwhile.

    Signal handlers run on the main thread. If one raises in `Thread.start`, the new thread fails
    before its first line and cannot be joined. So another thread, on which no handler runs, starts
    this one.
    """

    def __init__(self, target: Callable[[], object], name: str) -> None:
        # A thread whose start has failed cannot be started again: it is made again.
        self._make = partial(super().__init__, target=target, name=name, daemon=True)
        self._make()
        self._asked = False
        self._given_up = False
        self._starting = threading.Lock()
        self._started_or_failed = threading.Lock()  # released then; an `Event` can deadlock
        self._started_or_failed.acquire()

    def start(self) -> None:
        """Start the thread soon; does nothing if it was started before.

        Raises `StoreUnavailable` at a moment without threads; then it may be called again.
        """
        if not self._asked:
            try:
                _thread.start_new_thread(self._begin, ())
            except (RuntimeError, MemoryError) as error:
                raise _no_thread(error) from error
            self._asked = True

    def _begin(self) -> None:
        with self._starting:
            try:
                while self.ident is None:  # else the caller was interrupted and called again
                    try:
                        start_in_time(self, super().start)
                    except (RuntimeError, MemoryError):  # that of this thread was the last one
                        if self._given_up:
                            break
                        self._make()
                        time.sleep(AFTER_NO_THREAD)
            finally:
                if self._started_or_failed.locked():
                    self._started_or_failed.release()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread; returns at once if it was never started."""
        self._given_up = True
        if self._asked:
            with self._started_or_failed:
                pass
        if self.ident is not None:
            super().join(timeout)


class Errand:
    """Work on its own thread, which continues even if no caller waits for it any more.

    The first call of `wait` starts it. If a signal handler raises in that call, the next one starts
    it if necessary.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._name = name
        self._lock = threading.Lock()
        self._begun = False
        self._waiting: list[threading.Lock] = []
        self.ended = False
        self.error: BaseException | None = None  # raised by the work

    def wait(self, seconds: float | None) -> bool:
        """Wait up to `seconds`; returns whether the work has ended."""
        if not self._begun:  # several callers may get here: `_run` starts the work once
            start(threading.Thread(target=self._run, name=self._name, daemon=True))
        woken = threading.Lock()
        woken.acquire()
        self._waiting.append(woken)
        if not self.ended:
            woken.acquire(timeout=-1 if seconds is None else seconds)
        return self.ended

    def _run(self) -> None:
        with self._lock:
            if self._begun:
                return
            self._begun = True
        try:
            self._work()
        except BaseException as error:
            self.error = error
        self.ended = True
        while self._waiting:
            self._waiting.pop().release()


class Ticker:
    """Calls `step` repeatedly on its own thread: after the delay it returned, or when woken.

    Making one raises `StoreUnavailable` at a moment without threads. `step` returns the seconds
    until its next call, or None to wait for `wake`.
    """

    def __init__(self, step: Callable[[], float | None], name: str) -> None:
        self._step = step
        self._woken = threading.Condition()
        self._wanted = False
        self._stopped = False
        self._thread = Helper(self._run, name)
        self._thread.start()

    def wake(self) -> None:
        """Call `step` soon."""
        with self._woken:
            self._wanted = True
            self._woken.notify()

    def stop(self) -> None:
        """End the calls of `step`; waits for one in progress."""
        with self._woken:
            self._stopped = True
            self._woken.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped:
            try:
                delay = self._step()
            except Exception as error:  # no error may end the background work
                went_wrong(self._thread.name, error)
                delay = AFTER_ERROR
            with self._woken:
                if not self._wanted and not self._stopped:
                    self._woken.wait(delay)
                self._wanted = False


class Crew:
    """A few threads for blocking work; each ends when no work is left.

    The event loop's own executor belongs to the application, whose work may fill it for long.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._at_work = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job; jobs start in the order of their submission.

        At a moment without threads, the caller does the job itself, unless others are at work.
        """
        with self._lock:
            self._jobs.append(job)
            if self._at_work == self._most:
                return
            self._at_work += 1
        late: list[bool] = []  # not empty: another does the work of the thread

        def work() -> None:
            if not late:
                self._work()

        try:
            start_in_time(threading.Thread(target=work, name="offloaded"))
        except (RuntimeError, MemoryError):
            late.append(True)
            with self._lock:
                if self._at_work > 1:
                    self._at_work -= 1
                    return
            self._work()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._at_work -= 1
                    return
                job = self._jobs.popleft()
            job()


def _settle(done: Future[T], work: Callable[..., T], args: tuple[Any, ...]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        result = work(*args)
    except BaseException as error:
        done.set_exception(error)
    else:
        done.set_result(result)


_crew = Crew(8)


_DRAWN = 64  # endings of ops made in advance, with one system call for all of them
_drawn: list[str] = []
_rounds = count(int.from_bytes(os.urandom(2), "big"))  # so that two processes start apart


def _digits(data: bytes | bytearray) -> str:
    return b2a_base64(data, newline=False).translate(_IN_ORDER).decode("ascii")


@lru_cache(maxsize=4)
def _time_digits(milliseconds: int) -> str:
    return _digits(milliseconds.to_bytes(6, "big"))


def _draw() -> str:
    """Return eight digits, and keep the next ones, which are greater, in `_drawn`.

    They are 16 bits of a counter, then 32 random bits.
    """
    high, low = divmod(next(_rounds) * _DRAWN & 0xFFFF, 256)  # low + _DRAWN <= 256: no carry
    chance, ends = os.urandom(4 * _DRAWN), bytearray(6 * _DRAWN)
    ends[0::6], ends[1::6] = bytes([high]) * _DRAWN, bytes(range(low, low + _DRAWN))
    for at in range(4):
        ends[2 + at :: 6] = chance[at::4]
    digits = _digits(ends)
    _drawn.extend([digits[at : at + 8] for at in range(8 * (_DRAWN - 1), 0, -8)])
    return digits[:8]


def _forked() -> None:
    """Reset the threads, which a fork does not copy, and the endings, which the parent uses."""
    global _crew
    _crew = Crew(8)
    _drawn.clear()


os.register_at_fork(after_in_child=_forked)


# Not the generator of the `random` module: the application may seed it (then all replicas would
# draw the same numbers), or rely on being its only user.
_chance = SystemRandom()


class World:
    """The real time, randomness and threads."""

    def now(self) -> float:
        """Return the seconds since the epoch: the clock of embedded engines."""
        return time.time()

    def monotonic(self) -> float:
        """Return the seconds of a clock that never steps: for deadlines and durations."""
        return time.monotonic()

    def random(self) -> float:
        """Return a random number in [0, 1)."""
        return _chance.random()

    def new_id(self) -> str:
        """Return a fresh id of 95 random bits, as 16 characters.

        The first is a letter: an id with a leading dash would be an option on a command line.
        """
        first, *others = os.urandom(12)
        return base64.urlsafe_b64encode(bytes((first & 0x7F, *others))).decode("ascii")

    def new_op(self) -> str:
        """Return a fresh id for a commit: the time in milliseconds, a counter, 32 random bits.

        The ids of one process increase, so that an index of them grows at one end, and an engine
        recognises a new one by it. Nothing else relies on the order, or on the time.
        """
        moment = _time_digits(int(self.now() * 1000) & _48_BITS)
        try:
            return moment + _drawn.pop()  # atomic: no other thread gets the same
        except IndexError:
            return moment + _draw()

    def ticker(self, step: Callable[[], float | None], name: str) -> Ticker:
        """Call `step` repeatedly in the background."""
        return Ticker(step, name)

    async def offload(self, work: Callable[..., T], *args: Any) -> T:
        """Do blocking work (files) while other tasks run."""
        done: Future[T] = Future()
        _crew.submit(partial(copy_context().run, _settle, done, work, args))
        return await asyncio.wrap_future(done)

    def call(self, work: Callable[..., T], *args: Any) -> T:
        """Do blocking work on this thread: `offload` for blocking callers."""
        return work(*args)

    def name(self) -> str:
        """Return the name of this process, as shown for its leases."""
        return f"{socket.gethostname()}:{os.getpid()}"

    async def pause(self, seconds: float) -> None:
        """Sleep while other tasks run."""
        await asyncio.sleep(seconds)

    def block(self, seconds: float) -> None:
        """Sleep on this thread: `pause` for blocking callers."""
        time.sleep(seconds)
