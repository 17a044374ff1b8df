"""Appends that the store could not take: in memory, and in files that survive the process."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Iterable
from heapq import merge

from stateward.layers.outage.neighbours import NearRecord, Neighbours
from stateward.layers.outage.spill import (
    REFUSED,
    REFUSED_SECONDS,
    SUFFIX,
    Spill,
    SpillFile,
    SpillRecord,
    abandoned,
    count_refused,
    digest,
    done_line,
    line_of,
    read_lines,
    writer_of,
)
from stateward.observe.counters import Counters, count_dropped
from stateward.ops import Entity
from stateward.world import World

logger = logging.getLogger("stateward.spill")

MEMORY_BYTES = 8 << 20  # kept where no file can be written


class Backlog:
    """The records of one store. Any thread may call; methods that block are marked."""

    def __init__(
        self, spill: Spill | None, place: str, namespace: str, world: World, counters: Counters
    ) -> None:
        self._spill = spill or Spill(max_bytes=1)
        self._enabled = spill is not None
        self._place = place
        self._namespace = namespace
        self._mark = digest(place, namespace)
        self._world = world
        self._counters = counters
        self._lock = threading.Lock()  # over what is in memory; held for moments
        self._disk = threading.Lock()  # over the files; never taken while holding `_lock`
        self._sizes: dict[str, int] = {}  # by op, of every record that waits
        self._unwritten: list[SpillRecord] = []
        self._own: SpillFile | None = None
        self._writer = ""  # the name of this process in those of its files
        self._files = 0  # that it has begun
        self._file_of: dict[str, SpillFile] = {}  # by op
        self._live: Counter[SpillFile] = Counter()
        self.waiting: dict[
            Entity, deque[SpillRecord]
        ] = {}  # in the order in which they were written
        self.neighbours = Neighbours(
            self._spill.path if self._enabled else None, self._mark, world.new_id
        )
        self.bytes = 0
        self.refused = 0  # turns that were set aside, by whichever process
        self.problem: str | None = None  # why nothing can be written to the directory

    @property
    def depth(self) -> int:
        """How many appends wait for the store."""
        return len(self._sizes)

    @property
    def age(self) -> float:
        """Seconds since the oldest of them was written."""
        with self._lock:
            oldest = min((queue[0].at for queue in self.waiting.values() if queue), default=None)
        return 0.0 if oldest is None else max(0.0, self._world.now() - oldest)

    @property
    def has_files(self) -> bool:
        """Whether there is a directory to write to and to look into."""
        return self._enabled and self._spill.path is not None

    @property
    def max_age(self) -> float:
        return self._spill.max_age

    # --- in memory ------------------------------------------------------------------

    def add(self, record: SpillRecord) -> bool:
        """Keep a record; False: there is no room. `persist` then makes it durable."""
        if not self._enabled:
            return False
        size = len(line_of(record))
        most = self._spill.max_bytes
        if self._spill.path is None or self.problem is not None:
            most = min(most, MEMORY_BYTES)
        with self._lock:
            if self.bytes + size > most:
                return False
            self._remember(record, size)
            if self._spill.path is not None:
                self._unwritten.append(record)
        return True

    def _remember(self, record: SpillRecord, size: int) -> None:
        self._sizes[record.op] = size
        self.bytes += size
        self.neighbours.note(record.op, record.at)
        self.waiting.setdefault(record.entity, deque()).append(record)

    def head(self, entity: Entity) -> SpillRecord | NearRecord | None:
        """The oldest record of this entity, here or as far as is known with a neighbour."""
        heads = self.neighbours.heads(entity) if self.neighbours.count else []
        with self._lock:
            records = self.waiting.get(entity)
            if not records:
                return min(heads, key=lambda record: record.at, default=None)
            own = records[0]
            file = self._file_of.get(own.op)
            # By time, but never against the order of one process: see `_take_over`.
            for near in heads:
                if file is not None and _is_before(near.path, file.path):
                    return near
            heads = [near for near in heads if not self._is_behind(near, records)]
        first = min(heads, key=lambda record: record.at, default=None)
        return own if first is None or own.at <= first.at else first

    def _is_behind(self, near: NearRecord, records: Iterable[SpillRecord]) -> bool:
        """Return whether one of these records stands in an earlier file of the same process."""
        earlier = [file for file in list(self._live) if _is_before(file.path, near.path)]
        return bool(earlier) and any(self._file_of.get(r.op) in earlier for r in records)

    def find(self, entity: Entity, key: str) -> SpillRecord | None:
        """The oldest record of this entity with that key."""
        with self._lock:
            records = self.waiting.get(entity, ())
            return next((record for record in records if record.key == key), None)

    def forget(self, record: SpillRecord) -> bool:
        """Stop keeping a record; `settle` marks this in its file. False: the record is not ours."""
        if self.neighbours.count:
            self.neighbours.forget(record.op)
        with self._lock:
            size = self._sizes.pop(record.op, None)
            if size is None:
                return False
            self.bytes -= size
            records = self.waiting[record.entity]
            records.remove(record)
            if not records:
                del self.waiting[record.entity]
        return True

    # --- in files: these block ------------------------------------------------------

    def persist(self) -> None:
        """Make durable what was added; of several callers one writes for all. Blocks."""
        with self._disk:
            with self._lock:
                batch, self._unwritten = self._unwritten, []
            if not batch:
                return  # another caller's write took ours along
            try:
                self._write(batch)
            except OSError as error:
                with self._lock:
                    self._unwritten = batch + self._unwritten  # the next write tries them again
                self._cannot(error)
            else:
                self.problem = None
                self.neighbours.changed()

    def _write(self, batch: list[SpillRecord]) -> None:
        data = b"".join(map(line_of, batch))
        file = self._own
        if file is None or file.size + len(data) > 2 * self._spill.max_bytes:
            file = self._begin_anew(file)
        file.write(data)
        self._note(file, batch)

    def _create(self, suffix: str) -> SpillFile:
        assert self._spill.path is not None
        self._writer = self._writer or self._world.new_id().strip("-")
        self._files += 1
        name = f"{self._mark}-{self._writer}-{self._files:06}{suffix}"
        header = {"store": self._place, "namespace": self._namespace}
        return SpillFile.create(self._spill.path, name, header)

    def _begin_anew(self, old: SpillFile | None) -> SpillFile:
        """A new file, with what is still needed of the old one."""
        file = self._create(SUFFIX)
        with self._lock:
            needed = [
                record
                for records in self.waiting.values()
                for record in records
                if old is not None and self._file_of.get(record.op) is old
            ]
        if needed:
            try:
                file.write(b"".join(map(line_of, needed)))
            except OSError:
                file.remove()  # the old one still has them
                raise
            self._note(file, needed)
        if old is not None:
            self._live.pop(old, None)
            old.remove()
        self._own = file
        return file

    def _note(self, file: SpillFile, records: Iterable[SpillRecord]) -> None:
        for record in records:
            self._file_of[record.op] = file
            self._live[file] += 1

    def settle(self, ops: Iterable[str]) -> None:
        """Mark forgotten records in their files, so that no other process replays them. Blocks."""
        settled = set(ops)
        with self._disk:
            with self._lock:
                self._unwritten = [r for r in self._unwritten if r.op not in settled]
            marks: dict[SpillFile, list[bytes]] = {}
            for op in settled:
                file = self._file_of.pop(op, None)
                if file is not None:
                    marks.setdefault(file, []).append(done_line(op))
            for file, lines in marks.items():
                self._live[file] -= len(lines)
                try:
                    self._mark_done(file, lines)
                except OSError as error:  # replayed again by the next start, which is harmless
                    self._cannot(error)
            if marks:
                self.neighbours.changed()

    def _mark_done(self, file: SpillFile, lines: list[bytes]) -> None:
        if self._live[file] > 0:
            file.write(b"".join(lines), sync=False)
            return
        del self._live[file]
        if file is self._own:
            self._own = None
        file.remove()

    def set_aside(self, record: SpillRecord) -> str:
        """Keep a turn that the store refuses in a file that no process replays. Blocks.

        Returns its path; "": the record is a neighbour's. Raises `OSError`: then it still waits.
        """
        with self._disk:
            if record.op not in self._sizes:
                return ""
            file = self._create(REFUSED)
            try:
                file.write(line_of(record))
            except OSError:
                file.remove()
                raise
            file.close()
            self.refused += 1
            return file.path

    def adopt(self) -> int:
        """Take over the files of processes that have ended; how many records. Blocks."""
        if not self.has_files or self.bytes >= self._spill.max_bytes:
            return 0
        assert self._spill.path is not None
        adopted = 0
        with self._disk:
            ours = [file.path for file in self._live]
            try:
                for path in abandoned(self._spill.path, self._mark, ours):
                    adoption = SpillFile.adopt(path)
                    if adoption is not None:
                        adopted += self._take_over(*adoption)
                before = self._world.now() - REFUSED_SECONDS
                self.refused = count_refused(self._spill.path, self._mark, before)
            except OSError as error:
                self._cannot(error)
            self._look()
        self._counters.adopted += adopted
        return adopted

    def look(self) -> None:
        """Read what neighbours keep by now. Blocks."""
        with self._disk:
            if self.neighbours.stamp != self.neighbours.seen:
                self._look()

    def _look(self) -> None:
        self.neighbours.look([file.path for file in self._live])

    def read(self, near: NearRecord) -> SpillRecord | None:
        """Return the record of a neighbour; None: it reached the store, or never will. Blocks."""
        record = self.neighbours.read(near)
        if record is None:
            self.neighbours.forget(near.op)
        return record

    def left_by_others(self) -> list[str]:
        """The files of this store that could not be taken over. Blocks."""
        if not self.has_files:
            return []
        assert self._spill.path is not None
        return list(abandoned(self._spill.path, self._mark, [file.path for file in self._live]))

    def _take_over(self, file: SpillFile, data: bytes) -> int:
        records, damaged = read_lines(data)
        self._counters.damaged += damaged
        with self._lock:
            fresh = [record for op, record in records.items() if op not in self._sizes]
            before = {record.entity: len(self.waiting.get(record.entity, ())) for record in fresh}
            for record in fresh:
                self._remember(record, len(line_of(record)))
            # By time, but never against the order of one process: its clock may have been set back.
            # What waits is never missing meanwhile: callers look without the lock.
            for entity, count in before.items():
                both = list(self.waiting[entity])
                old, new = both[:count], both[count:]
                first, last = self._between(file, old)
                merged = merge(old[first:last], new, key=lambda record: record.at)
                self.waiting[entity] = deque([*old[:first], *merged, *old[last:]])
        logger.warning(
            "spill_adopted", extra={"file": file.path, "records": len(fresh), "damaged": damaged}
        )
        if fresh:
            self._note(file, fresh)
        else:
            file.remove()
        return len(fresh)

    def _between(self, file: SpillFile, records: list[SpillRecord]) -> tuple[int, int]:
        """Return between which records a file belongs, by the same process's other files."""
        first, last = 0, len(records)
        for number, record in enumerate(records):
            other = self._file_of.get(record.op)
            if other is not None and _is_before(other.path, file.path):
                first = number + 1
            elif other is not None and _is_before(file.path, other.path):
                last = min(last, number)
        return first, last

    def close(self) -> int:
        """Leave the files to the next process; return how many records were in no file. Blocks."""
        self.persist()
        with self._disk, self._lock:
            lost = [r for rs in self.waiting.values() for r in rs if r.op not in self._file_of]
            for file in self._live:
                file.close()
            self._live.clear()
            self._file_of.clear()
            self._own = None
            self._unwritten = []
            self.waiting.clear()
            self._sizes.clear()
            self.bytes = 0
        for record in lost:
            count_dropped(self._counters, record.entity.id)
        return len(lost)

    def let_go(self) -> None:
        """Unlock the files, as the end of the process does."""
        for file in self._live:
            file.close()

    def _cannot(self, error: OSError) -> None:
        if self.problem is None:
            logger.error(
                "spill_not_durable", extra={"directory": self._spill.path, "error": str(error)}
            )
        self.problem = f"cannot write to {self._spill.path}: {error.strerror or error}"


def _is_before(path: str, other: str) -> bool:
    """Whether one process wrote both, this one first."""
    return path < other and writer_of(path) == writer_of(other)
