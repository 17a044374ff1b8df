"""Parts of the page that several of its sections use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stateward.audit.forms import words
from stateward.audit.forms.html.markup import Markup, tag
from stateward.audit.report import Answer, Verdict

# Each verdict has a shape besides its word and its colour; drawn in a square of 20.
_SHAPES: Final[dict[Verdict, str]] = {
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


def hero(
    title: Markup | str,
    verdict: Verdict,
    statement: str,
    sentence: str,
    facts: Sequence[tuple[str, str]],
    *more: Markup | None,
) -> Markup:
    """The top of a page: what it is about, how it ended, and the circumstances."""
    said = tag("div", tag("p", statement, class_="verdict"), tag("p", sentence, class_="sentence"))
    return tag(
        "div",
        tag("p", "Stateward audit", class_="overline"),
        tag("h1", title),
        tag("div", shape(verdict), said, class_="statement"),
        *more,
        tag("dl", *(pair(name, value) for name, value in facts), class_="facts"),
        class_=f"hero {verdict}",
    )


def pair(name: str, value: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value))


def shape(verdict: Verdict) -> Markup:
    return tag(
        "svg",
        tag("circle", cx=10.0, cy=10.0, r=10.0),
        tag("path", d=_SHAPES[verdict]),
        class_="shape",
        viewBox="0 0 20 20",
        aria_hidden="true",
    )


def chip(verdict: Verdict) -> Markup:
    return tag(
        "span", shape(verdict), verdict, class_=f"chip {verdict}", title=words.MEANINGS[verdict]
    )


def heads(*names: str) -> Markup:
    return tag("thead", tag("tr", *(tag("th", name, scope="col") for name in names)))


def grave(answer: Answer) -> Markup | None:
    """How bad a failure is: what only warns is low without saying so."""
    if answer.verdict != "fail" or answer.severity is None:
        return None
    return tag("div", answer.severity, class_=f"severity {answer.severity}")
