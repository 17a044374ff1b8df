"""Charts below their titles, each with its figures as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stateward.pages import charts, words
from stateward.pages.markup import Markup, tag
from stateward.pages.parts import heads


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
