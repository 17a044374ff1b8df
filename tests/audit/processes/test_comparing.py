"""Patterns side by side, what a month of each costs, and which one suits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from audit.auditing import TODAY, judged
from audit.test_questions import STORED, TURNS, good, level
from stateward import cli
from stateward.audit.compare import Table, compared, table
from stateward.audit.config import THRESHOLDS, requirements
from stateward.audit.forms import comparison, junit, markdown, page, schema, terminal
from stateward.audit.prices import Prices, read_prices
from stateward.audit.record import Costs, Growing, Record, TurnRace, Updates
from stateward.audit.report import Report
from stateward.audit.verdict import report
from stateward.errors import InvalidInput

PRICES = Prices("EUR", 0.1, 0.0, 0.2, 0.01, 0.5, 0.25, 40.0, 2.0)


def priced(record: Record, prices: Prices = PRICES) -> Report:
    return report(record, THRESHOLDS, {}, TODAY, prices)


# --- prices -----------------------------------------------------------------------------


def test_a_month_is_billed_with_persistence_and_without() -> None:
    """1,000 bytes a turn, 10,000 turns a day, kept for 30 days; 4 connections for 100 agents."""
    found = priced(good()).money
    assert found is not None
    bill = {part.what: (part.amount, part.on, part.off) for part in found.parts}
    assert bill == {
        "state on disk": (pytest.approx(0.3), pytest.approx(0.03), 0.0),
        "written to disk": (pytest.approx(0.3), pytest.approx(0.06), 0.0),
        "transferred": (pytest.approx(3.3), pytest.approx(0.033), pytest.approx(0.033)),
        "calls": (pytest.approx(0.6), pytest.approx(0.3), pytest.approx(0.3)),
        "connections": (400, 100.0, 100.0),
        "servers": (2.0, 80.0, 80.0),
    }
    assert found.on == pytest.approx(180.423)
    assert found.off == pytest.approx(180.333)


def test_what_was_not_measured_makes_no_sum() -> None:
    record = good()
    record.growing = Growing(100, None, None, None)
    record.costs = Costs(3, 4, 1000, 30_000_000, 10, None)
    found = priced(record).money
    assert found is not None
    assert (found.on, found.off) == (None, None)
    free = priced(record, Prices(node_month=10.0)).money
    assert free is not None
    assert (free.on, free.off) == (10.0, 10.0)
    assert judged(record).money is None


def test_every_form_of_the_report_shows_the_bill() -> None:
    found = priced(good())
    for said in (
        " ".join(terminal.text(found, False, 100).split()),
        markdown.text(found),
        page.html(found),
        junit.xml(found),
    ):
        assert "180.42 EUR" in said.replace("\\", "")
        assert "180.33 EUR" in said.replace("\\", "")


def test_prices_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    for text, said in (
        ("gb_stored = 1.0", "gb_month_stored"),
        ("node_month = -1.0", "0 or more"),
        ("node_month = 'free'", "node_month"),
        ("node_month", "not TOML"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=said):
            read_prices(str(path))
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_prices(str(tmp_path / "none.toml"))


def test_a_file_of_prices_is_written_and_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "prices.toml")
    assert cli.main(["audit", "init", "prices", path]) == 0
    assert read_prices(path) == Prices("USD", 0.1, 0.0, 0.0, 0.01, 0.0, 0.0, 50.0, 1.0)
    assert cli.main(["audit", "init", "prices", path]) == 2
    assert "already exists" in capsys.readouterr().err


# --- the table --------------------------------------------------------------------------


def tabled(*records: Record, **wanted: Any) -> Table:
    required = requirements(wanted, None, 100.0)
    rows = [compared(record, priced(record), required) for record in records]
    return table(rows, required, 100, "EUR")


def three() -> list[Record]:
    slow, lossy, best = (replace(good(), title=name) for name in ("slow", "lossy", "best"))
    slow.levels = [level(p95=20.0)]
    slow.costs = Costs(3, 1, 1000, 30_000_000, 10, 900.0)
    lossy.turn_race = TurnRace(TURNS, STORED[2:], 2)
    lossy.levels = [level(p95=1.0)]
    return [slow, lossy, best]


def test_the_fastest_of_those_that_have_all_is_recommended() -> None:
    found = tabled(*three())
    assert found.recommended == "best"
    assert [row.suits for row in found.targets] == [True, False, True]
    assert [row.races for row in found.targets] == ["pass", "fail", "pass"]
    assert "best is the fastest here: p95 5 ms." in found.recommendation
    assert "slow does as well" in found.recommendation
    assert found.recommendation.endswith(
        "Not suited: lossy (1 question fails: races; races: fail)."
    )


def test_what_the_user_requires_decides() -> None:
    assert tabled(*three(), prefer="money").recommended == "slow"
    assert "slow is the cheapest" in tabled(*three(), prefer="money").recommendation
    none = tabled(*three(), p95_ms=2.0)
    assert none.recommended is None
    assert "p95: 20 ms, wanted at most 2 ms" in none.recommendation
    assert tabled(*three(), connections=100).recommended == "slow"
    unknown = replace(good(), title="unknown", growing=Growing(100, None, None, None))
    assert "growth a year: not known" in tabled(unknown, gb_a_year=9.0).recommendation
    only = tabled(unknown, prefer="money")
    assert only.recommended is None
    assert "None of those that meet the requirements reports the money" in only.recommendation


def test_requirements_come_from_the_config_and_from_the_command_line() -> None:
    wanted = requirements({"p95_ms": 50, "races": "any"}, "p95_ms=20, prefer=memory", 100.0)
    assert (wanted.p95_ms, wanted.races, wanted.prefer) == (20.0, "any", "memory")
    assert requirements({}, None, 100.0).p95_ms == 100.0
    for words, said in (("p95", "is like"), ("p95=1", "p95_ms"), ("prefer=luck", "prefer")):
        with pytest.raises(InvalidInput, match=said):
            requirements({}, words, 100.0)


def test_every_form_of_the_table_has_all_of_it() -> None:
    hostile = replace(good(), title="<b>|x|</b>\x1b[31m")
    found = tabled(*three(), hostile)
    text, said, html = comparison.text(found), comparison.markdown(found), comparison.html(found)
    for form in (text, said.replace("\\", ""), html):
        assert "best is the fastest here" in " ".join(form.split())
        for word in ("slow", "lossy", "20", "400", "180.42 EUR", "pass", "fail", "durable"):
            assert word in form
        assert "\x1b" not in form
    assert "<b>" not in html
    assert "<b>" not in said
    assert 'href="report-1.html"' in comparison.html(found, ["report-1.html"])


def test_targets_are_compared_and_every_form_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, prices = tmp_path / "out", tmp_path / "prices.toml"
    prices.write_text("node_month = 50.0\n")
    config = tmp_path / "audit.toml"
    config.write_text("[sizes]\nthreads = 4\ngrowth_turns = 30\n[require]\nraces = 'any'\n")
    sizes = ("--replicas", "2", "--duration", "1", "--conversations", "10", "--seed", "5")
    asked = ("--only", "sessions,growth", "--prices", str(prices), "--config", str(config))
    command = ["audit", "compare", "naive:process-dict", "statefulset:2", *sizes, *asked]
    assert cli.main([*command, "--output", str(out), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [row["target"] for row in found["targets"]] == [
        "naive:process-dict",
        "2 volumes with routing",
    ]
    assert found["targets"][1]["money_a_month"] == 50.0
    assert "naive:process-dict (" in found["recommendation"]
    names = {path.name for path in out.iterdir()}
    assert {"compare.json", "compare.md", "compare.html"} <= names
    assert {"report-1.html", "report-2.json"} <= names
    assert json.loads((out / "compare.json").read_text()) == found


def test_what_one_report_was_not_asked_is_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = good()
    whole = judged(record)
    record.updates = Updates(100, 0, 93, 3)
    record.turn_race = TurnRace(TURNS, STORED[2:], 2)
    record.skipped = ["load"]
    part = judged(record)
    paths = []
    for name, found in (("a", whole), ("b", part)):
        path = tmp_path / f"{name}.json"
        path.write_bytes(schema.to_json(found))
        paths.append(str(path))
    told = []
    for words in (["audit", "--compare"], ["audit", "compare"]):
        assert cli.main([*words, *paths, "--output", str(tmp_path / words[-1])]) == 1
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    gone = len(whole.answers) - len(part.answers)
    assert f"The verdicts differ on 2 of {len(part.answers)} questions." in told[0]
    assert f"{gone} more were not asked in every report." in told[0]
    asked = [line for line in told[0].splitlines() if line[:1].isdigit() and "?" in line]
    assert [line.split()[0] for line in asked[:2]] == ["10", "11"]
    assert {line.split()[0] for line in asked[-gone:]} == {"6", "7"}
    assert 'class="severity critical"' in (tmp_path / "compare" / "runs.html").read_text()
