"""The table of patterns: for a terminal, as Markdown, and as a page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stateward.audit.compare import MOST, ComparedRow, Table
from stateward.audit.forms import words
from stateward.audit.forms.html.document import document
from stateward.audit.forms.html.markup import Markup, tag
from stateward.audit.forms.html.parts import chip, heads, hero, section
from stateward.audit.forms.markdown import safe
from stateward.audit.forms.markdown import table as markdown_table
from stateward.audit.forms.terminal import fold
from stateward.audit.report import VERDICTS, Verdict

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


def text(found: Table, width: int = 100) -> str:
    """For a terminal: a block a target, so that no column is cut off."""
    lines = [f"At {words.number(found.agents)} agents, measured on this machine", ""]
    for row in found.targets:
        mark = "→ " if row.target == found.recommended else "  "
        lines.append(f"{mark}{words.line(row.target)}")
        for name, value in _facts(found, row):
            lines.extend(_folded(f"{name:<13} {value}", width))
        lines.append("")
    return "\n".join([*lines, *fold(words.line(found.recommendation), width)])


def _folded(said: str, width: int) -> list[str]:
    first, *rest = fold(said[14:], max(20, width - 18)) or [""]
    return [f"    {said[:14]}{first}", *(f"{' ' * 18}{part}" for part in rest)]


def _facts(found: Table, row: ComparedRow) -> list[tuple[str, str]]:
    """What is said of one target, below its name."""
    took = " / ".join(_figure(ms) for ms in (row.p50_ms, row.p95_ms, row.p99_ms))
    facts = [
        ("latency", f"{took} ms (p50 / p95 / p99)"),
        ("durability", f"{row.durability}: {words.line(row.survives)}"),
        ("races", row.races),
        ("growth", f"{_figure(row.bytes_a_turn)} bytes a turn, {_figure(row.gb_a_year)} GB a year"),
        ("costs", _costs(found, row)),
    ]
    if row.failing:
        facts.append(("fails", ", ".join(map(words.line, row.failing))))
    if row.lacks:
        facts.append(("not met", "; ".join(map(words.line, row.lacks))))
    return facts


def _costs(found: Table, row: ComparedRow) -> str:
    said = [f"{_figure(row.mb_a_replica)} MB a replica"]
    if row.connections is not None:
        said.append(f"{words.number(row.connections)} connections")
    if row.money_a_month is not None:
        on = words.amount(row.money_a_month, found.currency)
        off = words.amount(row.money_without_persistence, found.currency)
        said.append(f"{on} a month ({off} without persistence)")
    return ", ".join(said)


def _figure(value: float | None) -> str:
    return "–" if value is None else words.number(value)


def markdown(found: Table) -> str:
    """For a pull request or a wiki."""
    head = [*_HEADS, "Connections", "A month", "Suits"]
    rows = [[*_cells(row), *_last(found, row)] for row in found.targets]
    parts = [
        "# Which pattern suits?",
        f"**{safe(found.recommendation)}**",
        f"Measured on one machine, for {words.number(found.agents)} agents. Required: "
        f"{safe(required(found))}.",
        markdown_table(head, [[safe(cell) for cell in row] for row in rows]),
        "## What survives",
        "\n".join(f"- {safe(row.target)}: {safe(row.survives)}" for row in found.targets),
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


def _last(found: Table, row: ComparedRow) -> list[str]:
    money = row.money_a_month
    return [
        _figure(row.connections),
        "–" if money is None else words.amount(money, found.currency),
        "recommended" if row.target == found.recommended else "yes" if row.suits else "no",
    ]


def required(found: Table) -> str:
    """The requirements in words."""
    wanted, said = found.requirements, []
    for name, what, unit in MOST:
        most = getattr(wanted, name)
        if most is not None:
            unit = f" {words.line(found.currency)}".rstrip() if name == "money_a_month" else unit
            said.append(f"{what} at most {words.number(most)}{unit}")
    for name in ("durability", "races"):
        enough = getattr(wanted, name)
        if enough != "any":
            said.append(f"{name}: {'pass' if enough == 'pass' else 'pass or warn'}")
    return f"{', '.join(said)}; best by {wanted.prefer}"


# --- the page ---------------------------------------------------------------------------


def html(found: Table, links: Sequence[str] = ()) -> str:
    """One page; `links` are the addresses of each target's own report, if there are any."""
    verdict: Verdict = "fail" if found.recommended is None else "pass"
    title = "Which pattern suits?"
    facts = [
        ("Agents", words.number(found.agents)),
        ("Required", required(found)),
        ("Compared", str(len(found.targets))),
    ]
    best = found.recommended or "None of these"
    cards = [
        _card(found, row, links[at] if at < len(links) else "")
        for at, row in enumerate(found.targets)
    ]
    return document(
        f"{title} · Stateward audit",
        tag("header", hero(title, verdict, best, found.recommendation, facts)),
        tag(
            "main",
            section("table", "Side by side", _page_table(found)),
            section("latency", "How fast a lookup is", _bars(found)),
            section("targets", "One by one", *cards),
        ),
    )


def _page_table(found: Table) -> Markup:
    """A column a target: there are few of them, and much to say of each."""
    columns = [_column(found, row) for row in found.targets]
    names = (*_HEADS[1:], "Connections", "A month", "Suits")
    lines = [
        tag(
            "tr",
            tag("th", name, scope="row"),
            *(tag("td", column[at], class_="value") for column in columns),
        )
        for at, name in enumerate(names)
    ]
    head = heads("", *(row.target for row in found.targets))
    table = tag("table", head, tag("tbody", *lines), class_="compare")
    return tag("div", table, class_="panel scroll", tabindex="0")


def _column(found: Table, row: ComparedRow) -> list[Markup | str]:
    _, p50, p95, p99, durability, races, *rest = _cells(row)
    chips = (chip(_verdict(durability)), chip(_verdict(races)))
    return [p50, p95, p99, *chips, *rest, *_last(found, row)]


def _verdict(word: str) -> Verdict:
    known: dict[str, Verdict] = {each: each for each in VERDICTS}
    return known.get(word, "unknown")


def _bars(found: Table) -> Markup:
    """p95 of each, to one scale."""
    longest = max((row.p95_ms or 0.0 for row in found.targets), default=0.0) or 1.0
    rows = []
    for row in found.targets:
        width = max(1.0, _BAR * (row.p95_ms or 0.0) / longest)
        bar = tag(
            "svg",
            tag("rect", x=0.0, y=0.0, width=width, height=14.0, rx=3.0, class_="bar"),
            viewBox=f"0 0 {_BAR:g} 14",
            class_="bars",
            aria_hidden="true",
        )
        said = "not measured" if row.p95_ms is None else f"{words.number(row.p95_ms)} ms"
        cells = (tag("td", bar), tag("td", said, class_="value"))
        rows.append(tag("tr", tag("th", row.target, scope="row"), *cells))
    table = tag("table", heads("Target", "", "p95"), tag("tbody", *rows), class_="barred")
    return tag("figure", tag("figcaption", "p95 of lookups under load"), table)


def _card(found: Table, row: ComparedRow, link: str) -> Markup:
    verdict: Verdict = "pass" if row.suits else "fail"
    facts = [
        tag("tr", tag("th", name, scope="row"), tag("td", value))
        for name, value in _facts(found, row)
    ]
    name: Markup | str = tag("a", row.target, href=link) if link else row.target
    return tag(
        "article",
        tag("header", tag("h3", name), chip(verdict)),
        tag("table", tag("tbody", *facts), class_="said-of"),
        class_=f"card {verdict}",
    )
