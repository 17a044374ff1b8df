"""The metrics of all workers of a host, as one: each keeps a small file in a folder they share.

A file is replaced whole, once a second and before its worker answers a scrape. Its lock belongs to
the worker's process: a process that gets the lock knows that the worker has ended, in any way.
What ended workers have counted is added up in one file, so that the folder stays small.

A scrape reports only figures from files. So no sum ever falls, whichever worker answers or is
killed: Prometheus would take a lower sum for a restart.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import NamedTuple

import msgspec
from msgspec import Struct

from stateward.errors import InvalidInput
from stateward.files import is_open_to_all, lock, private_folder
from stateward.observe.catalogue import HIGHEST, STORAGE
from stateward.observe.metrics import Distribution, Family, Metrics, Sample, add_up
from stateward.observe.tenants import OTHER
from stateward.world import Ticker, World

ENV = "STATEWARD_METRICS"
EVERY = 1.0  # seconds between two writes: what a kill may lose
SUFFIX, NEW = ".metrics", ".new"
ENDED, MERGE = "ended", "ended.lock"
TENANTS = 200  # of ended workers with figures of their own
REMEMBERED = 256  # ended workers that are named for readers who have read their own files

Key = frozenset[tuple[str, str]]

logger = logging.getLogger("stateward.observe.workers")


def chosen_folder(metrics: bool | str | os.PathLike[str]) -> str | None:
    """Return the meaning of the argument `metrics` of `open`; None: each process by itself."""
    choice: object = os.environ.get(ENV) or False if metrics is True else metrics
    if choice is False:
        return None
    if not isinstance(choice, str | os.PathLike) or not os.fspath(choice):
        raise InvalidInput(
            "metrics is True, False (count nothing), or a folder in which all workers of this "
            f"host keep their numbers, not {choice!r}"
        )
    folder = os.path.abspath(os.fspath(choice))
    if is_open_to_all(folder):
        raise InvalidInput(
            f"{folder!r} is writable by everyone, so its numbers may be forged: chmod o-w it, or "
            f"name a new directory for metrics= (or {ENV})"
        )
    return folder


class Tally(Struct, frozen=True):
    """The contents of a file: of one worker, or of all that have ended."""

    families: list[Family]
    workers: list[str] = []  # ended workers in these sums, at least the recent ones


class Sighting(NamedTuple):
    """The contents of another worker's file, without gauges if it has ended."""

    tally: Tally
    has_ended: bool


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Tally)


class Workers:
    """One store's share of the folder of several workers. Any thread may call any method."""

    def __init__(self, folder: str, snapshot: Callable[[], Metrics], world: World) -> None:
        self._folder = folder
        self._snapshot = snapshot
        self._world = world
        self._lock = threading.Lock()  # over all that follows, and the order of writes
        self._ticker: Ticker | None = None
        self._name = ""  # of our file; "" before it exists and after it is gone
        self._descriptor = -1  # holds the lock of what was written last
        self._written = b""
        self._failed = False

    def begin(self) -> None:
        """Keep a file from now on. Does no I/O: a separate thread does."""
        with self._lock:
            if not self._name:
                self._name = f"{os.getpid()}-{self._world.new_id()}{SUFFIX}"
                self._ticker = Ticker(self._tick, "stateward-metrics")
                _begun.add(self)

    def overall(self) -> Metrics:
        """Return the counts of all workers, and the gauges of those that live. Blocks."""
        with self._lock:
            name = self._name
            now = self._write() if name else self._snapshot()
        own = now.families if name else [Family(f.name, f.type, f.help) for f in now.families]
        others = self._others(name)
        ended = self._merge(others)
        further = [other.tally for at, other in others.items() if at not in ended.workers]
        return Metrics(now.at, add_together([own, *(t.families for t in (*further, ended))]))

    def close(self) -> None:
        """Write for the last time; from here on this worker has ended. Blocks."""
        with self._lock:
            if self._name:
                self._write()
            self._forget()
            ticker, self._ticker = self._ticker, None
        if ticker is not None:
            ticker.stop()

    def forked(self) -> None:
        """Let go of the parent's file and thread in a child, where its lock must not outlive it."""
        self._lock = threading.Lock()
        self._ticker = None
        self._forget()

    def _forget(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._name, self._descriptor, self._written = "", -1, b""

    # --- our file -------------------------------------------------------------------

    def _tick(self) -> float:
        with self._lock:
            name, is_first = self._name, not self._written
            if name:
                self._write()
        if name and is_first:  # the folder stays small though no one scrapes
            self._merge(self._others(name))
        return EVERY

    def _write(self) -> Metrics:
        metrics = self._snapshot()
        data = _encoder.encode(Tally(metrics.families))
        if data != self._written:
            try:
                private_folder(self._folder)
                descriptor = _replace(self._path(self._name), data)
            except OSError as error:
                self._complain(error)
            else:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                self._descriptor, self._written, self._failed = descriptor, data, False
        return metrics

    def _complain(self, error: OSError) -> None:
        if not self._failed:  # once, not every second
            extra = {"folder": self._folder, "error": repr(error)}
            logger.warning("metrics_not_written", extra=extra)
        self._failed = True

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    # --- everybody's ----------------------------------------------------------------

    def _others(self, own: str) -> dict[str, Sighting]:
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return {}  # no one has written yet
        except OSError as error:
            self._complain(error)
            return {}
        read = {n: self._read(n) for n in names if n.endswith(SUFFIX) and n != own}
        return {name: sighting for name, sighting in read.items() if sighting is not None}

    def _read(self, name: str) -> Sighting | None:
        """Read a worker's file; None: it is not there, or not any more."""
        path, data, has_ended = self._path(name), b"", False
        try:
            while not data:
                with _opened(path, os.O_RDWR) as descriptor:
                    has_ended = lock(descriptor)
                    if has_ended and os.fstat(descriptor).st_nlink == 0:
                        continue  # replaced before we asked for its lock
                    with open(descriptor, "rb", closefd=False) as file:
                        data = file.read() or b"empty"
            tally = _decoder.decode(data)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.MsgspecError) as error:
            logger.warning("metrics_not_read", extra={"file": path, "error": repr(error)})
            tally = Tally([])
        if has_ended:
            tally = Tally([f for f in tally.families if f.type != "gauge"], tally.workers)
        return Sighting(tally, has_ended)

    def _merge(self, others: dict[str, Sighting]) -> Tally:
        """Add the workers that have ended to their one file, and return its contents.

        That file is read after the others, and names the workers added of late: so none is counted
        twice or missed, though others merge at the same time, or are killed while they do.
        """
        gone = {name: other.tally for name, other in others.items() if other.has_ended}
        if gone:
            try:
                with _opened(self._path(MERGE), os.O_RDWR | os.O_CREAT) as merging:
                    if lock(merging):  # else someone else is at it
                        self._add_to_ended(gone)
            except OSError as error:
                self._complain(error)
        return self._read_ended()

    def _read_ended(self) -> Tally:
        sighting = self._read(ENDED)
        return Tally([]) if sighting is None else sighting.tally

    def _add_to_ended(self, tallies: dict[str, Tally]) -> None:
        ended = self._read_ended()
        there = {name for name in (*tallies, *ended.workers) if os.path.exists(self._path(name))}
        new = [name for name in tallies if name in there and name not in ended.workers]
        if new:
            older = [name for name in ended.workers[:-REMEMBERED] if name in there]
            workers = [*older, *ended.workers[-REMEMBERED:], *new]
            families = add_together([ended.families, *(tallies[name].families for name in new)])
            families = with_few_tenants(families)
            os.close(_replace(self._path(ENDED), _encoder.encode(Tally(families, workers))))
        for name in tallies:
            for left in (name, name + NEW):
                with suppress(FileNotFoundError):
                    os.unlink(self._path(left))


def add_together(parts: Iterable[list[Family]]) -> list[Family]:
    """Families of several workers as one each; the first to have a family says what it is."""
    described: dict[str, Family] = {}
    samples: dict[str, dict[Key, list[Sample]]] = defaultdict(dict)
    series: dict[str, dict[Key, list[Distribution]]] = defaultdict(dict)
    for family in chain.from_iterable(parts):
        name = described.setdefault(family.name, family).name
        for sample in family.samples:
            samples[name].setdefault(frozenset(sample.labels.items()), []).append(sample)
        for part in family.distributions:
            same = series[name].setdefault(frozenset(part.labels.items()), [])
            if not same or same[0].bounds == part.bounds:  # other bounds come from another release
                same.append(part)
    return [
        Family(
            name,
            family.type,
            family.help,
            [Sample(same[0].labels, _together(name, same)) for same in samples[name].values()],
            [add_up(same, same[0].labels) for same in series[name].values()],
        )
        for name, family in described.items()
    ]


def with_few_tenants(families: list[Family]) -> list[Family]:
    """Leave out the names of all but the first tenants, as every worker may name others."""
    names = dict.fromkeys(s.labels["tenant"] for f in families for s in f.samples if _is_tenants(s))
    first = set(list(names)[:TENANTS])
    if len(first) == len(names):
        return families
    bounded = [
        Family(f.name, f.type, f.help, [_unnamed(s, first) for s in f.samples], f.distributions)
        for f in families
    ]
    return add_together([bounded])


def _is_tenants(sample: Sample) -> bool:
    return "tenant" in sample.labels


def _unnamed(sample: Sample, named: set[str]) -> Sample:
    if not _is_tenants(sample) or sample.labels["tenant"] in named:
        return sample
    return Sample({**sample.labels, "tenant": OTHER}, sample.value)


def _together(name: str, samples: list[Sample]) -> float:
    if name in STORAGE:  # all look at one store; who answers the scrape has looked last
        return samples[0].value
    values = [sample.value for sample in samples]
    return max(values) if name in HIGHEST else sum(values)


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _replace(path: str, data: bytes) -> int:
    """Put a whole file in its place, locked; it stays so until the descriptor is closed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path + NEW, flags, 0o600)
    try:
        if not lock(descriptor):
            raise BlockingIOError(f"{path + NEW} is locked")
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.replace(path + NEW, path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


_begun: weakref.WeakSet[Workers] = weakref.WeakSet()


def _forked() -> None:
    for workers in list(_begun):
        workers.forked()


def _exited() -> None:
    """Close the stores that no one has closed."""
    for workers in list(_begun):
        workers.close()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exited)
