"""Plots as SVG files: bars and lines on scales of tens, legible on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

WIDTH = 760
OURS, PEER, RAW = "#0b7a75", "#b5651d", "#8a8f98"
COLOURS = {"stateward": OURS, "peer": PEER, "raw": RAW}
LINES = (OURS, "#b5651d", "#6a4c93", "#c1121f", "#386fa4", "#7d8597", "#5a7d2a", "#2f3e46")
FONT = "font-family='sans-serif' font-size='12' fill='#222'"


@dataclass(frozen=True)
class Bar:
    name: str
    role: str
    value: float
    shown: str


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def bars(title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> str:
    """Horizontal bars in groups, on one scale."""
    values = [bar.value for _, some in groups for bar in some]
    scale = _Scale(min(values), max(values), 320, 640)
    parts, down = [_text(16, 24, title, bold=True)], 44
    for name, some in groups:
        parts.append(_text(16, down + 14, name, bold=True))
        down += 22
        for bar in some:
            long = max(2.0, scale.at(bar.value) - 320)
            parts.append(_text(310, down + 14, bar.name, anchor="end"))
            parts.append(
                f"<rect x='320' y='{down + 2}' width='{long:.1f}' height='15' "
                f"fill='{COLOURS[bar.role]}'/>"
            )
            parts.append(_text(326 + long, down + 14, bar.shown))
            down += 21
        down += 10
    return _svg(title, down + 6, parts)


def lines(title: str, across: str, up: str, found: Sequence[Line]) -> str:
    """Lines over a scale of tens, each named at the right in the order of their ends."""
    xs = [x for line in found for x, _ in line.points]
    ys = [y for line in found for _, y in line.points]
    flat, tall = _Scale(min(xs), max(xs), 70, 430), _Scale(min(ys), max(ys), 300, 50)
    parts = [_text(16, 24, title, bold=True), *_grid(flat, tall, sorted(set(xs)))]
    parts += [_text(250, 342, across, anchor="middle"), _text(70, 42, up)]
    for number, line in enumerate(found):
        colour = LINES[number % len(LINES)]
        places = " ".join(f"{flat.at(x):.1f},{tall.at(y):.1f}" for x, y in line.points)
        dash = " stroke-dasharray='5 4'" if line.dashed else ""
        thick = 3 if number == 0 else 2
        parts.append(
            f"<polyline points='{places}' fill='none' stroke='{colour}' "
            f"stroke-width='{thick}'{dash}/>"
        )
        high = 60 + 22 * number
        parts.append(
            f"<line x1='446' y1='{high - 4}' x2='468' y2='{high - 4}' stroke='{colour}' "
            f"stroke-width='{thick}'{dash}/>"
        )
        parts.append(_text(474, high, line.name))
    return _svg(title, 352, parts)


class _Scale:
    """A scale of tens between two places."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = floor(log10(low)), max(ceil(log10(high)), floor(log10(low)) + 1)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    def marks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _grid(flat: _Scale, tall: _Scale, across: Sequence[float]) -> list[str]:
    parts = []
    for value in tall.marks():
        y = tall.at(value)
        parts.append(f"<line x1='70' y1='{y:.1f}' x2='430' y2='{y:.1f}' stroke='#ddd'/>")
        parts.append(_text(64, y + 4, f"{value:,g}", anchor="end"))
    return parts + [
        _text(flat.at(value), 320, f"{value:,.0f}", anchor="middle") for value in across
    ]


def _text(x: float, y: float, words: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = " font-weight='bold'" if bold else ""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' {FONT}{weight}>"
        f"{escape(words)}</text>"
    )


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}' "
            f"width='{WIDTH}' height='{height:.0f}' role='img'>",
            f"<title>{escape(title)}</title>",
            f"<rect width='{WIDTH}' height='{height:.0f}' fill='#fff'/>",
            *parts,
            "</svg>",
            "",
        ]
    )
