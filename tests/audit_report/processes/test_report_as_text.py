"""The report in a terminal, as Markdown and as JUnit."""

from __future__ import annotations

import re
from html import unescape
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from audit_report import hostile
from audit_report.sample_reports import SAMPLES, failing, interrupted, passing, waived
from stateward.audit.forms import junit, markdown, page, terminal
from stateward.audit.report import Answer, Report
from stateward.pages import words

COLOUR = re.compile(r"\x1b\[[0-9;]+m")
every_sample = pytest.mark.parametrize("report", [make() for make in SAMPLES.values()], ids=SAMPLES)


def squeezed(text: str) -> str:
    return " ".join(text.split())


# --- terminal ---------------------------------------------------------------------------


@every_sample
@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(report: Report, width: int) -> None:
    lines = terminal.text(report, False, width).splitlines()
    assert max(words.cells(line) for line in lines) <= width


@every_sample
def test_the_verdict_comes_first_and_each_question_has_its_word(report: Report) -> None:
    lines = terminal.text(report, False, 80).splitlines()
    assert lines[0].split() == [report.verdict.upper(), *report.title.split()]
    for answer in report.answers:
        (own,) = [line for line in lines if re.match(rf" *\d* *[A-Z]+ +{answer.id} ", line)]
        assert own.split()[:2][-1 if answer.number else 0] == answer.verdict.upper()


@every_sample
def test_findings_are_told_and_remedies_where_something_is_wrong(report: Report) -> None:
    said = squeezed(terminal.text(report, False, 100))
    for answer in report.answers:
        assert answer.summary in said
        if answer.remedy:
            assert (f"→ {answer.remedy}" in said) == (answer.verdict != "pass")


@every_sample
def test_colours_add_nothing_that_words_do_not_say(report: Report) -> None:
    coloured = terminal.text(report, True, 80)
    assert COLOUR.search(coloured)
    assert COLOUR.sub("", coloured) == terminal.text(report, False, 80)


def test_a_waiver_is_shown_with_its_reason_and_its_end() -> None:
    said = squeezed(terminal.text(waived(), False, 80))
    assert "waived until 2027-01-31: The provider restores a copy every night" in said
    assert "2 waived" in said


def test_an_interrupted_audit_says_so() -> None:
    assert "The audit was interrupted" in terminal.text(interrupted(), False, 80)
    assert "Interrupted" not in terminal.text(passing(), False, 80)


def test_an_audit_that_ended_itself_says_why_and_what_it_left_behind() -> None:
    told = replace(
        interrupted(),
        aborted="3 lookups in a row took more than 2 s",
        left="what it wrote could not be removed; run: stateward audit clean redis://cache",
    )
    for said in (
        " ".join(terminal.text(told, False, 80).split()),
        markdown.text(told).replace("\\", ""),
        page.html(told),
    ):
        assert "The audit stopped: 3 lookups in a row took more than 2 s" in said
        assert "run: stateward audit clean redis://cache" in said
    assert 'type="aborted"' in junit.xml(told)


@given(hostile.plans, st.integers(1, 120))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_text_steers_the_terminal(plan: hostile.Plan, width: int) -> None:
    report = plan.report()
    text = terminal.text(report, False, width)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert COLOUR.sub("", terminal.text(report, True, width)) == text
    text.encode()
    wide = max(words.cells(line) for line in text.split("\n"))
    assert wide <= max(width, 40)


# --- Markdown ---------------------------------------------------------------------------


def outside_of_code(text: str) -> str:
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


@every_sample
def test_markdown_has_every_question_and_details_of_what_is_wrong(report: Report) -> None:
    text = markdown.text(report).replace("\\", "")
    assert text.startswith(f"# {report.verdict.upper()}: {report.title}\n")
    for answer in report.answers:
        assert answer.question in text
        details = f"### {answer.verdict}: {answer.question}"
        assert (details in text) == (answer.verdict != "pass")


@given(hostile.plans)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_hostile_text_makes_no_markdown_and_no_html(plan: hostile.Plan) -> None:
    report = plan.report()
    text = outside_of_code(markdown.text(report))
    assert not re.search(r"(?<!\\)[<>]", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    for before, row in pairwise(rows):
        if "---" in row:  # the line under the head of a table
            assert bars(row) == bars(before)
    heads = [line for line in text.splitlines() if line.startswith("#")]
    wrong = sum(answer.verdict != "pass" for answer in report.answers)
    more = bool(report.growth) + bool(report.settings) + bool(report.environment)
    assert len(heads) == 2 + wrong + more


WRITTEN = st.text(st.sampled_from("a1 _*`[]()<>#+-=!|~&;:@./\\\n") | st.characters(), max_size=30)


@given(WRITTEN | st.lists(st.sampled_from(hostile.ATTACKS)).map(" ".join))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_a_reader_of_markdown_sees_the_text_as_it_was(text: str) -> None:
    """Judged by a real parser, as a paragraph and as a cell."""
    read = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    wanted = words.line(text)
    for written in (markdown.safe(text), markdown.table(("a", "b"), [(markdown.safe(text), "")])):
        drawn = read.render(written)
        assert not re.search(r"<(?!/?(p|table|thead|tbody|tr|th|td)>)", drawn)
        found = unescape(re.sub(r"<[^>]+>", "\n", drawn)).removeprefix("\n")
        assert wanted in found


def test_ordinary_sentences_are_hardly_escaped() -> None:
    said = "p95 4.2 ms (at most 100 ms) at 10 conversations: key_order, e.g. 12 - 3; 5 + 2!"
    assert markdown.safe(said) == said


def bars(row: str) -> int:
    return len(re.findall(r"(?<!\\)\|", row))


def test_code_that_holds_backticks_is_still_code() -> None:
    assert markdown.code("a `b` c") == "``a `b` c``"
    assert markdown.code("`") == "`` ` ``"


# --- JUnit ------------------------------------------------------------------------------


def outcome(answer: Answer) -> str:
    if answer.waived:
        return "skipped"
    broken = {"fail": "failure", "absent": "failure", "unknown": "error", "error": "error"}
    return broken.get(answer.verdict, "system-out")


@every_sample
def test_junit_maps_every_verdict_and_counts_them(report: Report) -> None:
    root = ElementTree.fromstring(junit.xml(report))
    (suite,) = root
    cases = suite.findall("testcase")
    for answer, case in zip(report.answers, cases, strict=False):
        assert case.get("classname") == f"stateward.audit.{answer.id}"
        assert case[0].tag == outcome(answer)
    assert len(cases) == len(report.answers) + report.interrupted
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert suite.get(attribute) == str(len(suite.findall(f"testcase/{tag}")))
    assert suite.get("tests") == str(len(cases))


def test_a_case_that_failed_carries_finding_evidence_remedy_and_command() -> None:
    (suite,) = ElementTree.fromstring(junit.xml(failing()))
    (races,) = [c for c in suite.findall("testcase") if c.get("classname", "").endswith(".races")]
    failure = races[0]
    assert failure.get("type") == "fail"
    text = failure.text or ""
    assert "turns lost: 187 of 12,000 (limit: none)" in text
    assert "b1 is lost" in text
    assert "What to do: Append on the server" in text
    assert "--only races --seed 7" in text


@given(hostile.plans)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_hostile_text_stays_text_in_junit(plan: hostile.Plan) -> None:
    report = plan.report()
    root = ElementTree.fromstring(junit.xml(report).encode())
    harmless = hostile.with_texts(report, lambda text: "x" if text.strip() else text)
    tags = [element.tag for element in root.iter() if element.tag != "property"]
    expected = ElementTree.fromstring(junit.xml(harmless)).iter()
    assert tags == [element.tag for element in expected if element.tag != "property"]


# --- words ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (12_000, "12,000"),
        (0.71, "0.71"),
        (2.584, "2.58"),
        (187.4, "187"),
        (99.96, "100"),
        (1234.5, "1,234"),
        (0.00001, "1e-05"),
        (True, "yes"),
        (None, "not measured"),
        (float("inf"), "infinite"),
        (float("nan"), "not a number"),
    ],
)
def test_figures_are_said_as_people_read_them(value: float | None, said: str) -> None:
    assert words.figure(value) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0 s"), (58, "58 s"), (312, "5 min 12 s"), (120, "2 min"), (7260, "2 h 1 min")],
)
def test_durations(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(("count", "said"), [(0, "0 bytes"), (1480, "1.48 KB"), (20e9, "20 GB")])
def test_sizes(count: float, said: str) -> None:
    assert words.size(count) == said


@given(st.floats())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_number_can_be_said(value: float) -> None:
    assert words.number(value)
    assert words.duration(value)
    assert words.size(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("every write was seen", "Every write was seen"),
        ("immediately: each one", "Immediately: each one"),
        ("p95 holds", "p95 holds"),
        ("5 turns lost", "5 turns lost"),
        ("kill -9 it", "Kill -9 it"),
        ("", ""),
    ],
)
def test_a_finding_that_stands_alone_begins_with_a_capital(text: str, said: str) -> None:
    assert words.sentence(text) == said
