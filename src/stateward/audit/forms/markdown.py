"""The report as Markdown, for a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stateward.audit.forms import sentences
from stateward.audit.report import Answer, Report, worst_first
from stateward.pages import words

# What means something to Markdown or, in its HTML, to a browser: anywhere, at the beginning of a
# line alone, or because of what follows (a mention, an issue, an entity, an address, an emoji).
_SPECIAL = re.compile(
    r"([\\`*\[\]<>|~]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"
    r"|^[#+=:-]"
    r"|[@#](?=\w)|&(?=[#\w])|:(?=//|[\w+-]+:)|(?<=www)\.)"
)
_NUMBERED = re.compile(r"^([0-9]+)([.)])(?=\s|$)")


def text(report: Report) -> str:
    """The whole report; what its fields hold stays text."""
    return "\n\n".join(_sections(report)) + "\n"


def _sections(report: Report) -> Iterator[str]:
    yield f"# {report.verdict.upper()}: {safe(report.title)}"
    yield f"**{safe(report.sentence)}**"
    for warning in (sentences.interruption(report), sentences.left(report)):
        if warning:
            yield safe(warning)
    yield _facts(report)
    yield "## Questions"
    yield table(
        ("", "Verdict", "Question", "Finding"),
        [
            ("" if a.number is None else str(a.number), _verdict(a), safe(a.question), _finding(a))
            for a in worst_first(report.answers)
        ],
    )
    for answer in worst_first(report.answers):
        if sentences.needs_work(answer):
            yield from _details(answer)
    if report.growth is not None:
        yield "## Growth"
        yield safe(sentences.growth(report))
    if report.money is not None:
        yield "## Costs"
        yield safe(sentences.money(report))
        yield table(
            ("a month", "how much", "with persistence", "without"),
            [tuple(map(safe, row)) for row in sentences.bill(report.money)],
        )
    if report.settings:
        yield "## Settings"
        yield table(
            ("Verdict", "Setting", "Value", "What it means", "Source"),
            [
                (s.verdict, code(s.name), code(s.value), safe(s.meaning), sentences.source(s))
                for s in report.settings
            ],
        )
    if report.environment:
        yield "## Environment"
        yield table(("", ""), [(safe(n), safe(v)) for n, v in words.rows(report.environment)])


def _facts(report: Report) -> str:
    tallies = [f"{many} {verdict}" for verdict, many in sentences.counts(report)]
    if sentences.waived(report):
        tallies.append(f"{sentences.waived(report)} waived")
    return "\n".join(
        [
            f"- {', '.join(tallies) or 'no answers'}",
            f"- target {code(report.target)}, profile {code(report.profile)}, seed {report.seed}",
            f"- {safe(words.moment(report.started))}, {words.duration(report.seconds)}",
            f"- {code(report.command)}",
        ]
    )


def _verdict(answer: Answer) -> str:
    return f"**{answer.verdict}**" if sentences.needs_work(answer) else answer.verdict


def _finding(answer: Answer) -> str:
    finding = safe(sentences.graded(answer))
    return f"{finding} ({safe(sentences.waiver(answer))})" if answer.waived else finding


def _details(answer: Answer) -> Iterator[str]:
    yield f"### {answer.verdict}: {safe(answer.question)}"
    yield _finding(answer)
    if answer.means:
        yield f"**For your users:** {safe(answer.means)}"
    if answer.evidence:
        yield table(
            ("Evidence", "Measured", "Limit", "Power"),
            [
                (safe(e.what), safe(sentences.measured(e)), safe(e.limit), safe(e.power))
                for e in answer.evidence
            ],
        )
    if answer.counter_example:
        yield _fenced(answer.counter_example)
    if answer.remedy:
        yield f"**What to do:** {safe(answer.remedy)}"
    if answer.reproduce:
        yield _fenced(answer.reproduce, "sh")
    if more := sentences.attempts(answer):
        yield safe(more)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    made = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in made)


def safe(text: str) -> str:
    """A text that stays text, on one line."""
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", words.line(text)))


def code(text: str) -> str:
    """A code span around any text, one line, whole even in a table."""
    line = words.line(text)
    if not line:
        return ""
    if "|" in line:  # a table splits at it even inside of code
        return safe(line)
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _fenced(text: str, language: str = "text") -> str:
    plain = words.plain(text)
    fence = "`" * max(3, _longest_run(plain) + 1)
    return f"{fence}{language}\n{plain}\n{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
