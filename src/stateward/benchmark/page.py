"""A benchmark's result as one HTML file, with the audit report's charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stateward.benchmark import text
from stateward.benchmark.figures import OPERATIONS, BenchResult, Figures
from stateward.pages import charts, words
from stateward.pages.document import document
from stateward.pages.figures import figure, table
from stateward.pages.markup import Markup, tag
from stateward.pages.parts import heads, pair, section
from stateward.pages.series import Curve, Point


def html(result: BenchResult) -> str:
    """The page. Whatever a field holds stays text."""
    return document(
        f"{words.line(result.url)} · Stateward bench",
        tag("a", "Skip to the figures", class_="skip", href="#figures"),
        tag("header", _hero(result)),
        tag(
            "main",
            _by_conversations(result),
            _by_history(result),
            _all_figures(result),
            _conditions(result),
        ),
        tag(
            "footer",
            tag("p", "Written by stateward bench. Figures hold for this machine at this time."),
        ),
    )


def _hero(result: BenchResult) -> Markup:
    facts = [
        ("Store", tag("code", result.url)),
        ("Engine", f"{result.engine} {result.version}"),
        ("Durability", result.durability),
        ("Started", words.moment(result.started)),
        ("Took", words.duration(result.seconds)),
    ]
    interrupted = "This benchmark was interrupted. What is missing was not measured."
    return tag(
        "div",
        tag("p", "Stateward bench", class_="overline"),
        tag("h1", tag("span", result.url, class_="title")),
        tag("p", interrupted, class_="interrupted", role="note") if result.interrupted else None,
        tag("dl", *(pair(name, value) for name, value in facts), class_="facts"),
        class_="hero plain",
    )


# --- plots ------------------------------------------------------------------------------


def _by_conversations(result: BenchResult) -> Markup | None:
    """Draw latency and, beside it, calls a second for each operation."""
    figures: list[Markup] = []
    for name, title in OPERATIONS.items():
        cells = [cell for cell in _timed(result, name) if cell.history == _base(result, name)]
        if len(cells) > 1:
            figures += [
                _latency(f"{_capital(title)}: latency", "concurrent conversations", cells, name),
                _throughput(f"{_capital(title)}: throughput", cells, name),
            ]
    if not figures:
        return None
    return section("at-once", "Concurrent conversations", tag("div", *figures, class_="pairs"))


def _by_history(result: BenchResult) -> Markup | None:
    figures: list[Markup] = []
    for name, title in OPERATIONS.items():
        cells = [cell for cell in _timed(result, name) if cell.conversations == 1]
        if len({cell.history for cell in cells}) > 1:
            figures.append(_latency(_capital(title), "messages of history", cells, f"{name}-long"))
    if not figures:
        return None
    # Drawn for half the width: an odd one at the end would be stretched over all of it.
    *pairs, last = figures
    parts = figures if len(figures) % 2 == 0 else [*pairs, last, tag("div")]
    return section("by-history", "Long histories, one caller", tag("div", *parts, class_="pairs"))


def _timed(result: BenchResult, operation: str) -> list[Figures]:
    return [c for c in result.cells if c.operation == operation and c.p50_ms is not None]


def _base(result: BenchResult, operation: str) -> int:
    """Return the length of history on which many conversations were measured."""
    cells = [cell for cell in result.cells if cell.operation == operation]
    return max(cells, key=lambda cell: cell.conversations).history


def _latency(title: str, x: str, cells: Sequence[Figures], name: str) -> Markup:
    rows = list(_points(x, cells))
    curve = Curve(title, x, tuple(Point(*row) for row in rows))
    return figure(
        title,
        charts.curve(curve, None, f"latency-{name}", False),
        table((x, *charts.SERIES), rows),
        legend=True,
    )


def _points(x: str, cells: Sequence[Figures]) -> Iterator[tuple[float, float, float, float]]:
    for cell in cells:
        at = cell.history if x.startswith("messages") else cell.conversations
        yield at, cell.p50_ms or 0.0, cell.p95_ms or 0.0, cell.p99_ms or 0.0


def _throughput(title: str, cells: Sequence[Figures], name: str) -> Markup:
    x = "concurrent conversations"
    points = [(float(cell.conversations), cell.per_second) for cell in cells]
    return figure(
        title, charts.rates(title, x, points, f"rate-{name}"), table((x, "calls a second"), points)
    )


def _capital(title: str) -> str:
    return title[0].upper() + title[1:]


# --- figures ----------------------------------------------------------------------------


def _all_figures(result: BenchResult) -> Markup:
    names = text.columns()
    lines = [
        tag("tr", *(tag("td", _said(row[name])) for name in names)) for row in text.rows(result)
    ]
    whole = tag("table", heads(*names), tag("tbody", *lines))
    # Wider than a phone: there it is scrolled, with the keys too.
    scrolled = tag("div", whole, class_="scroll whole", tabindex="0")
    return section("figures", "All figures", tag("div", scrolled, class_="panel"))


def _said(value: object) -> str:
    if isinstance(value, int | float):
        return words.number(value)
    return "–" if value is None else str(value)


def _conditions(result: BenchResult) -> Markup:
    method = (
        "A turn is two messages of 500 bytes. Each caller sends its next call as soon as it has an "
        "answer. p50, p95 and p99 are over all rounds, calls a second the median of the rounds, "
        "CPU the processor time of the calling process, for each call."
    )
    rows = words.rows(result.environment)
    return section(
        "conditions",
        "How it was measured",
        tag("p", method),
        tag("pre", tag("code", result.command), tabindex="0"),
        tag("div", tag("dl", *(pair(*row) for row in rows)), class_="panel"),
    )
