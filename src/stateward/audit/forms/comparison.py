"""The table of patterns: for a terminal, as Markdown, and as a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stateward.audit.compare import MOST, ComparedRow, Table
from stateward.audit.forms.markdown import safe
from stateward.audit.forms.markdown import table as markdown_table
from stateward.audit.forms.parts import chip, hero
from stateward.audit.report import VERDICTS, Verdict
from stateward.pages import words
from stateward.pages.document import document
from stateward.pages.markup import Markup, tag
from stateward.pages.parts import heads, section
from stateward.pages.words import fold

_HEADS: Final = (
    "Target",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "Durability",
    "Races",
    "Bytes a turn",
    "GB a year",
    "MB a replica",
)
_BAR: Final = 240.0  # of the longest bar, in its own units


def text(results: Table, width: int = 100) -> str:
    """Return the comparison for a terminal: a block per target, so that no column is cut off."""
    lines = [f"At {words.number(results.agents)} agents, measured on this machine", ""]
    for row in results.targets:
        mark = "→ " if row.target == results.recommended else "  "
        lines.append(f"{mark}{words.line(row.target)}")
        for name, value in _facts(results, row):
            lines.extend(_folded(f"{name:<13} {value}", width))
        lines.append("")
    return "\n".join([*lines, *fold(words.line(results.recommendation), width)])


def _folded(said: str, width: int) -> list[str]:
    first, *rest = fold(said[14:], max(20, width - 18)) or [""]
    return [f"    {said[:14]}{first}", *(f"{' ' * 18}{part}" for part in rest)]


def _facts(results: Table, row: ComparedRow) -> list[tuple[str, str]]:
    """Return the facts of one target, shown below its name."""
    took = " / ".join(_figure(ms) for ms in (row.p50_ms, row.p95_ms, row.p99_ms))
    facts = [
        ("latency", f"{took} ms (p50 / p95 / p99)"),
        ("durability", f"{row.durability}: {words.line(row.survives)}"),
        ("races", row.races),
        ("growth", f"{_figure(row.bytes_a_turn)} bytes a turn, {_figure(row.gb_a_year)} GB a year"),
        ("costs", _costs(results, row)),
    ]
    if row.failing:
        facts.append(("fails", ", ".join(map(words.line, row.failing))))
    if row.lacks:
        facts.append(("not met", "; ".join(map(words.line, row.lacks))))
    return facts


def _costs(results: Table, row: ComparedRow) -> str:
    costs = [f"{_figure(row.mb_a_replica)} MB a replica"]
    if row.connections is not None:
        costs.append(f"{words.number(row.connections)} connections")
    if row.money_a_month is not None:
        on = words.amount(row.money_a_month, results.currency)
        off = words.amount(row.money_without_persistence, results.currency)
        costs.append(f"{on} a month ({off} without persistence)")
    return ", ".join(costs)


def _figure(value: float | None) -> str:
    return "–" if value is None else words.number(value)


def markdown(results: Table) -> str:
    """Return the comparison as Markdown for a pull request or a wiki."""
    head = [*_HEADS, "Connections", "A month", "Suits"]
    rows = [[*_cells(row), *_last(results, row)] for row in results.targets]
    parts = [
        "# Which pattern suits?",
        f"**{safe(results.recommendation)}**",
        f"Measured on one machine, for {words.number(results.agents)} agents. Required: "
        f"{safe(required(results))}.",
        markdown_table(head, [[safe(cell) for cell in row] for row in rows]),
        "## What survives",
        "\n".join(f"- {safe(row.target)}: {safe(row.survives)}" for row in results.targets),
    ]
    return "\n\n".join(parts) + "\n"


def _cells(row: ComparedRow) -> list[str]:
    return [
        row.target,
        _figure(row.p50_ms),
        _figure(row.p95_ms),
        _figure(row.p99_ms),
        row.durability,
        row.races,
        _figure(row.bytes_a_turn),
        _figure(row.gb_a_year),
        _figure(row.mb_a_replica),
    ]


def _last(results: Table, row: ComparedRow) -> list[str]:
    money = row.money_a_month
    return [
        _figure(row.connections),
        "–" if money is None else words.amount(money, results.currency),
        "recommended" if row.target == results.recommended else "yes" if row.suits else "no",
    ]


def required(results: Table) -> str:
    """The requirements in words."""
    wanted, limits = results.requirements, []
    for name, what, unit in MOST:
        most = getattr(wanted, name)
        if most is not None:
            unit = f" {words.line(results.currency)}".rstrip() if name == "money_a_month" else unit
            limits.append(f"{what} at most {words.number(most)}{unit}")
    for name in ("durability", "races"):
        enough = getattr(wanted, name)
        if enough != "any":
            limits.append(f"{name}: {'pass' if enough == 'pass' else 'pass or warn'}")
    return f"{', '.join(limits)}; best by {wanted.prefer}"


# --- the page ---------------------------------------------------------------------------


def html(results: Table, links: Sequence[str] = ()) -> str:
    """Return the comparison as a page; `links` are addresses of the targets' own reports."""
    verdict: Verdict = "fail" if results.recommended is None else "pass"
    title = "Which pattern suits?"
    facts = [
        ("Agents", words.number(results.agents)),
        ("Required", required(results)),
        ("Compared", str(len(results.targets))),
    ]
    best = results.recommended or "None of these"
    cards = [
        _card(results, row, links[at] if at < len(links) else "")
        for at, row in enumerate(results.targets)
    ]
    return document(
        f"{title} · Stateward audit",
        tag("header", hero(title, verdict, best, results.recommendation, facts)),
        tag(
            "main",
            section("table", "Side by side", _page_table(results)),
            section("latency", "How fast a lookup is", _bars(results)),
            section("targets", "One by one", *cards),
        ),
    )


def _page_table(results: Table) -> Markup:
    """Return the table with a column per target: there are few, with much to say of each."""
    columns = [_column(results, row) for row in results.targets]
    names = (*_HEADS[1:], "Connections", "A month", "Suits")
    lines = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            *(tag("td", column[at], class_="value") for column in columns),
        )
        for at, name in enumerate(names)
    ]
    head = heads("", *(row.target for row in results.targets))
    table = tag("table", head, tag("tbody", *lines), class_="compare")
    return tag("div", table, class_="panel scroll", tabindex="0")


def _column(results: Table, row: ComparedRow) -> list[Markup | str]:
    _, p50, p95, p99, durability, races, *rest = _cells(row)
    chips = (chip(_verdict(durability)), chip(_verdict(races)))
    return [p50, p95, p99, *chips, *rest, *_last(results, row)]


def _verdict(word: str) -> Verdict:
    by_word: dict[str, Verdict] = {each: each for each in VERDICTS}
    return by_word.get(word, "unknown")


def _bars(results: Table) -> Markup:
    """Draw p95 of each target to one scale."""
    longest = max((row.p95_ms or 0.0 for row in results.targets), default=0.0) or 1.0
    rows = []
    for row in results.targets:
        width = max(1.0, _BAR * (row.p95_ms or 0.0) / longest)
        bar = tag(
            "svg",
            tag("rect", x=0.0, y=0.0, width=width, height=14.0, rx=3.0, class_="bar"),
            viewBox=f"0 0 {_BAR:g} 14",
            class_="bars",
            aria_hidden="true",
        )
        label = "not measured" if row.p95_ms is None else f"{words.number(row.p95_ms)} ms"
        cells = (tag("td", bar), tag("td", label, class_="value"))
        rows.append(tag("tr", tag("th", row.target, scope="row"), *cells))
    table = tag("table", heads("Target", "", "p95"), tag("tbody", *rows), class_="barred")
    return tag("figure", tag("figcaption", "p95 of lookups under load"), table)


def _card(results: Table, row: ComparedRow, link: str) -> Markup:
    verdict: Verdict = "pass" if row.suits else "fail"
    facts = [
        tag("tr", tag("th", name, scope="row"), tag("td", value))
        for name, value in _facts(results, row)
    ]
    name: Markup | str = tag("a", row.target, href=link) if link else row.target
    return tag(
        "article",
        tag("header", tag("h3", name), chip(verdict)),
        tag("table", tag("tbody", *facts), class_="said-of"),
        class_=f"card {verdict}",
    )
