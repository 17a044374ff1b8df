"""report.json: written, read back, described, compared with an older one, and redacted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from audit_report.sample_reports import SAMPLES, failing, interrupted, passing, waived
from stateward.audit.forms import baseline, schema
from stateward.audit.forms.redaction import redact
from stateward.audit.report import FORMAT, Evidence, Growth, Report, Setting, Verdict
from stateward.errors import InvalidInput
from stateward.pages.series import Curve, Moment, Point

PUBLISHED = Path(__file__).resolve().parents[3] / "docs" / "reference" / "report.schema.json"
every_sample = pytest.mark.parametrize("report", [make() for make in SAMPLES.values()], ids=SAMPLES)


def tree(report: Report) -> Any:
    return json.loads(schema.to_json(report))


# --- the file ---------------------------------------------------------------------------


@every_sample
def test_what_is_written_is_read_back_and_satisfies_the_published_schema(report: Report) -> None:
    assert schema.from_json(schema.to_json(report)) == report
    published = json.loads(PUBLISHED.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    jsonschema.validate(tree(report), published, cls=jsonschema.Draft202012Validator)


def test_the_published_schema_is_current() -> None:
    made = "python -m stateward.audit.forms.schema > docs/reference/report.schema.json"
    assert PUBLISHED.read_text("utf-8") == schema.published(), f"make it anew: {made}"


@pytest.mark.parametrize(
    ("field", "value"), [("format", FORMAT + 1), ("verdict", "fine"), ("answers", 3), ("seed", "x")]
)
def test_the_schema_refuses_what_is_no_report(field: str, value: object) -> None:
    wrong = {**tree(passing()), field: value}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema.json_schema(), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("found", "advice"), [(FORMAT + 1, "upgrade Stateward"), (FORMAT - 1, "run the audit again")]
)
def test_another_format_is_refused_with_what_to_do(found: int, advice: str) -> None:
    data = json.dumps({**tree(passing()), "format": found})
    with pytest.raises(InvalidInput, match=f"has format {found}.*reads format {FORMAT}: {advice}"):
        schema.from_json(data)


@pytest.mark.parametrize(
    "data", [b"", b"<html>", b"[]", b'{"a": 1}', b"\xff\xfe", b'{"format":"1"}']
)
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not an audit report"):
        schema.from_json(data)


def test_a_damaged_report_is_refused_and_names_the_place() -> None:
    wrong = tree(passing())
    wrong["answers"][3]["verdict"] = "fine"
    with pytest.raises(InvalidInput, match=r"damaged.*answers\[3\]\.verdict"):
        schema.from_json(json.dumps(wrong))


def test_a_field_that_a_later_version_added_is_passed_over() -> None:
    data = json.dumps({**tree(passing()), "mood": "good"})
    assert schema.from_json(data) == passing()


def test_a_second_without_a_figure_is_left_out_of_the_file() -> None:
    report = passing()
    nothing = float("inf")
    (timeline,) = report.timelines
    hole = Moment(61.0, nothing, nothing, nothing, 200.0, 0.0, 200)
    line = replace(timeline, moments=(*timeline.moments, hole))
    curve = Curve("c", "x", (Point(1.0, 1.0, 1.0, nothing),))
    read = schema.from_json(schema.to_json(replace(report, timelines=(line,), curves=(curve,))))
    assert read.timelines == report.timelines
    assert read.curves[0].points == ()


def test_every_field_of_a_comparison_is_in_the_reference() -> None:
    text = (PUBLISHED.parent / "audit-report.md").read_text("utf-8")
    for kind in (baseline.Difference, baseline.Comparison):
        for name in (kind.__name__, *kind.__struct_fields__):
            assert f"`{name}`" in text, name


# --- the baseline -----------------------------------------------------------------------


def with_answer(report: Report, name: str, **fields: Any) -> Report:
    answers = (replace(a, **fields) if a.id == name else a for a in report.answers)
    return replace(report, answers=tuple(answers))


def test_a_report_does_not_differ_from_itself() -> None:
    comparison = baseline.compare(passing(), passing())
    assert comparison.changes == ()
    assert not comparison.worse
    assert "nothing changed" in baseline.text(comparison)


def test_noise_is_no_change_and_more_than_noise_is() -> None:
    def at(p95: float) -> Report:
        return with_answer(
            passing(), "lookups", evidence=(Evidence("p95", p95, "ms", "under 100 ms"),)
        )

    assert baseline.compare(at(20.0), at(25.0)).changes == ()
    assert baseline.compare(at(0.3), at(1.1)).changes == ()  # under 2 ms it does not matter
    (change,) = baseline.compare(at(20.0), at(60.0)).changes
    assert change == baseline.Difference("figure", "lookups", "p95", "20 ms", "60 ms", "worse")
    (change,) = baseline.compare(at(60.0), at(20.0)).changes
    assert change.direction == "better"


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        (Evidence("lost", 0, "turns", "0"), Evidence("lost", 1, "turns", "0"), "worse"),
        (Evidence("rate", 200, "calls/s"), Evidence("rate", 90, "calls/s"), "worse"),
        (Evidence("kept", 10, "", "at least 9"), Evidence("kept", 20, "", "at least 9"), "better"),
        (Evidence("level", "serializable"), Evidence("level", "none"), "different"),
        (Evidence("alarm", True), Evidence("alarm", False), "different"),
        (Evidence("RTO", None, "s"), Evidence("RTO", 2.0, "s"), "different"),
    ],
)
def test_the_direction_of_a_change(before: Evidence, after: Evidence, direction: str) -> None:
    old = with_answer(passing(), "races", evidence=(before,))
    (change,) = baseline.compare(old, with_answer(old, "races", evidence=(after,))).changes
    assert change.direction == direction


def test_verdicts_that_moved_come_first_and_worst_first() -> None:
    old = with_answer(passing(), "outages", verdict="fail")
    comparison = baseline.compare(old, with_answer(passing(), "races", verdict="unknown"))
    assert [(c.where, c.before, c.after, c.direction) for c in comparison.changes] == [
        ("races", "pass", "unknown", "worse"),
        ("outages", "fail", "pass", "better"),
    ]
    assert comparison.worse
    text = baseline.text(comparison)
    assert (
        "WORSE     races: Are race conditions between replicas prevented?: pass → unknown" in text
    )


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        ("pass", "warn", "worse"),
        ("unknown", "fail", "worse"),
        ("fail", "warn", "better"),
        ("unknown", "pass", "better"),
        ("fail", "unknown", "different"),
        ("fail", "error", "different"),
    ],
)
def test_to_know_less_is_no_improvement(before: Verdict, after: Verdict, direction: str) -> None:
    old, new = (with_answer(passing(), "races", verdict=verdict) for verdict in (before, after))
    (change,) = baseline.compare(old, new).changes
    assert change.direction == direction


def test_questions_settings_curves_and_growth_are_compared() -> None:
    old = passing()
    slow = tuple(
        replace(c, points=tuple(replace(p, p95=p.p95 * 3) for p in c.points)) for c in old.curves
    )
    setting = Setting("synchronous", "OFF", "fail", "An accepted write may be lost.")
    new = replace(
        old,
        answers=old.answers[1:],
        curves=slow,
        settings=(old.settings[0], setting),
        growth=Growth(9999.0, 50_000.0, None, None, None),
    )
    changes = {(c.kind, c.where, c.what): c for c in baseline.compare(old, new).changes}
    assert changes["setting", "settings", "synchronous"].direction == "worse"
    assert changes["figure", "growth", "stored a turn"].after == "9,999 bytes"
    assert (
        changes["figure", "Conversations at once", "p95 at 100 conversations"].direction == "worse"
    )
    gone = changes["verdict", "sessions", old.answers[0].question]
    assert (gone.before, gone.after, gone.direction) == ("pass", "not asked", "different")


def test_what_makes_two_reports_less_comparable_is_said() -> None:
    notes = baseline.compare(interrupted(), replace(waived(), seed=12)).notes
    assert [note.partition(":")[0] for note in notes] == [
        "different target",
        "different profile",
        "different seed",
        "the baseline was interrupted",
    ]


def test_a_report_of_another_machine_is_refused() -> None:
    other = replace(passing(), environment={**passing().environment, "fingerprint": "other"})
    with pytest.raises(InvalidInput, match=r"another machine.*Run the audit on this machine"):
        baseline.compare(other, passing())
    without = replace(passing(), environment={})
    with pytest.raises(InvalidInput, match="does not name the machine"):
        baseline.compare(without, passing())
    machine = {"machine": {"cores": 2}}
    old, new = (replace(passing(), environment=machine) for _ in range(2))
    assert baseline.compare(old, new).changes == ()


# --- redaction --------------------------------------------------------------------------


def test_hosts_go_and_everything_else_stays() -> None:
    report = redact(failing())
    text = schema.to_json(report).decode()
    assert "internal.example" not in text
    assert report.target == "redis://host-1:6379/0"
    assert "--url redis://host-1:6379/0 --seed 7" in report.command
    assert report.environment["host"] == "host-2"
    assert report.environment["versions"] == failing().environment["versions"]
    assert [a.verdict for a in report.answers] == [a.verdict for a in failing().answers]
    assert baseline.machine(report) == baseline.machine(failing())


def test_a_report_without_hosts_stays_as_it_is() -> None:
    report = replace(passing(), environment={"machine": "x", "versions": {"apsw": "3.54.1.0"}})
    assert redact(report) == report
    local = replace(report, target="postgresql://localhost:5432/agents")
    assert redact(local) == local


@pytest.mark.parametrize(
    ("target", "left"),
    [
        (
            "postgresql://app:secret@db-1.corp:5432,DB-2.corp/agents",
            "postgresql://host-1:5432,host-2/agents",
        ),
        ("rediss://[2001:db8::7]:6380/0", "rediss://host-1:6380/0"),
        ("redis://10.1.2.3", "redis://host-1"),
        ("redis://redis:6379/0", "redis://host-1:6379/0"),
        ("postgresql:///agents?host=db.corp&user=app", "postgresql:///agents?host=host-1&user=app"),
        ("sqlite:////var/lib/agents.db", "sqlite:////var/lib/agents.db"),
    ],
)
def test_hosts_of_all_kinds_of_urls(target: str, left: str) -> None:
    assert redact(replace(passing(), target=target, environment={})).target == left


def test_a_host_named_in_words_goes_too() -> None:
    said = "DB.corp refused, 10.0.0.9:5432 did not answer; db.corp.example is another one."
    report = with_answer(replace(passing(), target="redis://db.corp"), "races", summary=said)
    (races,) = [a for a in redact(report, hosts=["db.corp.example"]).answers if a.id == "races"]
    assert not re.search(r"corp|10\.0", races.summary)
    assert races.summary.endswith("is another one.")


labels = st.from_regex(r"[a-z][a-z0-9]{2,9}\.[a-z]{2,8}\.zz", fullmatch=True)


@given(st.lists(labels, min_size=1, max_size=3, unique=True), st.sampled_from("pcxr"))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_host_is_left_wherever_it_stands(hosts: list[str], where: str) -> None:
    url = f"postgresql://user@{','.join(hosts)}/agents"
    report = with_answer(
        replace(passing(), command=f"stateward audit {url}", environment={hosts[0]: [hosts[-1]]}),
        "races",
        summary=f"{where} {hosts[0]}: {hosts[-1].upper()}.",
        counter_example="\n".join(hosts),
        evidence=(Evidence(f"p95 of {hosts[0]}", f"({hosts[-1]})"),),
    )
    text = msgspec.json.encode(redact(report)).decode().lower()
    assert not [host for host in hosts if host in text]
