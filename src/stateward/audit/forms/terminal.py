"""The report for a terminal: the verdict, then a line a question; colours repeat what words say."""

from __future__ import annotations

from typing import Final

from stateward.audit.forms import sentences
from stateward.audit.report import Answer, Report, Verdict, worst_first
from stateward.pages import words

_COLOURS: Final[dict[Verdict, str]] = {
    "pass": "32",
    "warn": "33",
    "fail": "31",
    "unknown": "35",
    "error": "31",
    "absent": "36",
}
_BOLD, _DIM = "1", "2"
_VERDICT: Final = 8  # as wide as "UNKNOWN" and a space
_NARROWEST: Final = 40
_MOST: Final = 9  # lines of counter-examples: three of them


class _Page:
    """Lines of at most `width` cells."""

    def __init__(self, colour: bool, width: int) -> None:
        self._colour = colour
        self._width = max(width, _NARROWEST)
        self.lines: list[str] = []

    def paint(self, text: str, *codes: str) -> str:
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self._colour and codes and text else text

    def word(self, verdict: Verdict) -> str:
        """A verdict as wide as its column, painted without the spaces."""
        shown = verdict.upper()
        return self.paint(shown, _BOLD, _COLOURS[verdict]) + " " * (_VERDICT - len(shown))

    def add(self, text: str, *codes: str, first: str = "", indent: int = 0) -> None:
        """A paragraph; `first` stands before it and is `indent` cells wide."""
        folded = words.fold(words.line(text), self._width - indent) or [""]
        for at, part in enumerate(folded):
            before = first if first and at == 0 else " " * indent
            self.lines.append(f"{before}{self.paint(part, *codes)}".rstrip(" "))

    def gap(self) -> None:
        self.lines.append("")


def text(report: Report, colour: bool, width: int = 100) -> str:
    """The whole report. Nothing in it can steer the terminal, whatever a field holds."""
    page = _Page(colour, width)
    _head(page, report)
    column = min(12, max((words.cells(words.line(a.id)) for a in report.answers), default=0))
    for answer in worst_first(report.answers):
        _answer(page, answer, column)
    _settings(page, report)
    if report.growth is not None:
        page.gap()
        page.add(sentences.growth(report), first="growth  ", indent=8)
    if report.money is not None:
        page.gap()
        page.add(sentences.money(report), first="costs   ", indent=8)
        for what, much, on, off in sentences.bill(report.money):
            page.add(f"{what}: {on} ({off} without persistence){much and f' for {much}'}", indent=8)
    page.gap()
    return "\n".join(page.lines)


def _head(page: _Page, report: Report) -> None:
    verdict = page.paint(report.verdict.upper(), _BOLD, _COLOURS[report.verdict])
    page.add(report.title, _BOLD, first=f"{verdict}  ", indent=len(report.verdict) + 2)
    page.add(report.sentence)
    for warning in (sentences.interruption(report), sentences.left(report)):
        if warning:
            page.add(warning, _BOLD)
    page.gap()
    tallies = [f"{many} {verdict}" for verdict, many in sentences.counts(report)]
    if sentences.waived(report):
        tallies.append(f"{sentences.waived(report)} waived")
    page.add(" · ".join(tallies))
    page.add(
        f"{report.target} · {report.profile} · seed {report.seed} · "
        f"{words.duration(report.seconds)} · {words.moment(report.started)}",
        _DIM,
    )
    page.gap()


def _answer(page: _Page, answer: Answer, column: int) -> None:
    number = "" if answer.number is None else str(answer.number)
    verdict = page.word(answer.verdict)
    name = words.line(answer.id)
    first = f"{number:>2}  {verdict}{name}{' ' * (column - words.cells(name))}  "
    indent = 4 + _VERDICT + max(column, words.cells(name)) + 2
    if words.cells(name) > column:  # an id longer than its column has its own line
        page.add(name, first=f"{number:>2}  {verdict}", indent=4 + _VERDICT)
        first, indent = " " * (4 + _VERDICT), 4 + _VERDICT
    page.add(sentences.graded(answer), first=first, indent=indent)
    if answer.means:
        page.add(answer.means, first=" " * indent, indent=indent)
    if answer.waived is not None:
        page.add(sentences.waiver(answer), first=" " * indent, indent=indent)
    if sentences.needs_work(answer) and answer.remedy:
        page.add(answer.remedy, first=f"{' ' * indent}→ ", indent=indent + 2)
    if answer.verdict == "fail" and answer.waived is None:
        _proof(page, answer, indent)


def _proof(page: _Page, answer: Answer, indent: int) -> None:
    """Show the counter-example, and the command that shows the failure again."""
    lines = answer.counter_example.splitlines()
    for each in lines[:_MOST]:
        inner = indent + 2 * each.startswith("  ")
        page.add(each.strip(), _DIM, first=" " * inner, indent=inner)
    if len(lines) > _MOST:
        more = words.plural(len(lines) - _MOST, "more line")
        page.add(f"… {more} in the report", _DIM, first=" " * indent, indent=indent)
    if answer.reproduce:
        page.add(answer.reproduce, first=f"{' ' * indent}$ ", indent=indent + 2)
    if again := sentences.attempts(answer):
        page.add(again, first=" " * indent, indent=indent)


def _settings(page: _Page, report: Report) -> None:
    wrong = [setting for setting in report.settings if setting.verdict != "pass"]
    if not wrong:
        return
    page.gap()
    page.add("Settings to review", _BOLD)
    for setting in wrong:
        word = page.word(setting.verdict)
        row = f"{setting.name} = {setting.value} ({sentences.source(setting)}): {setting.meaning}"
        page.add(row, first=f"    {word}", indent=4 + _VERDICT)
