"""Judgement of a record: from measurements to a report. No I/O, so a record can be judged again."""

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
    BAD,
    FORMAT,
    Answer,
    Report,
    Severity,
    Span,
    Timeline,
    Verdict,
    Waiver,
    worst_first,
)
from stateward.pages.series import Curve, Moment, Point

# What a memory needs so that the questions of a part can be asked.
PROVIDED = {
    "threads": "append() and load()",
    "keys": "an append() that stores a turn once, however often its key is delivered",
    "users": "get_user(), put_user() and update_user()",
    "versions": "a get_user() that returns a version, and a put_user() that takes expect=",
    "tasks": "run_once()",
    "workflows": "run_workflow()",
    "locks": "lock()",
    "fences": "an append() that takes fence=",
    "metrics": "metrics(), or pass --metrics-url",
    "alarm": "alarms(), or pass --alerts-url",
    "sizes": "describe()",
    "context": "context()",
    "erasure": "erase()",
    "traces": "traces()",
    "effects": "effect_key()",
}
ATTEMPTS = 5  # runs after which a race has nearly always shown again
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
    """Return the worst verdict; absent and error count as a failure, no answer as unknown."""
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
        attempts=ATTEMPTS if question.by_chance and finding.verdict == "fail" else 1,
        seconds=round(sum(record.took.get(name, 0.0) for name in question.workloads), 2),
        waived=waiver,
        severity=_severity(question, finding),
        means=(finding.means or question.means) if finding.verdict == "fail" else "",
    )


def _severity(question: Question, finding: Finding) -> Severity | None:
    """Return the severity: low for a warning, none for what could not be shown."""
    if finding.verdict == "fail":
        return finding.severity or question.severity
    return "low" if finding.verdict == "warn" else None


def _is_asked(question: Question, record: Record) -> bool:
    """Return False for a question about a part that the target need not have, and has not."""
    if question.optional and not set(question.needs) <= set(record.provides):
        return False
    tried = any(getattr(record, field) is not None for field in question.evidence)
    if question.beside and not tried and not record.expects(question.beside):
        return False
    return all(map(record.expects, question.needs))


def _finding(question: Question, record: Record, limits: Mapping[str, float]) -> Finding:
    missing = [part for part in question.needs if part not in record.provides]
    if missing:
        notes = [f"; {record.notes[n]}" for n in question.workloads if n in record.notes]
        summary = f"the target has no {' and no '.join(missing)}{''.join(notes)}"
        return Finding("absent", summary, remedy=_provided(missing))
    problems = [record.problems[name] for name in question.workloads if name in record.problems]
    if any(getattr(record, field) is None for field in question.evidence):
        if problems:
            return Finding("error", f"it could not be tried: {problems[0]}", remedy=FAILED)
        notes = [record.notes[name] for name in question.workloads if name in record.notes]
        summary = notes[0] if notes else "it was not tried"
        return Finding("unknown", f"there is no evidence: {summary}")
    finding = question.judge(record, limits)
    if finding.verdict == "unknown" and problems:
        summary = f"a part of it could not be tried: {problems[0]}"
        return Finding("error", summary, finding.evidence, remedy=FAILED)
    return finding


def _provided(missing: list[str]) -> str:
    """Return the remedy for parts that a memory does not offer."""
    means = dict.fromkeys(PROVIDED.get(part, f"the part {part}") for part in missing)
    return f"Give the memory {' and '.join(means)}, or do not expect that part ([expect])."


def _sentence(record: Record, answers: tuple[Answer, ...], verdict: Verdict) -> str:
    counted = {
        name: [a for a in answers if a.waived is None and a.verdict in which]
        for name, which in (("bad", BAD), ("unknown", ("unknown",)), ("warn", ("warn",)))
    }
    waived = sum(answer.waived is not None for answer in answers)
    tail = f" {waived} waived." if waived else ""
    if record.expected is not None and (left := _not_expected(record)):
        tail += f" Not expected, and not asked: {', '.join(left)}."
    if record.aborted:
        tail += f" The audit stopped: {record.aborted}. This is what it found until then."
    elif record.interrupted:
        tail += " The audit was interrupted: this is what it found until then."
    if verdict == "fail":
        return f"Not ready for production: {_bad(counted['bad'], len(answers))}{tail}"
    if verdict == "unknown":
        are = "is" if len(counted["unknown"]) == 1 else "are"
        many = plural(len(answers), "answer")
        return f"Not proven: {len(counted['unknown'])} of {many} {are} unknown.{tail}"
    if verdict == "warn":
        warnings = plural(len(counted["warn"]), "warning")
        return f"It holds, with {warnings} in {plural(len(answers), 'answer')}.{tail}"
    if len(answers) == 1:
        return f"It holds: the question passes.{tail}"
    many = "both" if len(answers) == 2 else f"all {len(answers)}"
    return f"It holds: {many} questions pass.{tail}"


def _not_expected(record: Record) -> list[str]:
    """Return the parts that some question is about, and that the target need not have."""
    asked = [part for question in QUESTIONS for part in (*question.needs, question.beside) if part]
    return [part for part in dict.fromkeys(asked) if not record.expects(part)]


def _bad(bad: list[Answer], asked: int) -> str:
    """Summarize as many failures as the page's tiles count, and the worst finding's beginning."""
    first = worst_first(bad)[0]
    what = f"“{first.question}” {first.summary[:1].upper()}{first.summary[1:].split('; ')[0]}."
    if asked == 1:
        return what
    have = "what the target does not have"
    words: dict[Verdict, tuple[str, str]] = {
        "fail": ("fails", "fail"),
        "error": ("could not be tried", "could not be tried"),
        "absent": (f"asks for {have}", f"ask for {have}"),
    }
    counts: list[str] = []
    for verdict in BAD:
        if many := sum(answer.verdict == verdict for answer in bad):
            of = "" if counts else f" of {plural(asked, 'question')}"
            counts.append(f"{many}{of} {words[verdict][many > 1]}")
    worst = f"The worst: {what}" if len(bad) > 1 else what
    return f"{', '.join(counts)}. {worst}"


# --- plots ------------------------------------------------------------------------------


def _timelines(record: Record) -> list[Timeline]:
    rows = [
        Timeline(
            f"Lookups, {plural(level.conversations, 'conversation')}",
            tuple(Moment(*moment) for moment in level.moments),
        )
        for level in record.levels or []
    ]
    if record.outages:
        faults = tuple(Span(o.start, o.end, o.fault) for o in record.outages)
        rows.append(Timeline("Reads while faults are injected", _reads(record.outages), faults))
    return rows


def _reads(outages: list[Outage]) -> tuple[Moment, ...]:
    """The reads during outages, in half seconds."""
    moments = []
    reads = [each for outage in outages for each in outage.tried if each.what == "read"]
    for half in sorted({int(each.at * 2) for each in reads}):
        calls = [each for each in reads if int(each.at * 2) == half]
        took = LogHistogram()
        for each in calls:
            if each.outcome != "error":  # the time of an error is no latency
                took.add(each.seconds)
        failed = sum(each.outcome == "error" for each in calls)
        rate = 2.0 * len(calls)
        p50, p95, p99 = took.ms(0.5), took.ms(0.95), took.ms(0.99)
        moments.append(Moment(half / 2, p50, p95, p99, rate, rate - 2.0 * failed, failed))
    return tuple(moments)


def _curves(record: Record) -> list[Curve]:
    curves = []
    if record.levels:
        points = tuple(
            Point(lv.conversations, lv.p50, lv.p95, lv.p99) for lv in record.levels if lv.p50
        )
        curves.append(Curve("Lookups by concurrent conversations", "conversations", points))
    if record.lengths:
        points = tuple(
            Point(each.messages, each.p50, each.p95, each.p99)
            for each in record.lengths
            if each.p50
        )
        curves.append(Curve("Lookups by length of the history", "messages", points))
    return curves
