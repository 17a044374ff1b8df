"""The page of a benchmark in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import DESK, PHONE, Opened, browser, contrast
from msgspec.structs import replace
from playwright.sync_api import Browser

from stateward.benchmark import page
from stateward.benchmark.benchmark import BenchPlan
from stateward.benchmark.figures import FORMAT, BenchResult, FigureCell, Slot, figures

__all__ = ["browser"]  # the fixture


def result(plan: BenchPlan | None = None) -> BenchResult:
    """As a run of that plan gives it, with times that follow from the numbers."""
    cells = []
    for cell in (plan or BenchPlan()).cells():
        took = [(number + cell.conversations) / 10_000 for number in range(100)]
        cells.append(figures(cell, [Slot(took, {}, elapsed=0.5, cpu=0.01)]))
    return BenchResult(
        format=FORMAT,
        url="postgresql://db/agents",
        engine="postgresql",
        version="17.2",
        durability="an acknowledged write survives the process and a power failure",
        started="2026-01-02T03:04:05+00:00",
        seconds=41.2,
        interrupted=False,
        left="",
        command="stateward bench postgresql://db/agents",
        environment={"stateward": "1.0", "processors": 8, "rounds": 3},
        cells=tuple(cells),
    )


def nothing_succeeded() -> BenchResult:
    failed = figures(FigureCell("get", 1, 100), [Slot([], {"StoreUnavailable": 4}, elapsed=1.0)])
    return replace(result(), interrupted=True, cells=(failed,))


def hostile() -> BenchResult:
    attack = '"><script>window.harmed = 1</script><img src=x onerror="window.harmed = 1">'
    whole = result()
    texts = dict.fromkeys(("url", "engine", "version", "durability", "started", "command"), attack)
    worse = replace(whole.cells[0], errors={attack: 3})
    return replace(whole, **texts, environment={attack: attack}, cells=(worse, *whole.cells[1:]))


SAMPLES = {
    "whole": result(),
    "one conversation": result(BenchPlan(conversations=(1,), history=(100,))),
    "nothing succeeded": nothing_succeeded(),
    "hostile": hostile(),
}


def written(folder: Path, shown: BenchResult) -> Path:
    path = folder / "bench.html"
    path.write_text(page.html(shown), "utf-8")
    return path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_page_opens_without_a_complaint_and_without_the_network(
    browser: Browser, name: str, tmp_path: Path
) -> None:
    path = written(tmp_path, SAMPLES[name])
    for viewport, scheme in ((DESK, "light"), (PHONE, "dark")):
        opened = Opened(browser, path, viewport=viewport, color_scheme=scheme)
        assert opened.complaints == []
        assert set(opened.requests) <= {path.as_uri(), "data:,"}
        assert opened.ask("window.harmed") is None
        assert opened.tab.locator("#figures tbody tr").count() == len(SAMPLES[name].cells)
        assert opened.sideways() == []
        opened.context.close()


def test_there_is_a_plot_for_each_operation_and_for_long_histories(
    browser: Browser, tmp_path: Path
) -> None:
    opened = Opened(browser, written(tmp_path, result()), viewport=DESK)
    assert opened.tab.locator("#at-once svg.chart.wide:visible").count() == 12
    assert opened.tab.locator("#by-history svg.chart.wide:visible").count() == 3
    chart = opened.tab.locator("#at-once svg.chart.wide").nth(1)
    chart.focus()
    for _ in range(3):
        opened.tab.keyboard.press("ArrowRight")
    readout = opened.tab.locator("#at-once figure").nth(1).locator(".readout")
    assert readout.inner_text() == "100 concurrent conversations: 200 a second"
    opened.context.close()


def test_dark_and_light_differ_and_both_can_be_read(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, replace(result(), interrupted=True))
    grounds = []
    for scheme in ("light", "dark"):
        opened = Opened(browser, path, viewport=DESK, color_scheme=scheme)
        grounds.append(opened.ask("getComputedStyle(document.body).backgroundColor"))
        assert contrast(opened, "p, dt, dd, h1, h2, figcaption, td, th, pre, .legend span") >= 4.5
        opened.context.close()
    assert len(set(grounds)) == 2


def test_an_interrupted_run_says_so(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, written(tmp_path, nothing_succeeded()), viewport=DESK)
    assert "interrupted" in opened.tab.locator(".interrupted").inner_text()
    assert "4 StoreUnavailable" in opened.tab.locator("#figures").inner_text()
    assert opened.tab.locator("svg.chart").count() == 0
    opened.context.close()
