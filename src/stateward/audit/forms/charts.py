"""The charts of a report alone: latency around faults, and growth until the store is full."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from stateward.audit.report import Growth, Span, Timeline
from stateward.pages import charts, words
from stateward.pages.axes import Axis, flat, known, upright, usable
from stateward.pages.charts import Canvas, ChartLine, Readout
from stateward.pages.markup import Markup, tag
from stateward.pages.series import Moment

BADGE: Final = 9.0  # the radius of the number of a fault
_GAP: Final = 2.5  # steps without a measurement after which a line is broken
_SHORTEST: Final = 0.05  # seconds of a moment
_TEN_YEARS: Final = 3650.0  # days; no projection reaches further


def timeline(found: Timeline, limit: float | None, name: str, alone: bool) -> Markup:
    wide = charts.WIDE if alone else charts.HALF
    return charts.both(
        lambda canvas: _timeline(found, limit, canvas, f"{name}-{canvas.name}"), wide
    )


def growth(found: Growth, name: str) -> Markup:
    return charts.both(lambda canvas: _growth(found, canvas, f"{name}-{canvas.name}"), charts.LOW)


def _timeline(load: Timeline, limit: float | None, canvas: Canvas, name: str) -> Markup:
    if load.faults:  # their numbers are below the name of the scale
        canvas = canvas._replace(top=canvas.top + 2 * BADGE)
    moments = [moment for moment in load.moments if _whole(moment)]
    rates_top = canvas.floor - 48
    step = _step(moments)
    ends = [moment.at + step for moment in moments] + [s.end for s in load.faults if usable(s.end)]
    across = flat(0.0, max(ends, default=1.0), canvas.left, canvas.end)
    answered = [moment for moment in moments if moment.is_answered]
    up = upright(charts.percentile_figures(answered, limit), rates_top - 26, canvas.top)
    marks = [
        *_windows(load.faults, across, canvas),
        *charts.grid_across(up, canvas),
        *charts.grid_up(across, canvas, "seconds"),
        *(
            charts.drawn_line(_over_time(series, moments, step, across, up))
            for series in charts.SERIES
        ),
        charts.limit_line(limit, up, canvas),
        *_rates(moments, step, across, rates_top, canvas),
        *_badges(load.faults, across, canvas),
    ]
    readouts = [Readout(across.place(m.at + step / 2), _second(m, load.faults)) for m in moments]
    what = f"{load.title}. Latency percentiles in milliseconds over {words.duration(across.high)}."
    return charts.svg(canvas, name, what, marks, readouts)


def _step(moments: Sequence[Moment]) -> float:
    """Return the shortest gap between two moments in seconds, at most one."""
    gaps = (after.at - before.at for before, after in pairwise(moments))
    return min([1.0, *(gap for gap in gaps if gap >= _SHORTEST)])


def _whole(moment: Moment) -> bool:
    return all(usable(v) for v in (moment.at, moment.p50, moment.p95, moment.p99))


def _over_time(
    series: str, moments: Sequence[Moment], step: float, across: Axis, up: Axis
) -> ChartLine:
    stretches: list[list[tuple[float, float]]] = []
    last = None
    for moment in moments:
        if not moment.is_answered:
            last = None
            continue
        if last is None or not 0 <= moment.at - last <= _GAP * step:
            stretches.append([])
        at = across.place(moment.at + step / 2)
        stretches[-1].append((at, up.place(getattr(moment, series))))
        last = moment.at
    return ChartLine(series, stretches)


def _windows(faults: Sequence[Span], across: Axis, canvas: Canvas) -> list[Markup]:
    """Draw the spans in which something was done to the target."""
    high = canvas.floor - canvas.top
    return [
        tag("rect", class_="fault", x=left, y=canvas.top, width=wide, height=high)
        for _, left, wide in _extents(faults, across)
    ]


def _badges(faults: Sequence[Span], across: Axis, canvas: Canvas) -> list[Markup]:
    """Return the numbers of the faults, above everything else and beside each other."""
    extents = list(_extents(faults, across))
    marks, free, room = [], -math.inf, 2 * BADGE * (len(extents) - 1)
    for at, left, wide in extents:
        x = max(min(left + wide / 2, canvas.end - room), free)
        free, room = x + 2 * BADGE, room - 2 * BADGE
        marks += [
            tag("circle", class_="badge", cx=x, cy=canvas.top - BADGE, r=BADGE),
            tag("text", str(at), class_="badge-text", x=x, y=canvas.top - 5),
        ]
    return marks


def _extents(faults: Sequence[Span], across: Axis) -> Iterator[tuple[int, float, float]]:
    """Yield the number of each fault, the x at which it begins, and its width."""
    for at, fault in enumerate(faults, 1):
        if usable(fault.start) and usable(fault.end):
            left, right = across.place(fault.start), across.place(fault.end)
            yield at, left, max(right - left, 2.0)


def _rates(
    moments: Sequence[Moment], step: float, across: Axis, top: float, canvas: Canvas
) -> list[Markup]:
    """Draw the calls that were made and those that were due, below the latencies."""
    drawable = [m for m in moments if usable(m.intended) and usable(m.achieved)]
    most = max((max(m.intended, m.achieved, m.failed) for m in drawable), default=0.0)
    up = flat(0.0, most * 1.05 or 1.0, canvas.floor, top)
    wide = max((canvas.end - canvas.left) * step / (across.high - across.low) - 1, 1.0)
    marks = [
        tag("text", "calls a second, and how many failed", class_="note", x=canvas.left, y=top - 6),
        tag("text", words.number(round(most)), class_="tick end", x=canvas.left - 6, y=top + 8),
    ]
    for moment in drawable:
        left = min(across.place(moment.at), canvas.end - wide)
        for kind, rate in (("achieved", moment.achieved), ("failed", float(moment.failed))):
            if rate > 0:
                y = up.place(rate)
                marks.append(
                    tag("rect", class_=kind, x=left, y=y, width=wide, height=canvas.floor - y)
                )
    due = [(across.place(m.at + step / 2), up.place(m.intended)) for m in drawable]
    return [*marks, charts.path("intended", [due])]


def _second(moment: Moment, faults: Sequence[Span]) -> str:
    took = charts.percentiles(moment) if moment.is_answered else "none was answered"
    text = (
        f"{words.number(moment.at)} s: {took}; "
        f"{words.number(moment.achieved)} of {words.number(moment.intended)} calls/s"
    )
    if moment.failed:
        text += f", {words.number(moment.failed)} failed"
    now = [words.line(fault.label) for fault in faults if fault.start <= moment.at <= fault.end]
    return f"{text}; {', '.join(now)}" if now else text


def _growth(forecast: Growth, canvas: Canvas, name: str) -> Markup:
    used = known(forecast.used) or 0.0
    a_day = known(forecast.bytes_a_turn * forecast.turns_a_day) or 0.0
    full, capacity = known(forecast.days_to_full), known(forecast.capacity)
    days = 365.0 if full is None else min(max(full * 1.2, 7.0), _TEN_YEARS)
    across = flat(0.0, days, canvas.left + 14, canvas.end)
    up = flat(0.0, max(used + a_day * days, capacity or 0.0, 1.0) * 1.08, canvas.floor, canvas.top)
    line = [(across.place(day), up.place(used + a_day * day)) for day in (0.0, days)]
    marks = [
        *charts.grid_across(up, canvas, words.size, ""),
        *charts.grid_up(across, canvas, "days from now"),
        tag("polygon", class_="area", points=charts.places([*line, *charts.down(line, canvas)])),
        charts.path("stored", [line]),
    ]
    if capacity is not None:
        y = up.place(capacity)
        label = f"capacity {words.size(capacity)}"
        marks.append(tag("line", class_="limit", x1=canvas.left, x2=canvas.end, y1=y, y2=y))
        marks.append(tag("text", label, class_="limit-text", x=canvas.left + 20, y=y - 6))
        if full is not None and 0 <= full <= days:
            marks.append(tag("circle", class_="dot full", cx=across.place(full), cy=y, r=5.0))
    what = "Growth of the stored state over the days to come."
    return charts.svg(
        canvas, name, what, marks, [_day(days * n / 24, used, a_day, across) for n in range(25)]
    )


def _day(day: float, used: float, a_day: float, across: Axis) -> Readout:
    text = f"day {words.number(round(day))}: {words.size(used + a_day * day)}"
    return Readout(across.place(day), text)
