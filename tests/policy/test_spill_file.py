"""The file of what the store could not take: torn anywhere, it gives back what was complete."""

from __future__ import annotations

import os
import signal
from collections import deque
from pathlib import Path
from typing import NoReturn
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stateward
from stateward import InvalidInput
from stateward.layers.outage.backlog import Backlog
from stateward.layers.outage.spill import (
    Spill,
    SpillFile,
    SpillRecord,
    default_directory,
    done_line,
    line_of,
    read_lines,
)
from stateward.observe.counters import Counters
from stateward.ops import Entity
from stateward.world import World

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
records = st.builds(
    SpillRecord,
    op=st.uuids().map(str),
    entity=st.builds(Entity, words, st.just("thread"), words),
    bodies=st.lists(words.map(lambda text: text.replace("\n", " ")), min_size=1).map(tuple),
    at=st.floats(0, 2e9),
    owner=st.none() | words,
    key=st.none() | words,
    retain=st.none() | st.floats(1, 1e9),
    correlation=st.none() | words,
)


def test_a_whole_line_that_is_no_text_costs_no_other() -> None:
    record = SpillRecord("op", Entity("n", "thread", "t"), ("{}",), 1.0)
    forged = [b'"\xff"', b'["\xff",["n","thread","t"],["{}"],1.0]']
    lines = [b"%08x %s\n" % (crc32(text), text) for text in forged]
    assert read_lines(lines[0] + line_of(record) + lines[1]) == ({"op": record}, 2)


@given(st.lists(records, max_size=8, unique_by=lambda r: r.op), st.data())
def test_a_file_torn_anywhere_gives_back_every_complete_record(
    kept: list[SpillRecord], data: st.DataObject
) -> None:
    lines = [line_of(record) for record in kept]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    found, damaged = read_lines(whole[:cut])
    complete, at = [], 0
    for record, line in zip(kept, lines, strict=True):
        at += len(line)
        if at - 1 <= cut:  # the newline itself adds nothing
            complete.append(record)
    assert list(found.values()) == complete
    torn = cut - sum(len(line_of(record)) for record in complete)
    assert damaged == (1 if torn > 0 else 0)


@given(st.lists(records, min_size=1, max_size=6, unique_by=lambda r: r.op), st.data())
def test_a_damaged_line_costs_no_other(kept: list[SpillRecord], data: st.DataObject) -> None:
    lines = [line_of(record) for record in kept]
    hit = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.integers(0, len(lines[hit]) - 2))
    new = data.draw(st.integers(0, 255).filter(lambda b: b not in (lines[hit][place], 10)))
    lines[hit] = lines[hit][:place] + bytes([new]) + lines[hit][place + 1 :]
    found, damaged = read_lines(b"".join(lines))
    left = [record for n, record in enumerate(kept) if n != hit]
    same_number = list(found.values()) == kept  # 0a and 0A are the same checksum
    assert same_number or (list(found.values()) == left and damaged == 1)


@given(st.lists(records, max_size=8, unique_by=lambda r: r.op), st.data())
def test_what_is_marked_done_is_not_given_back(
    kept: list[SpillRecord], data: st.DataObject
) -> None:
    done = data.draw(st.sets(st.sampled_from(kept)) if kept else st.just(set()))
    text = b"".join(map(line_of, kept)) + b"".join(done_line(record.op) for record in done)
    found, damaged = read_lines(text)
    assert (list(found.values()), damaged) == ([r for r in kept if r not in done], 0)


@given(st.binary(max_size=300))
def test_a_file_of_nonsense_is_read_without_an_error(data: bytes) -> None:
    found, damaged = read_lines(data)
    assert found == {}
    assert damaged <= len(data)


@settings(max_examples=50)
@given(st.lists(records, min_size=2, max_size=8, unique_by=lambda r: r.op), st.data())
def test_the_next_owner_of_a_torn_file_goes_on_behind_it(
    tmp_path_factory: pytest.TempPathFactory, kept: list[SpillRecord], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("spill")
    file = SpillFile.create(str(folder), "x.spill", {})
    file.write(b"".join(map(line_of, kept[:-1])))
    file.close()
    path = folder / "x.spill"
    cut = data.draw(st.integers(1, len(line_of(kept[-2])) - 1))
    os.truncate(path, path.stat().st_size - cut)
    adopted = SpillFile.adopt(str(path))
    assert adopted is not None
    again, _ = adopted
    again.write(line_of(kept[-1]))
    again.close()
    found, _ = read_lines(path.read_bytes())
    whole = kept[:-2] if cut > 1 else kept[:-1]
    assert list(found.values()) == [*whole, kept[-1]]


# --- owners -----------------------------------------------------------------------------


def record(n: int, thread: str = "s-1") -> SpillRecord:
    return SpillRecord(f"op-{n}", Entity("default", "thread", thread), (f'{{"n":{n}}}',), float(n))


def backlog(folder: Path, **options: int) -> Backlog:
    spill = Spill(str(folder), **options)  # type: ignore[arg-type]
    return Backlog(spill, "store", "default", World(), Counters())


def keep(kept: Backlog, *numbers: int) -> None:
    for n in numbers:
        assert kept.add(record(n))
    kept.persist()


def waiting(kept: Backlog) -> list[str]:
    return [r.op for records in kept.waiting.values() for r in records]


def test_a_file_has_one_owner_at_a_time(tmp_path: Path) -> None:
    first, second = backlog(tmp_path), backlog(tmp_path)
    keep(first, 1, 2)
    assert second.adopt() == 0
    first.close()
    assert (second.adopt(), backlog(tmp_path).adopt()) == (2, 0)
    assert waiting(second) == ["op-1", "op-2"]


def test_a_file_is_removed_when_all_of_it_is_settled(tmp_path: Path) -> None:
    kept = backlog(tmp_path)
    keep(kept, 1, 2)
    for n in (1, 2):
        kept.forget(record(n))
        kept.settle([f"op-{n}"])
        assert len(list(tmp_path.glob("*.spill"))) == 2 - n
    assert (kept.depth, kept.bytes) == (0, 0)


def test_what_was_settled_is_not_adopted(tmp_path: Path) -> None:
    kept = backlog(tmp_path)
    keep(kept, 1, 2, 3)
    kept.forget(record(2))
    kept.settle(["op-2"])
    kept.close()
    after = backlog(tmp_path)
    assert after.adopt() == 2
    assert waiting(after) == ["op-1", "op-3"]


def test_a_record_settled_before_it_was_written_never_is(tmp_path: Path) -> None:
    kept = backlog(tmp_path)
    assert kept.add(record(1))
    kept.forget(record(1))
    kept.settle(["op-1"])
    kept.persist()
    assert list(tmp_path.glob("*.spill")) == []


def test_a_file_that_grew_by_what_is_settled_is_begun_anew(tmp_path: Path) -> None:
    kept = backlog(tmp_path, max_bytes=1000)
    keep(kept, 0)
    for n in range(1, 200):
        keep(kept, n)
        if n > 1:
            kept.forget(record(n))
            kept.settle([f"op-{n}"])
        assert sum(path.stat().st_size for path in tmp_path.glob("*.spill")) <= 2300
    kept.close()
    after = backlog(tmp_path)
    after.adopt()
    assert waiting(after) == ["op-0", "op-1"]


def test_adopted_records_stand_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    old, new = backlog(tmp_path), backlog(tmp_path)
    keep(old, 1, 4)
    keep(new, 2, 3)
    old.close()
    new.adopt()
    assert waiting(new) == ["op-1", "op-2", "op-3", "op-4"]


class Unbroken(dict[Entity, deque[SpillRecord]]):
    """What waits, as callers look at it who take no lock: nothing may be missing for a moment."""

    def pop(self, *args: object) -> NoReturn:
        raise AssertionError("it was missing for a moment")

    def __delitem__(self, entity: Entity) -> NoReturn:
        raise AssertionError("it was missing for a moment")


def test_a_thread_waits_all_the_time_while_more_of_it_is_adopted(tmp_path: Path) -> None:
    old, new = backlog(tmp_path), backlog(tmp_path)
    keep(old, 1, 4)
    keep(new, 2, 3)
    old.close()
    new.waiting = Unbroken(new.waiting)
    new.adopt()
    assert waiting(new) == ["op-1", "op-2", "op-3", "op-4"]


def test_a_clock_that_was_set_back_does_not_reorder_a_file(tmp_path: Path) -> None:
    old, new = backlog(tmp_path), backlog(tmp_path)
    keep(old, 5, 1)
    keep(new, 3)
    old.close()
    new.adopt()
    assert waiting(new) == ["op-3", "op-5", "op-1"]


def test_a_clock_that_was_set_back_does_not_reorder_what_one_process_kept(tmp_path: Path) -> None:
    old, new = backlog(tmp_path), backlog(tmp_path)
    keep(old, 7, 8)
    old.close()
    keep(old, 5)  # under way when the store was closed: in another file
    old.close()
    keep(new, 6)
    new.adopt()
    assert waiting(new) == ["op-6", "op-7", "op-8", "op-5"]


def test_files_of_one_process_keep_their_order_whoever_adopts_which_of_them(tmp_path: Path) -> None:
    old, first, new = backlog(tmp_path), backlog(tmp_path), backlog(tmp_path)
    keep(old, 7, 8)
    old.close()
    first.adopt()
    keep(old, 5)
    old.close()
    new.adopt()
    assert waiting(new) == ["op-5"]
    assert [head_of(kept) for kept in (first, new)] == ["op-7", "op-7"]
    first.close()
    new.adopt()
    assert waiting(new) == ["op-7", "op-8", "op-5"]


def test_files_of_a_neighbour_keep_their_order_though_its_clock_was_set_back(
    tmp_path: Path,
) -> None:
    old, new = backlog(tmp_path), backlog(tmp_path)
    keep(old, 7)
    old.close()
    keep(old, 5)
    new.look()
    assert head_of(new) == "op-7"
    keep(new, 6)
    assert head_of(new) == "op-6"


def test_what_a_process_kept_later_stays_behind_what_of_it_was_adopted(tmp_path: Path) -> None:
    old, new = backlog(tmp_path), backlog(tmp_path)
    keep(old, 7)
    old.close()
    keep(new, 8)
    new.adopt()
    keep(old, 5)
    new.look()
    assert (waiting(new), head_of(new)) == (["op-7", "op-8"], "op-7")


def head_of(kept: Backlog) -> str | None:
    """What would be replayed first of the thread."""
    kept.look()
    head = kept.head(record(0).entity)
    return None if head is None else head.op


def test_a_child_does_not_keep_its_parents_lock(tmp_path: Path) -> None:
    kept = backlog(tmp_path)
    keep(kept, 1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        os.write(writing, b"x")
        signal.pause()
        os._exit(0)
    try:
        os.read(reading, 1)
        assert backlog(tmp_path).adopt() == 0, "the parent still lives"
        kept.close()
        assert backlog(tmp_path).adopt() == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_the_directory_is_where_programs_keep_their_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("STATEWARD_SPILL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert default_directory() == str(tmp_path / "stateward" / "spill")
    monkeypatch.setenv("STATEWARD_SPILL", "/var/spill")
    assert default_directory() == "/var/spill"


def test_a_file_that_another_account_wrote_is_not_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever may write it may put words into anybody's mouth. Its records stay where they are."""
    kept = backlog(tmp_path)
    keep(kept, 1)
    kept.close()
    (path,) = tmp_path.glob("*.spill")
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 4711)  # as another account finds it
        assert backlog(tmp_path).adopt() == 0
    path.chmod(0o622)
    assert backlog(tmp_path).adopt() == 0
    path.chmod(0o600)
    link = path.with_name(path.name.replace(".spill", "-link.spill"))
    path.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    assert backlog(tmp_path).adopt() == 0
    assert [r.getMessage() for r in caplog.records] == ["spill_refused"] * 2, "once a file"
    (tmp_path / "elsewhere").rename(path)
    assert backlog(tmp_path).adopt() == 1


@pytest.mark.parametrize(
    ("mode", "why", "mends"),
    [
        (0o1777, "is writable by everyone", "chmod o-w"),
        (0o702, "is writable by everyone", "chmod o-w"),
        (0o775, "is writable by its group", "chmod g-w"),
        (0o2770, "is writable by its group", "chmod g-w"),
    ],
)
def test_a_directory_that_others_may_write_to_is_refused(
    tmp_path: Path, mode: int, why: str, mends: str
) -> None:
    tmp_path.chmod(mode)
    for spill in (str(tmp_path), tmp_path, Spill(str(tmp_path))):
        with pytest.raises(InvalidInput, match=rf"{why}.*{mends} it"):
            stateward.open("memory://", spill=spill)
    tmp_path.chmod(mode & ~0o022)
    stateward.open("memory://", spill=tmp_path)


def test_a_directory_of_another_account_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:  # root may read what belongs to anybody, and give it away
        os.chown(tmp_path, 4711, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)  # as another account finds it
    with pytest.raises(InvalidInput, match=r"belongs to another account .*chown it"):
        stateward.open("memory://", spill=tmp_path)


def test_what_the_product_makes_is_taken_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keep(backlog(tmp_path / "a" / "spill"), 1)
    finally:
        os.umask(before)
    assert list((tmp_path / "a" / "spill").glob("*.spill"))
    stateward.open("memory://", spill=tmp_path / "a" / "spill")
