"""The charts as SVG, drawn twice: wide for a screen and paper, narrow for a phone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from stateward.audit.forms import words
from stateward.audit.forms.html.axes import Axis, doubling, flat, known, upright, usable
from stateward.audit.forms.html.markup import Markup, join, tag
from stateward.audit.report import Curve, Growth, Moment, Point, Span, Timeline

SERIES: Final = ("p50", "p95", "p99")
_GAP: Final = 2.5  # steps without a measurement after which a line is broken
_SHORTEST: Final = 0.05  # seconds of a moment
_TEN_YEARS: Final = 3650.0  # days; no projection reaches further
BADGE: Final = 9.0  # the radius of the number of a fault
_CHARACTER: Final = 6.6  # the width of one in the charts' type, about


class Canvas(NamedTuple):
    """A size to draw for, and where the plot lies in it."""

    name: str
    width: float
    height: float
    left: float = 58
    right: float = 14
    top: float = 22
    bottom: float = 40

    @property
    def end(self) -> float:
        return self.width - self.right

    @property
    def floor(self) -> float:
        return self.height - self.bottom

    @property
    def ticks(self) -> int:
        return 8 if self.width > 500 else 4


WIDE: Final = Canvas("wide", 900, 330)
HALF: Final = Canvas("wide", 460, 290)
LOW: Final = Canvas("wide", 900, 240)
NARROW: Final = Canvas("narrow", 360, 290, left=50, right=10)


class Readout(NamedTuple):
    """What is said where the pointer is."""

    x: float
    text: str


class ChartLine(NamedTuple):
    """A series as stretches of places; between two stretches nothing was measured."""

    name: str
    stretches: list[list[tuple[float, float]]]


def timeline(found: Timeline, limit: float | None, name: str, alone: bool) -> Markup:
    wide = WIDE if alone else HALF
    return _both(lambda canvas: _timeline(found, limit, canvas, f"{name}-{canvas.name}"), wide)


def curve(found: Curve, limit: float | None, name: str, alone: bool) -> Markup:
    wide = WIDE if alone else HALF
    return _both(lambda canvas: _curve(found, limit, canvas, f"{name}-{canvas.name}"), wide)


def rates(title: str, x: str, points: Sequence[tuple[float, float]], name: str) -> Markup:
    """Calls a second against something that is counted."""
    return _both(lambda canvas: _rate(title, x, points, canvas, f"{name}-{canvas.name}"), HALF)


def growth(found: Growth, name: str) -> Markup:
    return _both(lambda canvas: _growth(found, canvas, f"{name}-{canvas.name}"), LOW)


def _both(draw: Callable[[Canvas], Markup], wide: Canvas) -> Markup:
    return join(draw(wide), draw(NARROW))


# --- latency over time ------------------------------------------------------------------


def _timeline(found: Timeline, limit: float | None, canvas: Canvas, name: str) -> Markup:
    if found.faults:  # their numbers are below the name of the scale
        canvas = canvas._replace(top=canvas.top + 2 * BADGE)
    moments = [moment for moment in found.moments if _whole(moment)]
    rates_top = canvas.floor - 48
    step = _step(moments)
    ends = [moment.at + step for moment in moments] + [s.end for s in found.faults if usable(s.end)]
    across = flat(0.0, max(ends, default=1.0), canvas.left, canvas.end)
    answered = [moment for moment in moments if moment.is_answered]
    up = upright(_figures(answered, limit), rates_top - 26, canvas.top)
    drawn = [
        *_windows(found.faults, across, canvas),
        *_grid_across(up, canvas),
        *_grid_up(across, canvas, "seconds"),
        *(_drawn(_over_time(series, moments, step, across, up)) for series in SERIES),
        _limit(limit, up, canvas),
        *_rates(moments, step, across, rates_top, canvas),
        *_badges(found.faults, across, canvas),
    ]
    said = [Readout(across.place(m.at + step / 2), _second(m, found.faults)) for m in moments]
    what = f"{found.title}. Latency percentiles in milliseconds over {words.duration(across.high)}."
    return _svg(canvas, name, what, drawn, said)


def _step(moments: Sequence[Moment]) -> float:
    """How long a moment is: as long as to the next one, and a second at most."""
    gaps = (after.at - before.at for before, after in pairwise(moments))
    return min([1.0, *(gap for gap in gaps if gap >= _SHORTEST)])


def _whole(moment: Moment) -> bool:
    return all(usable(v) for v in (moment.at, moment.p50, moment.p95, moment.p99))


def _figures(found: Sequence[Moment | Point], limit: float | None) -> list[float]:
    figures = [figure for one in found for figure in (one.p50, one.p95, one.p99)]
    return [*figures, limit] if limit is not None else figures


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
    """While something was done to the target."""
    high = canvas.floor - canvas.top
    return [
        tag("rect", class_="fault", x=left, y=canvas.top, width=wide, height=high)
        for _, left, wide in _extents(faults, across)
    ]


def _badges(faults: Sequence[Span], across: Axis, canvas: Canvas) -> list[Markup]:
    """Their numbers, over everything else, and none over another."""
    found = list(_extents(faults, across))
    drawn, free, room = [], -math.inf, 2 * BADGE * (len(found) - 1)
    for at, left, wide in found:
        x = max(min(left + wide / 2, canvas.end - room), free)
        free, room = x + 2 * BADGE, room - 2 * BADGE
        drawn += [
            tag("circle", class_="badge", cx=x, cy=canvas.top - BADGE, r=BADGE),
            tag("text", str(at), class_="badge-text", x=x, y=canvas.top - 5),
        ]
    return drawn


def _extents(faults: Sequence[Span], across: Axis) -> Iterator[tuple[int, float, float]]:
    """The number of each, where it begins, and how wide it is."""
    for at, fault in enumerate(faults, 1):
        if usable(fault.start) and usable(fault.end):
            left, right = across.place(fault.start), across.place(fault.end)
            yield at, left, max(right - left, 2.0)


def _rates(
    moments: Sequence[Moment], step: float, across: Axis, top: float, canvas: Canvas
) -> list[Markup]:
    """Below the latencies: how many calls were made, of how many that were due."""
    known = [m for m in moments if usable(m.intended) and usable(m.achieved)]
    most = max((max(m.intended, m.achieved, m.failed) for m in known), default=0.0)
    up = flat(0.0, most * 1.05 or 1.0, canvas.floor, top)
    wide = max((canvas.end - canvas.left) * step / (across.high - across.low) - 1, 1.0)
    drawn = [
        tag("text", "calls a second, and how many failed", class_="note", x=canvas.left, y=top - 6),
        tag("text", words.number(round(most)), class_="tick end", x=canvas.left - 6, y=top + 8),
    ]
    for moment in known:
        left = min(across.place(moment.at), canvas.end - wide)
        for kind, rate in (("achieved", moment.achieved), ("failed", float(moment.failed))):
            if rate > 0:
                y = up.place(rate)
                drawn.append(
                    tag("rect", class_=kind, x=left, y=y, width=wide, height=canvas.floor - y)
                )
    due = [(across.place(m.at + step / 2), up.place(m.intended)) for m in known]
    return [*drawn, _path("intended", [due])]


def _second(moment: Moment, faults: Sequence[Span]) -> str:
    took = _percentiles(moment) if moment.is_answered else "none was answered"
    said = (
        f"{words.number(moment.at)} s: {took}; "
        f"{words.number(moment.achieved)} of {words.number(moment.intended)} calls/s"
    )
    if moment.failed:
        said += f", {words.number(moment.failed)} failed"
    now = [words.line(fault.label) for fault in faults if fault.start <= moment.at <= fault.end]
    return f"{said}; {', '.join(now)}" if now else said


def _percentiles(found: Moment | Point) -> str:
    return ", ".join(f"{series} {milliseconds(getattr(found, series))}" for series in SERIES)


def milliseconds(value: float) -> str:
    return f"{words.number(float(f'{value:.3g}'))} ms"


# --- latency against something ----------------------------------------------------------


def _curve(found: Curve, limit: float | None, canvas: Canvas, name: str) -> Markup:
    points = sorted(
        (p for p in found.points if all(usable(v) for v in (p.x, p.p50, p.p95, p.p99))),
        key=lambda point: point.x,
    )
    across = doubling((point.x for point in points), canvas.left + 12, canvas.end - 16)
    up = upright(_figures(points, limit), canvas.floor, canvas.top)
    lines = [
        ChartLine(s, [[(across.place(p.x), up.place(getattr(p, s))) for p in points]])
        for s in SERIES
    ]
    drawn = [
        *_grid_across(up, canvas),
        *_grid_up(across, canvas, found.x, [point.x for point in points]),
        *(_drawn(line) for line in lines),
        *(
            tag("circle", class_=f"dot {line.name}", cx=x, cy=y, r=3.5)
            for line in lines
            for stretch in line.stretches
            for x, y in stretch
        ),
        _limit(limit, up, canvas),
    ]
    said = [
        Readout(across.place(p.x), f"{words.number(p.x)} {words.line(found.x)}: {_percentiles(p)}")
        for p in points
    ]
    what = f"{found.title}. Latency percentiles in milliseconds against {found.x}."
    return _svg(canvas, name, what, drawn, said)


def _rate(
    title: str, x: str, points: Sequence[tuple[float, float]], canvas: Canvas, name: str
) -> Markup:
    drawable = sorted(point for point in points if usable(point[0]) and usable(point[1]))
    across = doubling((at for at, _ in drawable), canvas.left + 12, canvas.end - 16)
    up = flat(0.0, max((r for _, r in drawable), default=1.0) * 1.08, canvas.floor, canvas.top)
    line = [(across.place(at), up.place(rate)) for at, rate in drawable]
    drawn = [
        *_grid_across(up, canvas, unit=""),
        *_grid_up(across, canvas, x, [at for at, _ in drawable]),
        tag("polygon", class_="area", points=_places([*line, *_down(line, canvas)])),
        _path("stored", [line]),
        *(tag("circle", class_="dot p95", cx=left, cy=top, r=3.5) for left, top in line),
    ]
    said = [
        Readout(across.place(at), f"{words.number(at)} {words.line(x)}: {_a_second(rate)}")
        for at, rate in drawable
    ]
    return _svg(canvas, name, f"{title}. Calls a second against {x}.", drawn, said)


def _a_second(rate: float) -> str:
    return f"{words.number(float(f'{rate:.3g}'))} a second"


# --- growth -----------------------------------------------------------------------------


def _growth(found: Growth, canvas: Canvas, name: str) -> Markup:
    used = known(found.used) or 0.0
    a_day = known(found.bytes_a_turn * found.turns_a_day) or 0.0
    full, capacity = known(found.days_to_full), known(found.capacity)
    days = 365.0 if full is None else min(max(full * 1.2, 7.0), _TEN_YEARS)
    across = flat(0.0, days, canvas.left + 14, canvas.end)
    up = flat(0.0, max(used + a_day * days, capacity or 0.0, 1.0) * 1.08, canvas.floor, canvas.top)
    line = [(across.place(day), up.place(used + a_day * day)) for day in (0.0, days)]
    drawn = [
        *_grid_across(up, canvas, words.size, ""),
        *_grid_up(across, canvas, "days from now"),
        tag("polygon", class_="area", points=_places([*line, *_down(line, canvas)])),
        _path("stored", [line]),
    ]
    if capacity is not None:
        y = up.place(capacity)
        said = f"capacity {words.size(capacity)}"
        drawn.append(tag("line", class_="limit", x1=canvas.left, x2=canvas.end, y1=y, y2=y))
        drawn.append(tag("text", said, class_="limit-text", x=canvas.left + 20, y=y - 6))
        if full is not None and 0 <= full <= days:
            drawn.append(tag("circle", class_="dot full", cx=across.place(full), cy=y, r=5.0))
    what = "Growth of the stored state over the days to come."
    return _svg(
        canvas, name, what, drawn, [_day(days * n / 24, used, a_day, across) for n in range(25)]
    )


def _day(day: float, used: float, a_day: float, across: Axis) -> Readout:
    said = f"day {words.number(round(day))}: {words.size(used + a_day * day)}"
    return Readout(across.place(day), said)


def _down(line: Sequence[tuple[float, float]], canvas: Canvas) -> list[tuple[float, float]]:
    """The floor under a line, on the way back."""
    return [(x, canvas.floor) for x, _ in reversed(line)]


def _places(line: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in line)


# --- parts ------------------------------------------------------------------------------


def _svg(
    canvas: Canvas, name: str, what: str, drawn: Sequence[Markup | None], said: Sequence[Readout]
) -> Markup:
    readouts = msgspec.json.encode([(round(one.x, 1), one.text) for one in said]).decode()
    return tag(
        "svg",
        tag("title", what, id=f"{name}-title"),
        *drawn,
        class_=f"chart {canvas.name}",
        viewBox=f"0 0 {canvas.width:g} {canvas.height:g}",
        role="img",
        tabindex="0",
        aria_labelledby=f"{name}-title",
        data_top=canvas.top,
        data_floor=canvas.floor,
        data_readouts=readouts,
    )


def _grid_across(
    up: Axis, canvas: Canvas, say: Callable[[float], str] = words.number, unit: str = "ms"
) -> list[Markup]:
    drawn = []
    for value in up.ticks(5):
        y = up.place(value)
        drawn += [
            tag("line", class_="grid", x1=canvas.left, x2=canvas.end, y1=y, y2=y),
            tag("text", say(value), class_="tick end", x=canvas.left - 6, y=y + 4),
        ]
    if unit == "ms":
        scale = "ms, logarithmic" if up.log else "ms"
        drawn.append(tag("text", scale, class_="note", x=4.0, y=12.0))
    return drawn


def _grid_up(
    across: Axis, canvas: Canvas, name: str, at: Sequence[float] | None = None
) -> list[Markup]:
    drawn = []
    free_from = -1.0
    for value in across.ticks(canvas.ticks) if at is None else at:
        x, said = across.place(value), words.number(value)
        half = len(said) * _CHARACTER / 2
        if x - half < free_from:
            continue  # it would run into the one before
        free_from = x + half + 4
        drawn += [
            tag("line", class_="mark", x1=x, x2=x, y1=canvas.floor, y2=canvas.floor + 5),
            tag("text", said, class_="tick middle", x=x, y=canvas.floor + 18),
        ]
    middle = (canvas.left + canvas.end) / 2
    name = _cut(name, canvas.end - canvas.left)
    return [*drawn, tag("text", name, class_="note middle", x=middle, y=canvas.height - 5)]


def _cut(text: str, width: float) -> str:
    """The beginning of a text that is too long for its place."""
    text = words.line(text)
    most = int(width / _CHARACTER)
    while words.cells(text) > most:
        text = f"{text[: min(len(text) - 2, most - 1)]}…"
    return text


def _limit(limit: float | None, up: Axis, canvas: Canvas) -> Markup | None:
    if limit is None or not usable(limit):
        return None
    y = up.place(limit)
    return join(
        tag("line", class_="limit", x1=canvas.left, x2=canvas.end, y1=y, y2=y),
        tag(
            "text",
            f"limit of p95: {milliseconds(limit)}",
            class_="limit-text end",
            x=canvas.end - 4,
            y=y - 6,
        ),
    )


def _drawn(line: ChartLine) -> Markup:
    alone = [stretch[0] for stretch in line.stretches if len(stretch) == 1]
    dots = (tag("circle", class_=f"dot {line.name}", cx=x, cy=y, r=2.0) for x, y in alone)
    return join(_path(line.name, line.stretches), *dots)


def _path(name: str, stretches: Sequence[Sequence[tuple[float, float]]]) -> Markup:
    parts = [
        "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in stretch) for stretch in stretches if stretch
    ]
    return tag("path", class_=f"line {name}", d=" ".join(parts))
