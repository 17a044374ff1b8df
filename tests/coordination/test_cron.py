"""When schedules are due, above all where clocks are put forward and back."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from itertools import islice

import pytest

from stateward.errors import InvalidInput
from stateward.state.cron import Cron

BERLIN = "Europe/Berlin"


def ticks(expression: str, after: str, count: int, zone: str = BERLIN) -> list[str]:
    """The next ticks after a moment, both in UTC."""
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC).timestamp()
    found = islice(Cron(expression, zone).ticks(moment), count)
    return [f"{datetime.fromtimestamp(tick, UTC):%m-%d %H:%M}" for tick in found]


def test_a_tick_is_at_the_time_of_its_zone_in_winter_and_in_summer() -> None:
    assert ticks("0 3 * * *", "2026-01-10T00:00", 1) == ["01-10 02:00"]
    assert ticks("0 3 * * *", "2026-07-10T00:00", 1) == ["07-10 01:00"]
    assert ticks("0 3 * * *", "2026-07-10T00:00", 1, "UTC") == ["07-10 03:00"]


def test_a_time_that_is_left_out_comes_as_soon_as_the_clocks_are_put_forward() -> None:
    # On 29 March, 02:00 is followed by 03:00 (01:00 UTC).
    assert ticks("30 2 * * *", "2026-03-28T00:00", 3) == [
        "03-28 01:30",
        "03-29 01:00",
        "03-30 00:30",
    ]
    # Two that are left out are one, also with one that is not.
    assert ticks("0,30 2 * * *", "2026-03-28T12:00", 2) == ["03-29 01:00", "03-30 00:00"]
    assert ticks("0 2,3 * * *", "2026-03-28T12:00", 2) == ["03-29 01:00", "03-30 00:00"]


def test_a_time_that_comes_twice_is_a_tick_the_first_time() -> None:
    # On 25 October, 03:00 (01:00 UTC) is followed by 02:00.
    assert ticks("30 2 * * *", "2026-10-24T12:00", 2) == ["10-25 00:30", "10-26 01:30"]
    # Nor is it one again for whoever asks in between.
    assert ticks("45 2 * * *", "2026-10-25T00:50", 1) == ["10-26 01:45"]
    assert ticks("45 2 * * *", "2026-10-25T01:30", 1) == ["10-26 01:45"]


def test_every_hour_and_every_so_many_minutes_follow_real_time() -> None:
    spring = ["03-29 00:00", "03-29 00:30", "03-29 01:00", "03-29 01:30"]
    assert ticks("*/30 * * * *", "2026-03-28T23:45", 4) == spring
    autumn = ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30", "10-25 02:00"]
    assert ticks("*/30 * * * *", "2026-10-24T23:45", 5) == autumn
    assert ticks("0 * * * *", "2026-10-24T23:45", 3) == autumn[::2]


@pytest.mark.parametrize(
    "expression", ["30 2 * * *", "0,30 1-3 * * *", "*/20 * * * *", "0 */2 * * *"]
)
@pytest.mark.parametrize("begin", ["2026-03-28T12:00", "2026-10-24T12:00"])
def test_whoever_asks_at_whatever_moment_sees_the_same_ticks(expression: str, begin: str) -> None:
    """Else two workers would come to different ids for the same tick."""
    cron = Cron(expression, BERLIN)
    start = datetime.fromisoformat(begin).replace(tzinfo=UTC).timestamp()
    all_of_them = list(islice(cron.ticks(start), 100))
    assert all_of_them == sorted(set(all_of_them))
    for minute in range(0, 24 * 60, 7):
        moment = start + 60.0 * minute + 0.25
        assert cron.after(moment) == next(tick for tick in all_of_them if tick > moment)


def test_the_newest_are_found_without_counting_all() -> None:
    cron = Cron("* * * * *", BERLIN)
    year = 365 * 86_400.0
    found = cron.newest(3, 0.0, year)
    assert found == [year - 180.0, year - 120.0, year - 60.0]
    assert cron.newest(5, year - 150.0, year) == [year - 120.0, year - 60.0]
    assert Cron("0 3 1 1 *", "UTC").newest(2, 0.0, 40 * year) == [
        datetime(2008, 1, 1, 3, tzinfo=UTC).timestamp(),
        datetime(2009, 1, 1, 3, tzinfo=UTC).timestamp(),
    ]


def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="bad hour"):
        Cron("0 25 * * *", BERLIN)
    with pytest.raises(InvalidInput, match="'Europe/Berlin'"):
        Cron("0 3 * * *", "Berlin")
    with pytest.raises(InvalidInput, match="text"):
        Cron(7, BERLIN)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(InvalidInput, match=r"pip install 'stateward\[cron\]'"):
        Cron("0 3 * * *", BERLIN)
