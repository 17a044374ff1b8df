"""Parts of a page that several of its sections use."""

from __future__ import annotations

from typing import Final, Literal

from stateward.pages.markup import Markup, tag

Mark = Literal["pass", "warn", "fail", "unknown", "error", "absent"]

# Each mark has a shape besides its word and its colour; drawn in a square of 20.
_SHAPES: Final[dict[Mark, str]] = {
    "pass": "M5 10.5l3.5 3.5L15 6.5",
    "warn": "M10 5v6M10 14v.6",
    "fail": "M6 6l8 8M14 6l-8 8",
    "unknown": "M7.3 7.6a2.7 2.7 0 1 1 4 2.4c-.9.5-1.3 1-1.3 1.9M10 14.6v.2",
    "error": "M10 5v6M10 14v.6",
    "absent": "M5.5 10h9",
}


def section(name: str, title: str, *children: Markup | None) -> Markup:
    return tag(
        "section",
        tag("h2", title, id=f"{name}-title"),
        *children,
        id=name,
        aria_labelledby=f"{name}-title",
    )


def pair(name: str, value: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value))


def shape(mark: Mark) -> Markup:
    return tag(
        "svg",
        tag("circle", cx=10.0, cy=10.0, r=10.0),
        tag("path", d=_SHAPES[mark]),
        class_="shape",
        viewBox="0 0 20 20",
        aria_hidden="true",
    )


def heads(*names: str) -> Markup:
    return tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))
