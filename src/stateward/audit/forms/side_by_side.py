"""Reports that were written earlier, side by side: for a terminal, and as a page.

Unlike `baseline`, which asks whether one machine's next run is worse, this takes any reports: of
several stores, of several machines.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateward.audit.forms import sentences
from stateward.audit.forms.parts import chip, grave, hero
from stateward.audit.report import SEVERITIES, VERDICTS, Answer, Report
from stateward.pages import words
from stateward.pages.document import document
from stateward.pages.markup import Markup, tag
from stateward.pages.parts import heads, section
from stateward.pages.words import fold, plural

Row = tuple[str, list[Answer | None]]  # a question, and what each report answers


def rows(reports: Sequence[Report]) -> list[Row]:
    """Return every question that a report answers: first those with differing answers, worst first.

    What one of them was not asked says nothing of a difference, and comes last.
    """
    by_id = [{answer.id: answer for answer in report.answers} for report in reports]
    ids = dict.fromkeys(id for answers in by_id for id in answers)
    answered = [[answers.get(id) for answers in by_id] for id in ids]
    answered.sort(
        key=lambda answers: (None in answers, not _differ(answers), min(map(_rank, answers)))
    )
    return [(_title(next(each for each in answers if each)), answers) for answers in answered]


def _title(answer: Answer) -> str:
    return answer.question if answer.number is None else f"{answer.number}  {answer.question}"


def _differ(answers: Sequence[Answer | None]) -> bool:
    return None not in answers and len({each.verdict for each in answers if each}) > 1


def _rank(answer: Answer | None) -> tuple[int, int]:
    if answer is None:
        return len(VERDICTS), 0
    return VERDICTS.index(answer.verdict), SEVERITIES.index(answer.severity or "low")


def sentence(reports: Sequence[Report]) -> str:
    answered = [answers for _, answers in rows(reports)]
    shared = [answers for answers in answered if None not in answers]
    differing = sum(map(_differ, shared))
    summary = f"The verdicts differ on {differing} of {plural(len(shared), 'question')}."
    if rest := len(answered) - len(shared):
        summary += f" {plural(rest, 'more was', 'more were')} not asked in every report."
    return summary


def text(reports: Sequence[Report], width: int = 100) -> str:
    """Return the reports for a terminal: a block per question, so that no column is cut off."""
    lines = [
        f"{number}  {report.verdict.upper():<8}{words.line(report.title)} · {report.profile} · "
        f"{words.moment(report.started)}"
        for number, report in enumerate(reports, 1)
    ]
    lines += ["", sentence(reports)]
    for question, answers in rows(reports):
        lines += ["", *fold(words.line(question), width)]
        for number, answer in enumerate(answers, 1):
            finding = "" if answer is None else sentences.graded(answer)
            word = "not asked" if answer is None else answer.verdict
            first, *rest = fold(words.line(finding), max(20, width - 14)) or [""]
            lines.append(f"  {number} {word:<10}{first}".rstrip())
            lines += [f"{' ' * 14}{part}" for part in rest]
    return "\n".join(lines)


def html(reports: Sequence[Report]) -> str:
    """Return the reports as one page, with a column for each."""
    title = "Audits side by side"
    worst = min((report.verdict for report in reports), key=VERDICTS.index)
    facts = [
        (f"{words.line(report.title)}", f"{report.profile}, {words.moment(report.started)}")
        for report in reports
    ]
    verdicts = " · ".join(report.verdict.upper() for report in reports)
    lines = [
        tag("tr", tag("th", question, scope="row"), *(_cell(answer) for answer in answers))
        for question, answers in rows(reports)
    ]
    table = tag(
        "table",
        heads("Question", *(report.title for report in reports)),
        tag("tbody", *lines),
        class_="runs",
    )
    return document(
        f"{title} · Stateward audit",
        tag("header", hero(title, worst, verdicts, sentence(reports), facts)),
        tag(
            "main",
            section(
                "table",
                "Question by question",
                tag("div", table, class_="panel scroll whole", tabindex="0"),
            ),
        ),
    )


def _cell(answer: Answer | None) -> Markup:
    if answer is None:
        return tag("td", tag("span", "not asked", class_="power"))
    finding = tag("span", words.sentence(answer.summary), class_="power")
    return tag("td", chip(answer.verdict), grave(answer), finding)
