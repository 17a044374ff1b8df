"""The page in a real Chromium: it runs, stays within its width, and asks for nothing."""

from __future__ import annotations

import itertools
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from audit.processes.test_comparing import priced, tabled, three
from audit.test_questions import good
from browsing import DESK, PHONE, Opened, browser, contrast
from msgspec.structs import replace
from playwright.sync_api import Browser

from audit_report import hostile
from audit_report.sample_reports import SAMPLES, failing, passing, waived
from stateward.audit.forms import baseline, comparison, page, schema, side_by_side
from stateward.audit.questions import QUESTIONS
from stateward.audit.report import Report

WIDE = {"width": 1500, "height": 1000}

__all__ = ["browser"]  # the fixture

TOOL = Path(__file__).resolve().parents[3] / "tools" / "screenshot.py"


def written(folder: Path, html: str) -> Path:
    path = folder / "report.html"
    path.write_text(html, "utf-8")
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_report_opens_without_a_complaint_and_without_the_network(
    browser: Browser, name: str, tmp_path: Path
) -> None:
    report = SAMPLES[name]()
    path = written(tmp_path, page.html(report, baseline.compare(waived(), report)))
    for viewport, scheme in ((DESK, "light"), (PHONE, "dark")):
        opened = Opened(browser, path, viewport=viewport, color_scheme=scheme)
        assert opened.complaints == []
        assert opened.requests in ([path.as_uri()], [path.as_uri(), "data:,"])
        assert opened.tab.locator(".card:visible").count() == len(report.answers)
        assert opened.tab.locator(".hero .verdict").inner_text() == report.verdict.upper()
        assert opened.sideways() == []
        opened.context.close()


def hostile_report() -> Report:
    """Of another profile, with fewer questions, and a title that is none."""
    return replace(waived(), title="<img src=x onerror=alert(1)>", answers=waived().answers[:3])


def test_links_unfold_what_passed_and_the_contents_stay_in_view(
    browser: Browser, tmp_path: Path
) -> None:
    path = written(tmp_path, page.html(passing()))
    for viewport in (WIDE, DESK, PHONE):
        opened = Opened(browser, path, viewport=viewport)
        card = opened.tab.locator("#answer-3")
        assert not opened.ask("document.getElementById('answer-3').open")
        opened.tab.locator(".glance a").nth(2).click()
        card.get_by_text("Reproduce it").wait_for()
        assert opened.ask("document.querySelector('.contents').getBoundingClientRect().top >= 0")
        opened.context.close()


def test_every_question_is_in_the_contents_beside_the_page_of_a_laptop(
    browser: Browser, tmp_path: Path
) -> None:
    laptop = {"width": 1180, "height": 800}
    opened = Opened(browser, written(tmp_path, page.html(failing())), viewport=laptop)
    entries = opened.tab.locator(".contents ul ul a")
    assert entries.count() == len(failing().answers)
    assert entries.last.is_visible()
    beside = "document.querySelector('.contents').getBoundingClientRect().right"
    start = "document.querySelector('main').getBoundingClientRect().left"
    assert opened.ask(beside) <= opened.ask(start)


def test_a_comparison_and_a_bill_open_as_well(browser: Browser, tmp_path: Path) -> None:
    hostile_one = replace(good(), title="<script>alert(1)</script>" * 4)
    found = tabled(*three(), hostile_one)
    for html, cards in (
        (comparison.html(found, ["report-1.html"]), len(found.targets)),
        (page.html(priced(good())), len(QUESTIONS)),
        (side_by_side.html([failing(), passing(), hostile_report()]), 0),
    ):
        path = written(tmp_path, html)
        for viewport, scheme in ((DESK, "light"), (PHONE, "dark")):
            opened = Opened(browser, path, viewport=viewport, color_scheme=scheme)
            assert opened.complaints == []
            assert opened.requests in ([path.as_uri()], [path.as_uri(), "data:,"])
            assert opened.tab.locator(".card:visible").count() == cards
            assert opened.sideways() == []
            opened.context.close()


def test_dark_and_light_differ_and_both_can_be_read(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, page.html(failing()))
    grounds = []
    for scheme in ("light", "dark"):
        opened = Opened(browser, path, viewport=DESK, color_scheme=scheme)
        grounds.append(opened.ask("getComputedStyle(document.body).backgroundColor"))
        texts = (
            ".chip, .verdict, .sentence, .finding, .why, .power, dt, dd, h2, h3, h4, td, th, a, pre"
        )
        assert contrast(opened, texts) >= 4.5
        opened.context.close()
    assert len(set(grounds)) == 2


def test_a_chart_says_its_figures_to_the_pointer_and_to_the_keys(
    browser: Browser, tmp_path: Path
) -> None:
    opened = Opened(browser, written(tmp_path, page.html(passing())), viewport=DESK)
    chart = opened.tab.locator("svg.chart.wide").first
    readout = opened.tab.locator(".readout").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    chart.hover(position={"x": box["width"] * 0.5, "y": 100})
    second = re.match(r"(\d+) s: p50 [\d.]+ ms, p95", readout.inner_text())
    assert second is not None
    assert 27 <= int(second[1]) <= 30
    opened.tab.mouse.move(0, 0)
    assert "Point at the chart" in readout.inner_text()
    chart.focus()
    opened.tab.keyboard.press("ArrowRight")
    opened.tab.keyboard.press("ArrowRight")
    assert readout.inner_text().startswith(f"{int(second[1]) + 2} s: p50")
    opened.tab.keyboard.press("Escape")
    assert opened.tab.locator("line.cursor").count() == 0
    opened.context.close()


def test_a_phone_gets_charts_of_its_own_size(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, written(tmp_path, page.html(passing())), viewport=PHONE)
    assert opened.tab.locator("svg.chart.narrow:visible").count() == 4
    assert opened.tab.locator("svg.chart.wide:visible").count() == 0
    height = opened.ask(
        "Math.min(...[...document.querySelectorAll('svg.narrow text')]"
        ".map((text) => text.getBoundingClientRect().height))"
    )
    assert height >= 9.5
    opened.context.close()


def test_print_is_light_without_what_only_a_screen_can_do(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, page.html(failing()))
    opened = Opened(browser, path, viewport=DESK, color_scheme="dark")
    opened.tab.emulate_media(media="print", color_scheme="dark")
    assert opened.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    hidden = opened.tab.locator(".readout:visible, details:not(.card):visible, .contents:visible")
    assert hidden.count() == 0
    assert opened.ask(
        "[...document.querySelectorAll('.card, figure, tr')]"
        ".every((e) => getComputedStyle(e).breakInside === 'avoid')"
    )
    paper = opened.tab.pdf(format="A4")
    assert 5 <= paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page/") <= 14
    opened.context.close()


def test_the_picture_for_the_readme_can_be_made(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(schema.to_json(failing()))
    picture = tmp_path / "images" / "audit-report.png"
    command = [sys.executable, TOOL, tmp_path / "report.json", picture]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert struct.unpack(">II", head[16:]) == (2 * 1120, 2 * 1180)
    (tmp_path / "report.json").write_text("{}")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert "not an audit report" in ran.stderr


def test_hostile_text_in_every_field_does_nothing(browser: Browser, tmp_path: Path) -> None:
    calm = page.html(hostile.with_texts(failing(), lambda text: "x" if text else text))
    opened = Opened(browser, written(tmp_path, calm), viewport=PHONE)
    count = "document.querySelectorAll('*:not(pre span, #conditions *)').length"
    elements = opened.ask(count)
    opened.context.close()
    many = len(hostile.ATTACKS)
    for first in range(0, many, 6):  # each attack comes into other fields every time
        turns = itertools.cycle(hostile.ATTACKS[first:] + hostile.ATTACKS[:first])
        hurt = hostile.with_texts(
            failing(), lambda text, turns=turns: next(turns) if text else text
        )
        path = written(tmp_path, page.html(hurt))
        opened = Opened(browser, path, viewport=PHONE)
        assert opened.ask("window.harmed") is None
        assert opened.complaints == []
        assert set(opened.requests) <= {path.as_uri(), "data:,"}
        assert opened.ask(count) == elements
        assert opened.sideways() == []
        opened.context.close()
