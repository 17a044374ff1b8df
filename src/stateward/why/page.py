"""An explanation as one HTML file, in the dress of the audit's report."""

from __future__ import annotations

from typing import Final

from stateward.audit.forms.html.document import document
from stateward.audit.forms.html.markup import Markup, tag
from stateward.audit.forms.html.parts import heads, pair, section, shape
from stateward.audit.forms.words import line
from stateward.audit.report import Verdict
from stateward.why import text
from stateward.why.records import Cause, Explanation, Judgement, MessageSight
from stateward.why.words import day

_DRESS: Final[dict[Judgement, Verdict]] = {
    "lost": "fail",
    "given": "warn",
    "unknown": "unknown",
    "nothing": "pass",
}


def html(it: Explanation, url: str) -> str:
    """The page. Whatever a field holds stays text."""
    return document(
        f"{line(it.thread)} {it.turn.last} · Stateward why",
        tag("a", "Skip to the reasons", class_="skip", href="#why"),
        tag("header", _hero(it, url)),
        tag(
            "main",
            _causes(it),
            _given(it),
            _differences(it),
            _signs(it),
            _messages(it),
        ),
        tag("footer", tag("p", "Written by stateward why. It may hold personal data.")),
    )


def _hero(it: Explanation, url: str) -> Markup:
    dress = _DRESS[it.judgement]
    numbers = {it.turn.first, it.turn.last}
    facts = [
        ("Store", tag("code", url)),
        ("Messages", "–".join(f"{n}" for n in sorted(numbers))),
        ("Written", day(it.turn.at)),
        *([("Stored", day(it.turn.stored))] if it.turn.kept else []),
        ("User", "none" if it.user is None else it.user),
    ]
    said = tag(
        "div",
        tag("p", text.WORDS[it.judgement], class_="verdict"),
        tag("p", it.answer, class_="sentence"),
    )
    return tag(
        "div",
        tag("p", "Stateward why", class_="overline"),
        tag("h1", "Thread ", tag("code", it.thread)),
        tag("div", shape(dress), said, class_="statement"),
        tag("dl", *(pair(name, value) for name, value in facts), class_="facts"),
        class_=f"hero {dress}",
    )


def _causes(it: Explanation) -> Markup | None:
    if not it.causes:
        return None
    return section("why", "Why", *(_cause(cause) for cause in it.causes))


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


def _given(it: Explanation) -> Markup | None:
    told = text.facts(it)
    if not told:
        return None
    more = []
    if it.summary is not None:
        more.append(tag("details", tag("summary", "The summary"), tag("pre", it.summary)))
    values = [pair(name, tag("code", f"{value}")) for name, value in it.documents.items()]
    if values:
        shown = tag("div", tag("dl", *values), class_="panel")
        more.append(tag("details", tag("summary", "The documents as they were given"), shown))
    rows = tag("dl", *(pair(name, value) for name, value in told))
    return section("given", "What it was given", tag("div", rows, *more, class_="panel"))


def _differences(it: Explanation) -> Markup | None:
    panels = [
        tag("div", tag("h3", title), tag("ul", *(tag("li", s) for s in told)), class_="panel")
        for title, told in text.differences(it)
    ]
    if not panels:
        return None
    return section("differences", "What changed", tag("div", *panels, class_="pairs"))


def _signs(it: Explanation) -> Markup | None:
    parts = []
    for title, signs in (("In this turn", it.signs), ("In other turns", it.others)):
        if signs:
            rows = [tag("li", text.sign_line(sign)) for sign in signs]
            parts.append(tag("div", tag("h3", title), tag("ul", *rows), class_="panel"))
    return section("signs", "Signs of lost context", *parts) if parts else None


def _messages(it: Explanation) -> Markup | None:
    if not it.messages:
        return None
    held = {sign.holder for sign in it.signs}
    rows = [_message(message, message.number in held) for message in it.messages]
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
