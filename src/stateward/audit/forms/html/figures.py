"""The section of the page that holds the charts, each with its figures as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from stateward.audit.forms import words
from stateward.audit.forms.html import charts
from stateward.audit.forms.html.markup import Markup, tag
from stateward.audit.forms.html.parts import heads, section
from stateward.audit.report import Curve, Report, Timeline

_P95_LIMIT: Final = "lookup_p95_ms"
FAILED: Final = "calls that failed"
FAILED_AWAY: Final = "calls that failed, as they must while the store is down"


def measurements(report: Report) -> Markup | None:
    """What was disturbed first and wide, then the rest side by side, growth last."""
    drawn = [*_disturbed(report), *_calm(report), *_growth(report), *_money(report)]
    return section("measured", "What was measured", *drawn) if drawn else None


def _disturbed(report: Report) -> Iterator[Markup]:
    for at, found in enumerate(report.timelines, 1):
        if found.faults:
            yield _timeline(report, found, f"timeline-{at}", alone=True)


def _calm(report: Report) -> Iterator[Markup]:
    found = [
        *(partial(_timeline, report, t, f"timeline-{n}") for n, t in _calm_timelines(report)),
        *(partial(_curve, report, curve, f"curve-{n}") for n, curve in enumerate(report.curves, 1)),
    ]
    if found:
        *pairs, last = found
        drawn = [draw(alone=False) for draw in pairs]
        # An odd one at the end has the whole width, and is drawn for it.
        yield tag("div", *drawn, last(alone=len(found) % 2 == 1), class_="pairs")


def _calm_timelines(report: Report) -> Iterator[tuple[int, Timeline]]:
    for at, found in enumerate(report.timelines, 1):
        if not found.faults:
            yield at, found


def _timeline(report: Report, found: Timeline, name: str, *, alone: bool) -> Markup:
    return figure(
        found.title,
        charts.timeline(found, None if found.faults else _limit(report), name, alone),
        _faults(found),
        table(("second", *charts.SERIES, "intended", "achieved", "failed"), _seconds(found)),
        legend=True,
        calls=FAILED_AWAY if found.faults else FAILED,
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
        charts.curve(found, _limit(report), name, alone),
        table((found.x, *charts.SERIES), _points(found)),
        legend=True,
    )


def _points(found: Curve) -> Iterator[tuple[float, ...]]:
    for point in found.points:
        yield point.x, point.p50, point.p95, point.p99


def _growth(report: Report) -> Iterator[Markup]:
    if report.growth is not None:
        said = tag("p", words.growth(report), class_="said")
        yield figure("Growth of the stored state", charts.growth(report.growth, "growth"), said)


def _money(report: Report) -> Iterator[Markup]:
    if report.money is None:
        return
    rows = [
        tag("tr", tag("th", what, scope="row"), *(tag("td", cell) for cell in cells))
        for what, *cells in words.bill(report.money)
    ]
    table = tag(
        "table",
        heads("A month", "How much", "With persistence", "Without"),
        tag("tbody", *rows),
        class_="bill",
    )
    title = f"What {words.number(report.money.agents)} agents cost"
    said = tag("p", words.money(report), class_="said")
    yield figure(title, tag("div", table, class_="scroll", tabindex="0"), said)


def figure(
    title: str, drawn: Markup, *below: Markup | None, legend: bool = False, calls: str = ""
) -> Markup:
    """A chart below its title, with the key of its lines if it shows percentiles, or calls."""
    keys = _keys(calls) if legend else None
    return tag("figure", tag("figcaption", title), keys, drawn, *below)


def _keys(calls: str) -> Markup:
    keys = [
        tag("span", tag("i", class_=f"key {series}"), f"{series} · {meaning}")
        for series, meaning in zip(
            charts.SERIES, ("half are faster", "19 of 20 are", "99 of 100 are"), strict=True
        )
    ]
    if calls:
        keys += [
            tag("span", tag("i", class_="key bar achieved"), "calls that were answered"),
            tag("span", tag("i", class_="key bar failed"), calls),
        ]
    return tag("div", *keys, class_="legend")


def table(names: Sequence[str], rows: Iterable[Sequence[float | None]]) -> Markup:
    """The chart's figures for those who do not see it, or want to know exactly."""
    lines = [tag("tr", *(tag("td", _cell(value)) for value in row)) for row in rows]
    return tag(
        "details",
        tag("summary", "The figures as a table"),
        tag(
            "div", tag("table", heads(*names), tag("tbody", *lines)), class_="scroll", tabindex="0"
        ),
    )


def _cell(value: float | None) -> str:
    return "–" if value is None else words.number(value)
