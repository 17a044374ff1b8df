"""From what was recorded to a report. No I/O: a saved record can be judged again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from stateward.audit.histogram import LogHistogram
from stateward.audit.prices import Prices
from stateward.audit.questions import QUESTIONS
from stateward.audit.questions.growth import projection
from stateward.audit.questions.money import money
from stateward.audit.questions.question import Finding, Question, plural
from stateward.audit.questions.settings import read_settings
from stateward.audit.record import Outage, Record
from stateward.audit.report import (
    FORMAT,
    Answer,
    Curve,
    Moment,
    Point,
    Report,
    Severity,
    Span,
    Timeline,
    Verdict,
    Waiver,
    worst_first,
)

BAD: tuple[Verdict, ...] = ("fail", "error", "absent")
FAILED = "Find out why this call fails, then ask this question again: until then it has no answer."


def report(
    record: Record,
    limits: Mapping[str, float],
    waivers: Mapping[str, Waiver],
    today: date,
    prices: Prices | None = None,
) -> Report:
    """The answers to all questions that were asked, and the verdict."""
    answers = tuple(
        _answer(question, record, limits, waivers, today)
        for question in QUESTIONS
        if not set(question.workloads) & set(record.skipped) and _is_asked(question, record)
    )
    verdict = worst([answer for answer in answers if answer.waived is None])
    return Report(
        format=FORMAT,
        target=record.target,
        title=record.title,
        verdict=verdict,
        sentence=_sentence(record, answers, verdict),
        profile=record.profile,
        seed=record.seed,
        command=record.command,
        started=record.started,
        seconds=record.seconds,
        interrupted=record.interrupted,
        answers=answers,
        timelines=tuple(_timelines(record)),
        curves=tuple(_curves(record)),
        growth=projection(record, limits),
        money=money(record, limits, prices),
        settings=read_settings(record),
        environment=record.environment,
        thresholds=dict(limits),
        aborted=record.aborted,
        left=record.left,
    )


def worst(answers: list[Answer]) -> Verdict:
    """What is absent or went wrong counts as a failure; no answer at all is unknown."""
    verdicts = {answer.verdict for answer in answers}
    if verdicts & set(BAD):
        return "fail"
    if "unknown" in verdicts or not verdicts:
        return "unknown"
    return "warn" if "warn" in verdicts else "pass"


def _answer(
    question: Question,
    record: Record,
    limits: Mapping[str, float],
    waivers: Mapping[str, Waiver],
    today: date,
) -> Answer:
    finding = _finding(question, record, limits)
    waiver = waivers.get(question.id)
    if waiver is not None and (finding.verdict == "pass" or waiver.until < today.isoformat()):
        waiver = None
    good = finding.verdict == "pass"
    return Answer(
        id=question.id,
        number=question.number,
        question=question.question,
        why=question.why,
        verdict=finding.verdict,
        summary=finding.summary,
        evidence=finding.evidence,
        counter_example=finding.counter_example,
        remedy="" if good else finding.remedy or question.remedy,
        reproduce=f"{record.command} --only {question.id}",
        seconds=round(sum(record.took.get(name, 0.0) for name in question.workloads), 2),
        waived=waiver,
        severity=_severity(question, finding),
        means=(finding.means or question.means) if finding.verdict == "fail" else "",
    )


def _severity(question: Question, finding: Finding) -> Severity | None:
    """A weakness that holds is low; what could not be shown has none."""
    if finding.verdict == "fail":
        return finding.severity or question.severity
    return "low" if finding.verdict == "warn" else None


def _is_asked(question: Question, record: Record) -> bool:
    """An older record knows nothing of newer questions; some are for those who promise a thing."""
    has_all = set(question.needs) <= set(record.provides)
    return question.since <= record.format and (has_all or not question.optional)


def _finding(question: Question, record: Record, limits: Mapping[str, float]) -> Finding:
    missing = [part for part in question.needs if part not in record.provides]
    if missing:
        return Finding("absent", f"the target has no {' and no '.join(missing)}")
    problems = [record.problems[name] for name in question.workloads if name in record.problems]
    if any(getattr(record, field) is None for field in question.evidence):
        if problems:
            return Finding("error", f"it could not be tried: {problems[0]}", remedy=FAILED)
        notes = [record.notes[name] for name in question.workloads if name in record.notes]
        said = notes[0] if notes else "it was not tried"
        return Finding("unknown", f"there is no evidence: {said}")
    found = question.judge(record, limits)
    if found.verdict == "unknown" and problems:
        said = f"a part of it could not be tried: {problems[0]}"
        return Finding("error", said, found.evidence, remedy=FAILED)
    return found


def _sentence(record: Record, answers: tuple[Answer, ...], verdict: Verdict) -> str:
    counted = {
        name: [a for a in answers if a.waived is None and a.verdict in which]
        for name, which in (("bad", BAD), ("unknown", ("unknown",)), ("warn", ("warn",)))
    }
    waived = sum(answer.waived is not None for answer in answers)
    tail = f" {waived} waived." if waived else ""
    if record.aborted:
        tail += f" The audit stopped: {record.aborted}. This is what it found until then."
    elif record.interrupted:
        tail += " The audit was interrupted: this is what it found until then."
    if verdict == "fail":
        first = worst_first(counted["bad"])[0]
        fails = "fails" if len(counted["bad"]) == 1 else "fail"
        return (
            f"Not ready for production: {len(counted['bad'])} of "
            f"{plural(len(answers), 'question')} {fails}, "
            f"the worst is “{first.question}”: {first.summary}.{tail}"
        )
    if verdict == "unknown":
        are = "is" if len(counted["unknown"]) == 1 else "are"
        many = plural(len(answers), "answer")
        return f"Not proven: {len(counted['unknown'])} of {many} {are} unknown.{tail}"
    if verdict == "warn":
        warnings = plural(len(counted["warn"]), "warning")
        return f"It holds, with {warnings} in {plural(len(answers), 'answer')}.{tail}"
    if len(answers) == 1:
        return f"It holds: the question passes.{tail}"
    return f"It holds: all {len(answers)} questions pass.{tail}"


# --- plots ------------------------------------------------------------------------------


def _timelines(record: Record) -> list[Timeline]:
    found = [
        Timeline(
            f"Lookups, {plural(level.conversations, 'conversation')}",
            tuple(Moment(*moment) for moment in level.moments),
        )
        for level in record.levels or []
    ]
    if record.outages:
        faults = tuple(Span(o.start, o.end, o.fault) for o in record.outages)
        found.append(Timeline("Reads while faults are injected", _reads(record.outages), faults))
    return found


def _reads(outages: list[Outage]) -> tuple[Moment, ...]:
    """The reads during outages, in half seconds."""
    moments = []
    reads = [each for outage in outages for each in outage.tried if each.what == "read"]
    reads = [each for each in reads if each.seconds]  # some older records have one unmeasured
    for half in sorted({int(each.at * 2) for each in reads}):
        these = [each for each in reads if int(each.at * 2) == half]
        took = LogHistogram()
        for each in these:
            if each.outcome != "error":  # how long an error took is no latency of a read
                took.add(each.seconds)
        failed = sum(each.outcome == "error" for each in these)
        rate = 2.0 * len(these)
        p50, p95, p99 = took.ms(0.5), took.ms(0.95), took.ms(0.99)
        moments.append(Moment(half / 2, p50, p95, p99, rate, rate - 2.0 * failed, failed))
    return tuple(moments)


def _curves(record: Record) -> list[Curve]:
    found = []
    if record.levels:
        points = tuple(Point(lv.conversations, lv.p50, lv.p95, lv.p99) for lv in record.levels if lv.p50)
        found.append(Curve("Lookups by concurrent conversations", "conversations", points))
    if record.lengths:
        points = tuple(
            Point(each.messages, each.p50, each.p95, each.p99)
            for each in record.lengths
            if each.p50
        )
        found.append(Curve("Lookups by length of the history", "messages", points))
    return found
