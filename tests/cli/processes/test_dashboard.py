"""The day of made-up life that `make dashboard` shows, and commands that tell of such a day."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateward import cli, sync
from stateward.repeats.find import find_repeats

ROOT = Path(__file__).parent.parent.parent.parent


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("shop_day", ROOT / "tools" / "shop_day.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shop_day"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with the day in it, and some more conversations."""
    made, url = generator(), f"sqlite:///{tmp_path_factory.mktemp('day')}/agents.db"
    made.fill(url, threads=7, messages=30, seed=1)
    life = made.Life(url, seed=1)
    try:
        life.live()
    finally:
        life.close()
    return url


@pytest.fixture
def store(url: str) -> Iterator[sync.Store]:
    with sync.open(url, heartbeat=None) as opened:
        yield opened


def test_three_replicas_live_and_one_is_gone(store: sync.Store) -> None:
    found = store.replicas()
    assert [info.status for info in found] == ["alive", "alive", "alive", "gone"]
    assert {info.host for info in found} == {"agents-0", "agents-1", "agents-2"}


def test_a_day_was_measured_with_an_outage_in_it(store: sync.Store) -> None:
    signals = store.signals(since=86_400, step=3600)
    assert 24 <= len(signals.points) <= 25
    assert signals.total.lookups > 100_000
    for event, ids in (
        ("suppressed", {"s-010", "s-011", "s-012"}),
        ("late", {"s-010", "s-011", "s-012"}),
        ("context_breaks", {"s-forgot"}),
        ("conflicts", {"s-005"}),
    ):
        assert getattr(signals.total, event) > 0, event
        assert {concern.id for concern in signals.total.concerned[event]} == ids
    hours = [point for point in signals.points if point.suppressed]
    assert 1 <= len(hours) <= 2
    assert all(point.breakers_open for point in hours)
    assert signals.total.lookup_p95 is not None


def test_turns_came_late_and_an_agent_forgot(store: sync.Store) -> None:
    assert all(store.thread(id).late() for id in ("s-010", "s-011", "s-012"))
    messages = store.thread("s-forgot").load().messages
    assert find_repeats(messages)


def test_conversations_have_titles_labels_and_receipts(store: sync.Store) -> None:
    infos = list(store.threads(order="recent", limit=200))
    titled = [info for info in infos if info.title]
    assert len(titled) >= 90
    assert all(info.labels for info in titled)
    window = store.thread("s-002").load()
    assert store.knew("s-002", window.version) is not None


def test_people_have_a_past(store: sync.Store) -> None:
    assert len(list(store.user("u-2").document("preferences").history())) == 4


def test_there_is_work_in_every_state(store: sync.Store) -> None:
    status = {info.id: info.status for info in store.workflows()}
    assert status["refund-1"] == "completed"
    assert status["refund-2"] == "active"
    assert status["refund-3"] == "failed"
    assert status["report-2"] == "active"
    assert [question.workflow for question in store.waiting("approval")] == ["refund-2"]
    assert [info.name for info in store.effects("unknown")] == ["pay_back"]
    assert [info.status for info in store.tasks()] == ["completed"] * 3
    assert [info.id for info in store.schedules()] == ["nightly-report"]


def test_what_was_done_by_hand_and_audits_are_there(store: sync.Store) -> None:
    assert store.operations.verify().problems == ()
    assert {info.verdict for info in store.audits.list()} == {"pass", "warn"}


def test_the_large_part_is_as_large_as_was_asked(store: sync.Store) -> None:
    many = [info for info in store.threads() if info.id.startswith("c-")]
    assert (len(many), sum(info.messages for info in many)) == (7, 30)


# --- the commands -----------------------------------------------------------------------


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert cli.main(words) == code
    return capsys.readouterr().out


def test_signals_are_shown_as_lines_of_bars(capsys: pytest.CaptureFixture[str], url: str) -> None:
    shown = said(capsys, "signals", url, "--since", "1d")
    assert "4 processes" in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("suppressed")]
    assert "█" in line
    assert "thread/s-010" in line
    told = json.loads(said(capsys, "signals", url, "--since", "1d", "--step", "1h", "--json"))
    assert (told["url"], told["step"]) == (url, 3600.0)
    assert len(told["points"]) >= 24
    assert "no measurements" in said(capsys, "signals", url, "--namespace", "other")


@pytest.mark.parametrize("wrong", ["", "1w", "-1h", "an hour", "2d"])
def test_a_time_that_is_none_is_refused(wrong: str, url: str) -> None:
    assert cli.main(["signals", url, f"--since={wrong}"]) == 2


def test_kept_audits_are_listed_and_shown(
    capsys: pytest.CaptureFixture[str], url: str, tmp_path: Path
) -> None:
    rows = json.loads(said(capsys, "audit", "list", url, "--json"))["rows"]
    assert [row["verdict"] for row in rows] == ["warn", "pass"]
    assert rows[0]["id"] in said(capsys, "audit", "list", url)
    shown = said(capsys, "audit", "show", url, "--output", str(tmp_path / "forms"))
    assert "WORSE" in shown
    assert "latency" in shown
    assert "Since the audit" not in said(capsys, "audit", "show", url, rows[1]["id"])
    assert (tmp_path / "forms" / "report.html").read_text().startswith("<!doctype html>")
    assert cli.main(["audit", "show", url, "none"]) == 2
    assert cli.main(["audit", "show", url, "--namespace", "other"]) == 2


def test_an_audit_is_kept_and_compared_with_the_last(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Judged from a record, so that nothing is attacked."""
    kept = f"sqlite:///{tmp_path}/kept.db"
    with sync.open(kept, heartbeat=None) as store:
        store.thread("t").append({"n": 1})
    record = {"title": "mine", "environment": {"machine": "m"}, "provides": []}
    for n, started in enumerate(("2026-11-01T00:00:00+00:00", "2026-11-02T00:00:00+00:00")):
        file = tmp_path / f"{n}.json"
        file.write_text(json.dumps(record | {"format": 1, "started": started}))
        words = ("audit", "--from", str(file), "--keep-in", kept)
        assert cli.main(words) in (0, 1, 3)
        shown = capsys.readouterr().out
        assert "kept as 202611" in shown
        assert ("Since the audit" in shown) == bool(n)
    assert len(json.loads(said(capsys, "audit", "list", kept, "--json"))["rows"]) == 2
    assert cli.main(["audit", "--keep"]) == 2  # a temporary store does not stay
