"""Several processes on one file at the same time: nothing is lost, split or doubled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

import stateward.sync
from processes.children import begin_together
from processes.conftest import Start

MIXED = ("async", "sync") * 4
COLOURS = {"async": ("async",) * 8, "sync": ("sync",) * 8, "both": MIXED}

Reports = list[dict[str, Any]]


def race(start: Start, url: str, job: str, count: int, colours: tuple[str, ...]) -> Reports:
    """All of them do the job `count` times, beginning at one moment; what each reports."""
    racers = [start("racer", url, colour, job, who, count) for who, colour in enumerate(colours)]
    begin_together(racers)
    patience = 60 + 0.05 * count * len(colours)  # a slow machine is no failure
    return [racer.report(patience) for racer in racers]


def check_race(path: Path, run: Callable[[str], bool]) -> None:
    """All that it promises holds in every race; one that was none is run again, on another file.

    On a quick machine one process may be done before the others have got going.
    """
    for number in range(10):
        file = path.with_name(f"race-{number}.db")
        real = run(f"sqlite:///{file}")
        check_file(file)
        if real:
            return
    raise AssertionError("they never met: this was no race")


def check_file(path: Path) -> None:
    connection = apsw.Connection(str(path))
    try:
        assert connection.pragma("integrity_check") == "ok"
    finally:
        connection.close()


# --- one document -----------------------------------------------------------------------


def check_updates(
    start: Start, url: str, count: int, colours: tuple[str, ...], job: str = "update"
) -> bool:
    """Whether anybody met a conflict."""
    reports = race(start, url, job, count, colours)
    total = count * len(colours)
    with stateward.sync.open(url) as store:
        document = store.user("u-1").get()
    assert (document.value, document.version) == ({"n": total}, total)
    versions = sorted(version for report in reports for version in report["versions"])
    assert versions == list(range(1, total + 1)), "two processes were given the same version"
    return sum(report["tries"] for report in reports) > total


@pytest.mark.parametrize("colours", COLOURS.values(), ids=COLOURS)
def test_eight_processes_update_one_document_and_no_update_is_lost(
    start: Start, path: Path, colours: tuple[str, ...]
) -> None:
    check_race(path, lambda url: check_updates(start, url, 250, colours))


@pytest.mark.soak
def test_eight_processes_update_one_document_for_long(start: Start, path: Path) -> None:
    check_race(path, lambda url: check_updates(start, url, 10_000, MIXED, job="update_patiently"))


# --- one thread -------------------------------------------------------------------------


def check_turns(start: Start, url: str, count: int, colours: tuple[str, ...]) -> bool:
    """Whether they wrote other than one after the other."""
    reports = race(start, url, "append", count, colours)
    total = 2 * count * len(colours)
    with stateward.sync.open(url) as store:
        thread = store.thread("common", user="u-1")
        window = thread.load()
        changes = list(thread.changes(follow=False))
    assert (window.version, len(window.messages), window.omitted) == (total, total, 0)
    assert [change.version for change in changes] == list(range(1, total + 1))
    assert [change.message for change in changes] == window.messages

    ends = []
    for who, report in enumerate(reports):
        assert set(report["statuses"]) == {"stored"}
        for number, end in enumerate(report["versions"]):
            ends.append(end)
            # Where the store said it would be, whole, with nothing in between.
            assert window.messages[end - 2 : end] == [
                {"who": who, "turn": number, "part": part} for part in (1, 2)
            ]
        assert report["versions"] == sorted(report["versions"])
    assert sorted(ends) == list(range(2, total + 1, 2)), "the acknowledged versions have a gap"
    writers = [message["who"] for message in window.messages[::2]]
    return sum(a != b for a, b in pairwise(writers)) >= len(colours)


@pytest.mark.parametrize("colours", COLOURS.values(), ids=COLOURS)
def test_eight_processes_append_to_one_thread_and_no_turn_is_split(
    start: Start, path: Path, colours: tuple[str, ...]
) -> None:
    check_race(path, lambda url: check_turns(start, url, 100, colours))


@pytest.mark.soak
def test_eight_processes_append_to_one_thread_for_long(start: Start, path: Path) -> None:
    check_race(path, lambda url: check_turns(start, url, 10_000, MIXED))


def test_a_key_raced_by_eight_processes_is_stored_once(start: Start, path: Path) -> None:
    check_race(path, lambda url: check_keys(start, url, 400))


def check_keys(start: Start, url: str, count: int) -> bool:
    """Whether not always the same process was first."""
    reports = race(start, url, "same_key", count, MIXED)
    winners = set()
    for number in range(count):
        answers = [(r["statuses"][number], r["versions"][number]) for r in reports]
        assert sorted(status for status, _ in answers) == ["duplicate"] * 7 + ["stored"], number
        assert len({version for _, version in answers}) == 1, "a duplicate names another version"
        winners.add([status for status, _ in answers].index("stored"))
    with stateward.sync.open(url) as store:
        messages = store.thread("common", user="u-1").load().messages
    assert sorted((m["turn"], m["part"]) for m in messages) == [
        (number, part) for number in range(count) for part in (1, 2)
    ]
    return len(winners) > 1


# --- threads of their own ---------------------------------------------------------------


def own_threads(start: Start, url: str, count: int) -> tuple[float, float]:
    """Four processes, a thread each; how long 99 % of the appends took at most, here and alone."""
    reports = race(start, url, "append_own", count, ("async", "sync", "async", "sync"))
    with stateward.sync.open(url) as store:
        for who in range(4):
            messages = store.thread(f"own-{who}", user="u-1").load().messages
            assert messages == [
                {"who": who, "turn": number, "part": part}
                for number in range(count)
                for part in (1, 2)
            ]
    here, alone = (
        sorted(seconds for report in reports for seconds in report[where])
        for where in ("seconds", "alone")
    )
    return here[len(here) * 99 // 100], alone[len(alone) * 99 // 100]


@pytest.mark.timing
def test_four_processes_append_to_their_own_threads_and_wait_for_each_other_but_not_long(
    start: Start, url: str, path: Path
) -> None:
    p99, alone = own_threads(start, url, 250)
    check_file(path)
    assert p99 <= 0.1 + 4 * alone, f"p99 was {p99 * 1000:.1f} ms, and {alone * 1000:.1f} ms alone"
