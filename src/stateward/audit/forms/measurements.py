"""The section of the page that holds the charts, each with its figures as a table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from stateward.audit.forms import charts, sentences
from stateward.audit.report import Report, Timeline
from stateward.pages import words
from stateward.pages.charts import SERIES
from stateward.pages.charts import curve as curve_chart
from stateward.pages.figures import figure, table
from stateward.pages.markup import Markup, tag
from stateward.pages.parts import heads, section
from stateward.pages.series import Curve

_P95_LIMIT: Final = "lookup_p95_ms"
FAILED: Final = "calls that failed"
FAILED_AWAY: Final = "calls that failed, as they must while the store is down"


def measurements(report: Report) -> Markup | None:
    """Draw disturbed timelines first and wide, then the rest side by side, growth last."""
    drawn = [*_disturbed(report), *_calm(report), *_growth(report), *_money(report)]
    return section("measured", "What was measured", *drawn) if drawn else None


def _disturbed(report: Report) -> Iterator[Markup]:
    for at, timeline in enumerate(report.timelines, 1):
        if timeline.faults:
            yield _timeline(report, timeline, f"timeline-{at}", alone=True)


def _calm(report: Report) -> Iterator[Markup]:
    drawings = [
        *(partial(_timeline, report, t, f"timeline-{n}") for n, t in _calm_timelines(report)),
        *(partial(_curve, report, curve, f"curve-{n}") for n, curve in enumerate(report.curves, 1)),
    ]
    if drawings:
        *pairs, last = drawings
        drawn = [draw(alone=False) for draw in pairs]
        # An odd one at the end has the whole width, and is drawn for it.
        yield tag("div", *drawn, last(alone=len(drawings) % 2 == 1), class_="pairs")


def _calm_timelines(report: Report) -> Iterator[tuple[int, Timeline]]:
    for at, timeline in enumerate(report.timelines, 1):
        if not timeline.faults:
            yield at, timeline


def _timeline(report: Report, timeline: Timeline, name: str, *, alone: bool) -> Markup:
    return figure(
        timeline.title,
        charts.timeline(timeline, None if timeline.faults else _limit(report), name, alone),
        _faults(timeline),
        table(("second", *SERIES, "intended", "achieved", "failed"), _seconds(timeline)),
        legend=True,
        calls=FAILED_AWAY if timeline.faults else FAILED,
    )


def _limit(report: Report) -> float | None:
    return report.thresholds.get(_P95_LIMIT)


def _faults(found: Timeline) -> Markup | None:
    if not found.faults:
        return None
    items = [
        tag("li", fault.label, tag("span", f" {_from_to(fault.start, fault.end)}", class_="when"))
        for fault in found.faults
    ]
    return tag("ol", *items, class_="faults", aria_label="What was done to the target, and when")


def _from_to(start: float, end: float) -> str:
    return f"{words.number(round(start, 1))}–{words.number(round(end, 1))} s"


def _seconds(found: Timeline) -> Iterator[tuple[float | None, ...]]:
    for m in found.moments:
        took = (m.p50, m.p95, m.p99) if m.is_answered else (None, None, None)
        yield m.at, *took, m.intended, m.achieved, m.failed


def _curve(report: Report, found: Curve, name: str, *, alone: bool) -> Markup:
    return figure(
        found.title,
        curve_chart(found, _limit(report), name, alone),
        table((found.x, *SERIES), _points(found)),
        legend=True,
    )


def _points(found: Curve) -> Iterator[tuple[float, ...]]:
    for point in found.points:
        yield point.x, point.p50, point.p95, point.p99


def _growth(report: Report) -> Iterator[Markup]:
    if report.growth is not None:
        sentence = tag("p", sentences.growth(report), class_="said")
        yield figure("Growth of the stored state", charts.growth(report.growth, "growth"), sentence)


def _money(report: Report) -> Iterator[Markup]:
    if report.money is None:
        return
    rows = [
        tag("tr", tag("th", what, scope="row"), *(tag("td", cell) for cell in cells))
        for what, *cells in sentences.bill(report.money)
    ]
    table = tag(
        "table",
        heads("A month", "How much", "With persistence", "Without"),
        tag("tbody", *rows),
        class_="bill",
    )
    title = f"What {words.number(report.money.agents)} agents cost"
    sentence = tag("p", sentences.money(report), class_="said")
    yield figure(title, tag("div", table, class_="scroll", tabindex="0"), sentence)
