"""Parts of the audit's pages: how a page begins, and the marks of verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from stateward.audit.forms import sentences
from stateward.audit.report import Answer, Verdict
from stateward.pages.markup import Markup, tag
from stateward.pages.parts import pair, shape


def hero(
    title: Markup | str,
    verdict: Verdict,
    statement: str,
    sentence: str,
    facts: Sequence[tuple[str, str]],
    *more: Markup | None,
) -> Markup:
    """The top of a page: what it is about, how it ended, and the circumstances."""
    words = tag("div", tag("p", statement, class_="verdict"), tag("p", sentence, class_="sentence"))
    return tag(
        "div",
        tag("p", "Stateward audit", class_="overline"),
        tag("h1", title),
        tag("div", shape(verdict), words, class_="statement"),
        *more,
        tag("dl", *(pair(name, value) for name, value in facts), class_="facts"),
        class_=f"hero {verdict}",
    )


def chip(verdict: Verdict) -> Markup:
    return tag(
        "span", shape(verdict), verdict, class_=f"chip {verdict}", title=sentences.MEANINGS[verdict]
    )


def grave(answer: Answer) -> Markup | None:
    """Return the severity of a failure; a warning is low by definition and shows none."""
    if answer.verdict != "fail" or answer.severity is None:
        return None
    return tag("div", answer.severity, class_=f"severity {answer.severity}")
