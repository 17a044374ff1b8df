"""An explanation as one HTML file, in the dress of the audit's report."""

from __future__ import annotations

from typing import Final

from stateward.pages.document import document
from stateward.pages.markup import Markup, tag
from stateward.pages.parts import Mark, heads, pair, section, shape
from stateward.pages.words import line
from stateward.why import text
from stateward.why.records import Cause, Explanation, Judgement, MessageSight
from stateward.why.words import day

_DRESS: Final[dict[Judgement, Mark]] = {
    "lost": "fail",
    "given": "warn",
    "unknown": "unknown",
    "nothing": "pass",
}


def html(explanation: Explanation, url: str) -> str:
    """The page. Whatever a field holds stays text."""
    return document(
        f"{line(explanation.thread)} {explanation.turn.last} · Stateward why",
        tag("a", "Skip to the reasons", class_="skip", href="#why"),
        tag("header", _hero(explanation, url)),
        tag(
            "main",
            _causes(explanation),
            _given(explanation),
            _differences(explanation),
            _signs(explanation),
            _messages(explanation),
        ),
        tag("footer", tag("p", "Written by stateward why. It may hold personal data.")),
    )


def _hero(explanation: Explanation, url: str) -> Markup:
    dress = _DRESS[explanation.judgement]
    numbers = {explanation.turn.first, explanation.turn.last}
    facts = [
        ("Store", tag("code", url)),
        ("Messages", "–".join(f"{n}" for n in sorted(numbers))),
        ("Written", day(explanation.turn.at)),
        *([("Stored", day(explanation.turn.stored))] if explanation.turn.kept else []),
        ("User", "none" if explanation.user is None else explanation.user),
    ]
    statement = tag(
        "div",
        tag("p", text.WORDS[explanation.judgement], class_="verdict"),
        tag("p", explanation.answer, class_="sentence"),
    )
    return tag(
        "div",
        tag("p", "Stateward why", class_="overline"),
        tag("h1", "Thread ", tag("code", explanation.thread)),
        tag("div", shape(dress), statement, class_="statement"),
        tag("dl", *(pair(name, value) for name, value in facts), class_="facts"),
        class_=f"hero {dress}",
    )


def _causes(explanation: Explanation) -> Markup | None:
    if not explanation.causes:
        return None
    return section("why", "Why", *(_cause(cause) for cause in explanation.causes))


def _cause(cause: Cause) -> Markup:
    lost = cause.reason not in ("given", "no_receipt")
    dress = "fail" if cause.matters and lost else "warn" if cause.matters else "absent"
    return tag(
        "article",
        tag("header", tag("h3", text.TITLES[cause.reason])),
        tag("p", cause.sentence),
        tag("p", cause.advice, class_="remedy") if cause.matters and cause.advice else None,
        class_=f"card {dress}",
    )


def _given(explanation: Explanation) -> Markup | None:
    facts = text.facts(explanation)
    if not facts:
        return None
    more = []
    if explanation.summary is not None:
        more.append(tag("details", tag("summary", "The summary"), tag("pre", explanation.summary)))
    values = [pair(name, tag("code", f"{value}")) for name, value in explanation.documents.items()]
    if values:
        shown = tag("div", tag("dl", *values), class_="panel")
        more.append(tag("details", tag("summary", "The documents as they were given"), shown))
    rows = tag("dl", *(pair(name, value) for name, value in facts))
    return section("given", "What it was given", tag("div", rows, *more, class_="panel"))


def _differences(explanation: Explanation) -> Markup | None:
    panels = [
        tag("div", tag("h3", title), tag("ul", *(tag("li", s) for s in lines)), class_="panel")
        for title, lines in text.differences(explanation)
    ]
    if not panels:
        return None
    return section("differences", "What changed", tag("div", *panels, class_="pairs"))


def _signs(explanation: Explanation) -> Markup | None:
    parts = []
    for title, signs in (
        ("In this turn", explanation.signs),
        ("In other turns", explanation.others),
    ):
        if signs:
            rows = [tag("li", text.sign_line(sign)) for sign in signs]
            parts.append(tag("div", tag("h3", title), tag("ul", *rows), class_="panel"))
    return section("signs", "Signs of lost context", *parts) if parts else None


def _messages(explanation: Explanation) -> Markup | None:
    if not explanation.messages:
        return None
    held = {sign.holder for sign in explanation.signs}
    rows = [_message(message, message.number in held) for message in explanation.messages]
    head = heads("No.", "The model", "Speaker", "Text")
    table = tag("table", head, tag("tbody", *rows), class_="sights")
    return section("messages", "Messages before it", tag("div", table, class_="panel"))


def _message(message: MessageSight, held: bool) -> Markup:
    dress = "pass" if message.given else "fail" if held else "absent"
    return tag(
        "tr",
        tag("td", f"{message.number}", class_="number"),
        tag("td", tag("span", text.mark_of(message), class_=f"sight {dress}")),
        tag("td", message.role, class_="when"),
        tag("td", message.text),
        class_="held" if held else None,
    )
