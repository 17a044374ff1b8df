"""Parts that a memory is meant to have: others are not asked for, and each of these is needed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from audit.auditing import answer, judged
from audit.test_questions import good
from stateward import cli
from stateward.audit.config import read_config
from stateward.audit.record import Monitoring, Record
from stateward.errors import InvalidInput
from stateward.files import read_toml

SMALL = ["threads", "users", "metrics"]


def small(expected: list[str] | None) -> Record:
    """Return the record of a sound memory that has a few parts and no backup."""
    record = good()
    record.provides, record.expected, record.drill = list(SMALL), expected, None
    record.growing = record.settings = record.lock_race = record.task_race = None
    assert record.monitoring is not None
    record.monitoring = replace(record.monitoring, alarm=None, alarm_after=None, suppressed=0)
    return record


def test_a_sound_memory_without_some_parts_passes_if_these_are_not_expected() -> None:
    found = judged(small(SMALL))
    assert {a.id: a.summary for a in found.answers if a.verdict not in ("pass", "warn")} == {}
    assert found.verdict == "pass"
    assert "Not expected, and not asked:" in found.sentence
    assert "backup" in found.sentence.partition("not asked:")[2]
    unexpected = judged(small(None))
    assert unexpected.verdict == "fail"
    assert {"absent", "unknown"} <= {a.verdict for a in unexpected.answers}


def test_a_part_that_is_expected_and_missing_fails() -> None:
    record = small([*SMALL, "tasks", "backup"])
    assert answer(judged(record), "tasks").verdict == "absent"
    assert answer(judged(record), "backup").verdict == "unknown"
    assert judged(record).verdict == "fail"


def test_a_part_that_is_there_is_asked_though_it_is_not_expected() -> None:
    record = good()
    record.expected = ["threads"]
    assert {a.id for a in judged(record).answers} == {a.id for a in judged(good()).answers}


def test_no_alarm_is_due_where_writes_raise() -> None:
    record = good()
    silent = Monitoring("m", 60, {"p50": 1, "p95": 2, "p99": 3}, True, 0, None, None)
    record.monitoring = replace(silent, refused=15)
    assert answer(judged(record), "monitoring").verdict == "pass"
    record.monitoring = silent
    assert answer(judged(record), "monitoring").verdict == "unknown"


def test_a_first_audit_says_what_the_next_ones_expect(tmp_path: Path) -> None:
    first, config = tmp_path / "first.json", tmp_path / "audit.toml"
    record = small(None)
    first.write_bytes(msgspec.json.encode(record))
    written = ["audit", "init", "config", str(config), "--from", str(first)]
    assert cli.main(written) == 0
    assert read_toml(str(config))["expect"] == {"parts": SMALL}
    assert read_config(str(config)).expect == {"parts": SMALL}
    assert cli.main(["audit", "--from", str(first)]) == 1
    assert cli.main(["audit", "--from", str(first), "--config", str(config)]) == 0


def test_what_init_needs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["audit", "init", "config", str(tmp_path / "audit.toml")]) == 2
    assert "--from RECORD" in capsys.readouterr().err


@pytest.mark.parametrize(
    "section", ['parts = ["thread"]', 'parts = "threads"', 'part = ["threads"]'], ids=str
)
def test_a_part_that_does_not_exist_is_refused(section: str, tmp_path: Path) -> None:
    config = tmp_path / "audit.toml"
    config.write_text(f"[expect]\n{section}\n")
    with pytest.raises(InvalidInput, match="expect"):
        read_config(str(config))
