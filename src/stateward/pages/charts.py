"""The charts as SVG, drawn twice: wide for a screen and paper, narrow for a phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from stateward.pages import words
from stateward.pages.axes import Axis, doubling, flat, upright, usable
from stateward.pages.markup import Markup, join, tag
from stateward.pages.series import Curve, Moment, Point

SERIES: Final = ("p50", "p95", "p99")
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
    """The text shown while the pointer is at a place."""

    x: float
    text: str


class ChartLine(NamedTuple):
    """A series as stretches of places; between two stretches nothing was measured."""

    name: str
    stretches: list[list[tuple[float, float]]]


def curve(found: Curve, limit: float | None, name: str, alone: bool) -> Markup:
    wide = WIDE if alone else HALF
    return both(lambda canvas: _curve(found, limit, canvas, f"{name}-{canvas.name}"), wide)


def rates(title: str, x: str, points: Sequence[tuple[float, float]], name: str) -> Markup:
    """Draw calls a second against a count."""
    return both(lambda canvas: _rate(title, x, points, canvas, f"{name}-{canvas.name}"), HALF)


def both(draw: Callable[[Canvas], Markup], wide: Canvas) -> Markup:
    return join(draw(wide), draw(NARROW))


def percentile_figures(found: Sequence[Moment | Point], limit: float | None) -> list[float]:
    figures = [figure for one in found for figure in (one.p50, one.p95, one.p99)]
    return [*figures, limit] if limit is not None else figures


def percentiles(found: Moment | Point) -> str:
    return ", ".join(f"{series} {milliseconds(getattr(found, series))}" for series in SERIES)


def milliseconds(value: float) -> str:
    return f"{words.number(float(f'{value:.3g}'))} ms"


def _curve(curve: Curve, limit: float | None, canvas: Canvas, name: str) -> Markup:
    points = sorted(
        (p for p in curve.points if all(usable(v) for v in (p.x, p.p50, p.p95, p.p99))),
        key=lambda point: point.x,
    )
    across = doubling((point.x for point in points), canvas.left + 12, canvas.end - 16)
    up = upright(percentile_figures(points, limit), canvas.floor, canvas.top)
    lines = [
        ChartLine(s, [[(across.place(p.x), up.place(getattr(p, s))) for p in points]])
        for s in SERIES
    ]
    marks = [
        *grid_across(up, canvas),
        *grid_up(across, canvas, curve.x, [point.x for point in points]),
        *(drawn_line(line) for line in lines),
        *(
            tag("circle", class_=f"dot {line.name}", cx=x, cy=y, r=3.5)
            for line in lines
            for stretch in line.stretches
            for x, y in stretch
        ),
        limit_line(limit, up, canvas),
    ]
    readouts = [
        Readout(across.place(p.x), f"{words.number(p.x)} {words.line(curve.x)}: {percentiles(p)}")
        for p in points
    ]
    what = f"{curve.title}. Latency percentiles in milliseconds against {curve.x}."
    return svg(canvas, name, what, marks, readouts)


def _rate(
    title: str, x: str, points: Sequence[tuple[float, float]], canvas: Canvas, name: str
) -> Markup:
    drawable = sorted(point for point in points if usable(point[0]) and usable(point[1]))
    across = doubling((at for at, _ in drawable), canvas.left + 12, canvas.end - 16)
    up = flat(0.0, max((r for _, r in drawable), default=1.0) * 1.08, canvas.floor, canvas.top)
    line = [(across.place(at), up.place(rate)) for at, rate in drawable]
    marks = [
        *grid_across(up, canvas, unit=""),
        *grid_up(across, canvas, x, [at for at, _ in drawable]),
        tag("polygon", class_="area", points=places([*line, *down(line, canvas)])),
        path("stored", [line]),
        *(tag("circle", class_="dot p95", cx=left, cy=top, r=3.5) for left, top in line),
    ]
    readouts = [
        Readout(across.place(at), f"{words.number(at)} {words.line(x)}: {_a_second(rate)}")
        for at, rate in drawable
    ]
    return svg(canvas, name, f"{title}. Calls a second against {x}.", marks, readouts)


def _a_second(rate: float) -> str:
    return f"{words.number(float(f'{rate:.3g}'))} a second"


# --- parts ------------------------------------------------------------------------------


def down(line: Sequence[tuple[float, float]], canvas: Canvas) -> list[tuple[float, float]]:
    """Return the floor under a line, from its end back to its beginning."""
    return [(x, canvas.floor) for x, _ in reversed(line)]


def places(line: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in line)


def svg(
    canvas: Canvas,
    name: str,
    what: str,
    drawn: Sequence[Markup | None],
    readouts: Sequence[Readout],
) -> Markup:
    encoded = msgspec.json.encode([(round(one.x, 1), one.text) for one in readouts]).decode()
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
        data_readouts=encoded,
    )


def grid_across(
    up: Axis, canvas: Canvas, say: Callable[[float], str] = words.number, unit: str = "ms"
) -> list[Markup]:
    marks = []
    for value in up.ticks(5):
        y = up.place(value)
        marks += [
            tag("line", class_="grid", x1=canvas.left, x2=canvas.end, y1=y, y2=y),
            tag("text", say(value), class_="tick end", x=canvas.left - 6, y=y + 4),
        ]
    if unit == "ms":
        scale = "ms, logarithmic" if up.log else "ms"
        marks.append(tag("text", scale, class_="note", x=4.0, y=12.0))
    return marks


def grid_up(
    across: Axis, canvas: Canvas, name: str, at: Sequence[float] | None = None
) -> list[Markup]:
    marks = []
    free_from = -1.0
    for value in across.ticks(canvas.ticks) if at is None else at:
        x, label = across.place(value), words.number(value)
        half = len(label) * _CHARACTER / 2
        if x - half < free_from:
            continue  # the label would overlap the one before
        free_from = x + half + 4
        marks += [
            tag("line", class_="mark", x1=x, x2=x, y1=canvas.floor, y2=canvas.floor + 5),
            tag("text", label, class_="tick middle", x=x, y=canvas.floor + 18),
        ]
    middle = (canvas.left + canvas.end) / 2
    name = _cut(name, canvas.end - canvas.left)
    return [*marks, tag("text", name, class_="note middle", x=middle, y=canvas.height - 5)]


def _cut(text: str, width: float) -> str:
    """The beginning of a text that is too long for its place."""
    text = words.line(text)
    most = int(width / _CHARACTER)
    while words.cells(text) > most:
        text = f"{text[: min(len(text) - 2, most - 1)]}…"
    return text


def limit_line(limit: float | None, up: Axis, canvas: Canvas) -> Markup | None:
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


def drawn_line(line: ChartLine) -> Markup:
    alone = [stretch[0] for stretch in line.stretches if len(stretch) == 1]
    dots = (tag("circle", class_=f"dot {line.name}", cx=x, cy=y, r=2.0) for x, y in alone)
    return join(path(line.name, line.stretches), *dots)


def path(name: str, stretches: Sequence[Sequence[tuple[float, float]]]) -> Markup:
    parts = [
        "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in stretch) for stretch in stretches if stretch
    ]
    return tag("path", class_=f"line {name}", d=" ".join(parts))
