"""The report as one HTML file that needs nothing else: no network, no library, no font."""

from __future__ import annotations

from collections.abc import Sequence

from stateward.audit.forms import sentences
from stateward.audit.forms.baseline import Comparison
from stateward.audit.forms.measurements import measurements
from stateward.audit.forms.parts import chip, grave, hero
from stateward.audit.report import BAD, Answer, Evidence, Report, worst_first
from stateward.pages import words
from stateward.pages.document import document
from stateward.pages.markup import Markup, tag
from stateward.pages.parts import heads, pair, section, shape


def html(report: Report, changes: Comparison | None = None) -> str:
    """The page, with what changed since a baseline if that is given.

    Whatever a field holds stays text, and no code but the page's own runs.
    """
    title = f"{report.verdict.upper()}: {words.line(report.title)} · Stateward audit"
    return document(title, *_body(report, changes))


def _body(report: Report, changes: Comparison | None) -> tuple[Markup, ...]:
    return (
        tag("a", "Skip to the questions", class_="skip", href="#questions"),
        tag("header", _hero(report)),
        _contents(report, changes),
        tag(
            "main",
            _only(report),
            _glance(report),
            _changes(changes) if changes is not None else None,
            section(
                "questions",
                "The questions, worst first",
                *(_card(answer, anchor) for anchor, answer in _anchored(report)),
            ),
            measurements(report),
            _settings(report),
            _facts(report),
        ),
        _footer(report),
    )


def _contents(report: Report, changes: Comparison | None) -> Markup:
    """Return the contents, which stay in view: beside the page or, on narrow screens, above it."""
    measured = report.timelines or report.curves or report.growth or report.money
    sections = [
        ("glance", "Summary", True),
        ("changes", "Changes", changes is not None),
        ("questions", "Questions", True),
        ("measured", "Figures", measured),
        ("settings", "Settings", report.settings),
        ("conditions", "Conditions", True),
    ]
    items = []
    for name, title, there in sections:
        if there:
            inner = _entries(report) if name == "questions" else None
            items.append(tag("li", tag("a", title, href=f"#{name}"), inner))
    return tag("nav", tag("ul", *items), class_="contents", aria_label="Contents")


def _entries(report: Report) -> Markup:
    entries = [
        tag(
            "li",
            tag("a", shape(answer.verdict), tag("span", _entry(answer)), href=f"#{anchor}"),
            class_=answer.verdict,
        )
        for anchor, answer in _anchored(report)
    ]
    return tag("ul", *entries)


def _entry(answer: Answer) -> str:
    return " ".join(filter(None, (_number(answer), words.line(answer.id))))


def _anchored(report: Report) -> list[tuple[str, Answer]]:
    """Return the answers, worst first, with anchors by place: a report's ids may hold anything."""
    return [(f"answer-{at}", each) for at, each in enumerate(worst_first(report.answers), 1)]


# --- the top ----------------------------------------------------------------------------


def _hero(report: Report) -> Markup:
    facts = [
        ("Target", tag("code", report.target)),
        ("Started", words.moment(report.started)),
        ("Took", words.duration(report.seconds)),
        ("Profile", report.profile),
        ("Seed", str(report.seed)),
    ]
    title = tag("span", report.title, class_="title")
    more = (_interruption(report), _counts(report))
    verdict = report.verdict
    return hero(title, verdict, verdict.upper(), report.sentence, facts, *more)


def _interruption(report: Report) -> Markup | None:
    reasons = " ".join(filter(None, (sentences.interruption(report), sentences.left(report))))
    return tag("p", reasons, class_="interrupted", role="note") if reasons else None


def _counts(report: Report) -> Markup:
    tiles = [
        tag(
            "li",
            tag("b", str(many)),
            f" {verdict}",
            class_=verdict,
            title=sentences.MEANINGS[verdict],
        )
        for verdict, many in sentences.counts(report)
    ]
    if many := sentences.waived(report):
        tiles.append(tag("li", tag("b", str(many)), " waived", class_="waived"))
    return tag("ul", *tiles, class_="counts", aria_label="How many answers have each verdict")


# --- at a glance ------------------------------------------------------------------------


def _only(report: Report) -> Markup | None:
    """Return the switch that leaves what failed; none if nothing failed, or everything did."""
    failed = [answer.verdict in BAD for answer in report.answers]
    if all(failed) or not any(failed):
        return None
    return tag(
        "label", tag("input", type="checkbox", id="only"), " Only what failed", class_="only"
    )


def _glance(report: Report) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", _number(answer), class_="number"),
            tag("td", chip(answer.verdict), grave(answer), _waived_mark(answer)),
            tag(
                "td",
                tag("a", answer.question, href=f"#{anchor}"),
                tag("div", words.sentence(answer.summary), class_="finding"),
            ),
            class_=answer.verdict,
        )
        for anchor, answer in _anchored(report)
    ]
    return section(
        "glance",
        "At a glance",
        tag(
            "table",
            tag("caption", "Every question with its verdict and its finding", class_="hidden"),
            heads("", "Verdict", "Question and finding"),
            tag("tbody", *rows),
            class_="glance",
        ),
    )


def _number(answer: Answer) -> str:
    return "" if answer.number is None else str(answer.number)


def _waived_mark(answer: Answer) -> Markup | None:
    return tag("div", "waived", class_="waived-mark") if answer.waived is not None else None


def _changes(changes: Comparison) -> Markup:
    rows = [
        tag(
            "tr",
            tag("td", change.direction, class_=f"direction {change.direction}"),
            tag("th", change.what, tag("span", change.where, class_="power"), scope="row"),
            tag("td", f"{change.before} → {change.after}"),
        )
        for change in changes.changes
    ]
    table = tag("table", heads("", "What", "Before and now"), tag("tbody", *rows))
    nothing = tag("p", "Nothing changed beyond measurement noise.")
    return section(
        "changes",
        f"What changed since {words.moment(changes.before)}",
        *(tag("p", f"Note: {note}", class_="why") for note in changes.notes),
        tag("div", table if rows else nothing, class_="panel changes"),
    )


# --- one card a question ----------------------------------------------------------------


def _card(answer: Answer, anchor: str) -> Markup:
    """Draw the card of an answer; one that passed or is absent is folded to its first line."""
    heading = (
        tag("span", _number(answer), class_="number") if answer.number is not None else None,
        tag("h3", answer.question),
        grave(answer),
        chip(answer.verdict),
    )
    parts = (
        tag("p", words.sentence(answer.summary), class_="summary"),
        tag("p", words.sentence(sentences.waiver(answer)), class_="waiver")
        if answer.waived
        else None,
        _means(answer),
        tag("p", answer.why, class_="why") if answer.why else None,
        _evidence(answer.evidence),
        _block(
            "Counter-example: the smallest history that shows it", _code(answer.counter_example)
        ),
        _remedy(answer),
        _block("Reproduce it", _command(answer.reproduce)),
        _again(answer),
    )
    kind = f"card {answer.verdict}"
    if answer.verdict in ("pass", "absent"):
        return tag("details", tag("summary", *heading), *parts, class_=kind, id=anchor)
    return tag("article", tag("header", *heading), *parts, class_=kind, id=anchor)


def _means(answer: Answer) -> Markup | None:
    if not answer.means:
        return None
    return tag("p", tag("b", "For your users: "), answer.means, class_="means")


def _evidence(facts: Sequence[Evidence]) -> Markup | None:
    if not facts:
        return None
    rows = [
        tag(
            "tr",
            tag("th", fact.what, _small(fact.power), scope="row"),
            tag("td", sentences.measured(fact), class_="value"),
            tag("td", fact.limit or "–", class_="limit-cell" if fact.limit else "no-limit"),
        )
        for fact in facts
    ]
    return tag(
        "table",
        tag("caption", "Evidence", class_="hidden"),
        heads("Evidence", "Measured", "Limit"),
        tag("tbody", *rows),
        class_="evidence",
    )


def _small(text: str) -> Markup | None:
    return tag("span", text, class_="power") if text else None


def _block(title: str, text: Markup | None) -> Markup | None:
    if text is None:
        return None
    return tag("div", tag("h4", title), text, class_="block")


def _code(text: str) -> Markup | None:
    return tag("pre", tag("code", text), tabindex="0") if text else None


def _command(text: str) -> Markup | None:
    """Return the command, broken between words alone, so that `--only` stays whole on a phone."""
    if not text:
        return None
    parts = [part for word in text.split(" ") for part in (tag("span", word), " ")]
    return tag("pre", tag("code", *parts[:-1]), tabindex="0")


def _again(answer: Answer) -> Markup | None:
    text = sentences.attempts(answer)
    return tag("p", text, class_="why") if text else None


def _remedy(answer: Answer) -> Markup | None:
    if not answer.remedy:
        return None
    return tag("div", tag("h4", "What to do"), tag("p", answer.remedy), class_="remedy")


# --- the rest ---------------------------------------------------------------------------


def _settings(report: Report) -> Markup | None:
    if not report.settings:
        return None
    rows = [
        tag(
            "tr",
            tag("td", chip(setting.verdict)),
            tag("th", tag("code", setting.name), scope="row"),
            tag(
                "td",
                tag("code", setting.value),
                tag("span", sentences.source(setting), class_="power"),
            ),
            tag("td", setting.meaning, class_="wide-cell"),
        )
        for setting in report.settings
    ]
    head = heads("Verdict", "Setting", "Value", "What it means")
    return section(
        "settings",
        "Durability settings",
        tag("div", tag("table", head, tag("tbody", *rows), class_="settings"), class_="panel"),
    )


def _facts(report: Report) -> Markup:
    thresholds = [
        (name.replace("_", " "), words.number(v)) for name, v in report.thresholds.items()
    ]
    lists = [
        tag("div", tag("h3", title), tag("dl", *(pair(*row) for row in rows)), class_="panel")
        for title, rows in (
            ("Environment", list(words.rows(report.environment))),
            ("Thresholds", thresholds),
        )
        if rows
    ]
    return section(
        "conditions",
        "How it was measured",
        _block("Command", _command(report.command)),
        tag("div", *lists, class_="pairs") if lists else None,
        _glossary(report),
    )


def _glossary(report: Report) -> Markup:
    verdicts = [verdict for verdict, _ in sentences.counts(report)]
    return tag(
        "dl",
        *(tag("div", tag("dt", chip(v)), tag("dd", sentences.MEANINGS[v])) for v in verdicts),
        class_="glossary",
    )


def _footer(report: Report) -> Markup:
    origin = (
        f"Written by stateward audit from report.json, format {report.format}. Every finding can "
        "be reproduced with the command on its card."
    )
    return tag("footer", tag("p", origin))
