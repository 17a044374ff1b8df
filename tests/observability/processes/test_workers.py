"""One scrape tells of all workers of a host, those that are gone included."""

from __future__ import annotations

import os
import stat
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes.children import Child

from observability import scrapes
from observability.colours import Open, ok
from stateward import Cache, InvalidInput, sync
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.exporters.prometheus import scrape
from stateward.observe.metrics import Family, Sample
from stateward.observe.workers import ENDED, ENV, MERGE, SUFFIX, add_together

HELLO = {"role": "user", "content": "hello"}
PATIENCE = 30.0
APPENDS = {"kind": "thread", "operation": "append"}


def appended(store: Any) -> float:
    """By all workers, as a scrape of this one says."""
    return appends_in(scrape(store))


def appends_in(text: str) -> float:
    read = scrapes.read(text)
    counted = read.total("stateward_operations_total", outcome="ok", **APPENDS)
    assert counted == read.total("stateward_operation_duration_seconds_count", **APPENDS)
    return counted


class Worker:
    """A process that appends, and is asked what all have appended."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self._url = f"http://127.0.0.1:{child.until_lines(1)[0]}/metrics"

    def do(self, line: str) -> None:
        heard = len(self.child.lines)
        self.child.tell(line)
        self.child.until_lines(heard + 1)

    def end(self, how: str) -> None:
        self.child.tell(how)
        self.child.finish()

    def scraped(self) -> float:
        with urllib.request.urlopen(self._url, timeout=PATIENCE) as answer:
            return appends_in(answer.read().decode())

    def scraped_until(self, wanted: float) -> None:
        """Others write once a second; until then the sum may lack something, but never falls."""
        before, deadline = 0.0, time.monotonic() + PATIENCE
        while (found := self.scraped()) != wanted:
            assert before <= found < wanted
            assert time.monotonic() < deadline, f"{found} instead of {wanted}"
            before = found
            time.sleep(0.02)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(SUFFIX)]


def test_one_scrape_has_the_sums_of_workers_that_live_are_killed_exit_and_come(
    start: Callable[..., Child], tmp_path: Path
) -> None:
    folder = tmp_path / "metrics"

    def worker() -> Worker:
        return Worker(start("worker", f"sqlite:///{tmp_path}/agents.db", folder))

    first, second, third = worker(), worker(), worker()
    for each, count in ((first, 3), (second, 4), (third, 5)):
        each.do(f"append {count}")
    first.scraped_until(12)
    assert len(files_in(folder)) == 3
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}

    second.do("append 10")
    assert second.scraped() == 22  # what it has said is on file, so that a kill takes none of it
    second.do("fork")  # the child does not keep its parent's file alive
    second.child.kill()
    assert first.scraped() == third.scraped() == 22
    assert len(files_in(folder)) == 2

    again = worker()
    again.do("append 1")
    assert again.scraped() == 23
    third.do("append 2")
    third.end("exit")  # nobody closes its store
    again.do("append 6")
    again.end("close")
    assert first.scraped() == 31
    assert len(files_in(folder)) == 1
    first.end("close")


async def test_counters_of_closed_stores_stay_and_their_gauges_go(
    open_store: Open, tmp_path: Path
) -> None:
    options = {"metrics": tmp_path / "metrics", "cache": Cache()}
    asked, other = open_store(**options), open_store(**options)
    for store in (asked, other):
        await ok(store.thread("s-1").append(HELLO))
        await ok(store.thread("s-1").load())
    both = scrape_when(asked, 2)
    assert both.total("stateward_cache_entities") == 2
    assert both.types == {described.name: described.type for described in CATALOGUE}
    rows = both.total("stateward_storage_rows", engine="memory")
    await ok(other.close())
    left = scrape_when(asked, 2)
    assert left.total("stateward_cache_entities") == 1
    assert left.total("stateward_storage_rows", engine="memory") == rows == 2  # not a sum
    assert store.metrics().value("stateward_operations_total", **APPENDS) == 1  # its own
    await ok(asked.close())
    assert appended(asked) == 2  # it has ended too, and is not counted twice


def scrape_when(store: Any, wanted: float) -> scrapes.Scrape:
    deadline = time.monotonic() + PATIENCE
    while appends_in(text := scrape(store)) != wanted:
        assert time.monotonic() < deadline, f"{appends_in(text)} instead of {wanted}"
        time.sleep(0.02)
    return scrapes.read(text)


def test_the_folder_stays_small_and_is_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV, str(tmp_path))
    for count in range(1, 11):
        with sync.open("memory://") as store:
            store.thread("s-1").append(HELLO)
        assert appended(store) == count
        assert {path.name for path in tmp_path.iterdir()} == {ENDED, MERGE}
    with sync.open("memory://", metrics=False) as store:
        store.thread("s-1").append(HELLO)
    assert len(list(tmp_path.iterdir())) == 2


def test_who_is_killed_while_it_merges_makes_nobody_count_twice(tmp_path: Path) -> None:
    with sync.open("memory://", metrics=tmp_path) as store:
        store.thread("s-1").append(HELLO)
    [path] = files_in(tmp_path)
    written = path.read_bytes()
    assert appended(store) == 1
    path.write_bytes(written)  # as if it had not come to remove it
    assert appended(store) == 1
    assert not path.exists()


def test_a_damaged_file_is_told_of_and_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("1-torn", "2-empty"):
        (tmp_path / f"{name}{SUFFIX}").write_text('{"fam' if "torn" in name else "")
    with sync.open("memory://", metrics=tmp_path) as store:
        store.thread("s-1").append(HELLO)
        assert appended(store) == 1
    assert "metrics_not_read" in caplog.messages
    assert len(files_in(tmp_path)) == 1


def test_a_folder_that_cannot_be_written_costs_the_sum_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with sync.open("memory://", metrics=tmp_path / "file" / "metrics") as store:
        store.thread("s-1").append(HELLO)
        assert [appended(store) for _ in range(3)] == [1, 1, 1]
    assert caplog.messages.count("metrics_not_written") == 1


def test_a_folder_that_anybody_may_write_to_is_refused(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)
    with pytest.raises(InvalidInput, match="STATEWARD_METRICS"):
        sync.open("memory://", metrics=tmp_path)
    for wrong in ("", None, 3):
        with pytest.raises(InvalidInput, match="folder"):
            sync.open("memory://", metrics=wrong)  # type: ignore[arg-type]


def test_the_highest_counts_where_a_sum_would_say_nothing() -> None:
    def family(name: str, value: float) -> list[Family]:
        return [Family(name, "gauge", "", [Sample({}, value)])]

    for name, together in {
        "stateward_spill_age_seconds": 7.0,
        "stateward_breaker_open": 7.0,
        "stateward_spill_depth": 12.0,
        "stateward_storage_bytes": 5.0,  # of who was asked
    }.items():
        [whole] = add_together([family(name, 5.0), family(name, 7.0)])
        assert whole.samples == [Sample({}, together)]
