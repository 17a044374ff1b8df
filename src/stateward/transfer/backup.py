"""Backups: one namespace of any engine as one file, and back into any other.

    from stateward.transfer.backup import backup, copy, restore, verify

    backup("postgresql://…", "agents.backup")
    verify("agents.backup")
    restore("agents.backup", "sqlite:///agents.db")

These functions block; from an event loop call them with `asyncio.to_thread`. What a file holds is
described in `docs/reference/backup-format.md`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from stateward import __version__
from stateward.codec import check_id
from stateward.engine import SyncEngine, SyncSnapshots
from stateward.engines.registry import create_sync_engine, looking, parse, refuse_missing
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.kinds import OPERATIONS, SERVICE_NAMESPACE
from stateward.ops import Entity
from stateward.records import moment as moment_of
from stateward.transfer.erasures import Erasures, marks_of
from stateward.transfer.format import Advance, BackupFile, BackupWriter, Counts, checked_path
from stateward.transfer.lines import FORMAT, Content, EntityLine, EntryLine, Header, Moment
from stateward.transfer.source import Source
from stateward.transfer.target import OWN_KINDS, RestoreTarget
from stateward.world import World

__all__ = ["BackupReport", "backup", "copy", "restore", "verify"]

Progress = Callable[[str, int, int], None]  # the step, the amount done, the total

MANY = 100  # entities read in one round trip


class BackupReport(Struct, frozen=True):
    """The report of a backup, restore, copy or verification."""

    namespace: str
    entities: int
    messages: int
    documents: int
    moment: Moment  # "store": the whole store as of one moment; "entity": each entity as of its own
    engine: str
    taken_at: str
    bytes: int = 0  # of the file
    sha256: str = ""  # of the file, but for its last part
    erased: int = 0  # entities left out, because their user was erased since
    resumed: bool = False  # continued an interrupted restore


def backup(
    url: str | None, path: str, *, namespace: str = "default", progress: Progress | None = None
) -> BackupReport:
    """Write a whole namespace into a new file, which appears complete or not at all."""
    check_id(namespace, "a namespace")
    if os.path.exists(checked_path(path)):
        raise InvalidInput(f"{path} exists already: choose another name, or remove it first")
    with _reading(parse(url), namespace) as (source, header), BackupWriter(path, header) as writer:
        for line in _with_progress(source, progress):
            writer.write(line)
        total = writer.finish()
    return _report(header, writer.counts.all(), bytes=writer.bytes, sha256=total)


def verify(path: str, *, progress: Progress | None = None) -> BackupReport:
    """Read a backup from its first byte to its last; `BackupDamaged` if anything is wrong."""
    with BackupFile(path) as file:
        return _verified(file, progress)


def restore(
    path: str,
    url: str | None,
    *,
    namespace: str | None = None,
    erasures: Sequence[str] = (),
    progress: Progress | None = None,
) -> BackupReport:
    """Restore a backup into an empty namespace: the original one unless another is named.

    Nothing is written before the whole file was verified. A backup of the service's own namespace
    is restored only if `namespace` names it, because it brings its keys along. What belonged to
    users who were erased since is left out: as the target knows, the backup itself, or the stores
    and backups named in `erasures`. An interrupted restore can be run again.
    """
    with BackupFile(path) as file:
        marks = Erasures()
        contents = _verified(file, progress, marks, source=True)
        into = namespace or file.header.namespace
        check_id(into, "a namespace")
        if namespace is None and into == SERVICE_NAMESPACE:
            raise InvalidInput(
                f"{path} is a backup of {into!r}, where the service has its keys: whoever made the "
                "file would get access with theirs. If you trust it, restore it with "
                f"--namespace {into}"
            )
        for other in erasures:
            _add_erasures(marks, other, file.header.namespace)
        with opened(parse(url)) as engine:
            marks.add_all(Source(engine, into).marks(), there=True)
            what = f"the backup {os.path.basename(path)}"
            target = RestoreTarget(engine, into, contents.sha256, what)
            target.begin()
            target.put_marks(marks)
            target.put(file.lines(_advance(progress, "restoring", file.size)), marks)
            target.finish()
    return _changed(contents, into, target)


def copy(
    source_url: str | None,
    target_url: str,
    *,
    namespace: str = "default",
    to: str | None = None,
    progress: Progress | None = None,
) -> BackupReport:
    """Copy a whole namespace into an empty one of another store, without a file in between."""
    into = to or namespace
    check_id(namespace, "a namespace")
    check_id(into, "a namespace")
    origin = parse(source_url)
    if origin.text == parse(target_url).text and into == namespace:
        raise InvalidInput("source and target are the same namespace of the same store")
    with _reading(origin, namespace) as (source, header), opened(parse(target_url)) as engine:
        marks = Erasures()
        marks.add_all(Source(engine, into).marks(), there=True)
        marks.add_all(source.marks(), source=True)
        what = f"a copy of the namespace {namespace!r} of {origin.safe}"
        target = RestoreTarget(engine, into, what, what, "--to")
        target.begin()
        target.put_marks(marks)
        counts = Counts()
        target.put(_counted(_with_progress(source, progress), counts), marks)
        if target.resumed:
            target.drop(_deleted_in_source(Source(engine, into), source, namespace))
        target.finish()
    return _changed(_report(header, counts.all()), into, target)


# --- stores -----------------------------------------------------------------------------


@contextmanager
def opened(url: EngineURL) -> Iterator[SyncEngine]:
    """Open a store's engine for the duration of a block."""
    engine: SyncEngine = create_sync_engine(url, World())
    engine.open()
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def _reading(url: EngineURL, namespace: str) -> Iterator[tuple[Source, Header]]:
    """Open a namespace for reading, as of one moment if the engine supports snapshots."""
    refuse_missing(url)
    with opened(looking(url)) as engine:
        facts = engine.describe()
        one_moment = engine.capabilities.snapshots
        header = Header(
            FORMAT,
            namespace,
            "store" if one_moment else "entity",
            facts.engine,
            facts.version,
            __version__,
            moment_of(World().now()).isoformat(timespec="seconds"),
        )
        if not one_moment:
            yield Source(engine, namespace), header
            return
        with cast(SyncSnapshots, engine).snapshot() as reader:
            yield Source(reader, namespace, one_moment=True), header


def _add_erasures(marks: Erasures, other: str, namespace: str) -> None:
    """Add the erasures that another store or another backup has recorded."""
    if "://" in other:
        url = parse(other)
        refuse_missing(url)
        with opened(looking(url)) as engine:
            marks.add_all(Source(engine, namespace).marks())
    else:
        with BackupFile(other) as file:
            _verified(file, None, marks)


def _deleted_in_source(target: Source, source: Source, namespace: str) -> Iterator[Entity]:
    """Yield the entities that an interrupted copy brought and the source no longer has."""
    some: list[Entity] = []

    def missing() -> Iterator[Entity]:
        held = source.has([entity._replace(namespace=namespace) for entity in some])
        yield from (entity for entity, there in zip(some, held, strict=True) if not there)
        some.clear()

    for listed in target.entities():
        if listed.entity.kind not in (*OWN_KINDS, OPERATIONS):  # a copy keeps the operations log
            some.append(listed.entity)
        if len(some) >= MANY:
            yield from missing()
    yield from missing()


# --- lines ------------------------------------------------------------------------------


def _verified(
    file: BackupFile,
    progress: Progress | None,
    marks: Erasures | None = None,
    *,
    source: bool = False,
) -> BackupReport:
    lines = file.lines(_advance(progress, "verifying", file.size))
    (marks or Erasures()).add_all(marks_of(lines), source=source)
    end = file.end
    assert end is not None
    counts = (end.entities, end.messages, end.documents)
    return _report(file.header, counts, bytes=file.size, sha256=end.sha256)


def _counted(lines: Iterator[Content], counts: Counts) -> Iterator[Content]:
    for line in lines:
        counts.add(line)
        yield line


def _with_progress(source: Source, progress: Progress | None) -> Iterator[Content]:
    """Yield the lines of a store, and report progress."""
    if progress is None:
        yield from source.lines()
        return
    total = source.size()
    done = 0
    for line in source.lines():
        done += isinstance(line, EntityLine | EntryLine)
        progress("reading", min(done, total), total)
        yield line


def _advance(progress: Progress | None, what: str, total: int) -> Advance | None:
    return None if progress is None else lambda done: progress(what, done, total)


def _report(
    header: Header, counts: tuple[int, int, int], *, bytes: int = 0, sha256: str = ""
) -> BackupReport:
    origin = (header.moment, header.engine, header.taken_at)
    return BackupReport(header.namespace, *counts, *origin, bytes=bytes, sha256=sha256)


def _changed(report: BackupReport, namespace: str, target: RestoreTarget) -> BackupReport:
    return replace(report, namespace=namespace, erased=target.erased, resumed=target.resumed)
