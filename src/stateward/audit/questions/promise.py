"""Promises of a memory, and whether those that were tried were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stateward.audit.questions.question import Finding, Judge, Thresholds, plural, power
from stateward.audit.record import Check, Record
from stateward.audit.report import Evidence


class Promise(NamedTuple):
    """One promise. `broken` describes a memory that does not keep it."""

    name: str
    broken: str
    remedy: str = ""
    needs: str = ""  # a part of the target without which it cannot be tried
    refusable: bool = True  # True if a refusal counts as keeping the promise
    weak: bool = False  # True if a broken promise is a warning only
    chance: bool = False  # True if some audits or targets cannot try the promise


class KeptPromises(NamedTuple):
    """The result of trying some promises."""

    problems: list[str]
    weak: list[str]
    facts: tuple[Evidence, ...]
    example: str
    untried: list[str]
    remedy: str
    tried: int


def kept(
    record: Record, checks: Sequence[Check] | None, promises: Sequence[Promise]
) -> KeptPromises:
    """Summarize the checks of all promises, with the first broken one as the example."""
    by_name = {check.promise: check for check in checks or ()}
    problems: list[str] = []
    weak: list[str] = []
    facts: list[Evidence] = []
    untried: list[str] = []
    remedies: list[str] = []
    example, tried = "", 0
    for promise in promises:
        if promise.needs and promise.needs not in record.provides:
            continue
        check = by_name.get(promise.name)
        if check is None and promise.chance:
            continue
        if check is None or not check.tried:
            untried.append(promise.name)
            continue
        tried += check.tried
        summary = power(check.tried) if not check.differing else f"of {check.tried:,}"
        facts.append(Evidence(promise.name, check.differing, "", "0", summary))
        if check.differing:
            times = f" ({check.differing} of {plural(check.tried, 'trial')})"
            (weak if promise.weak else problems).append(promise.broken + times)
            if promise.remedy:
                remedies.append(promise.remedy)
            if check.examples and (not example or (promise.weak is False and len(problems) == 1)):
                example = _example(check)
        if check.refused and promise.refusable:
            facts.append(Evidence(f"{promise.name}: refused by an error", check.refused[0]))
        elif check.refused:
            refused = plural(len(check.refused), "value")
            problems.append(f"{refused} refused ({check.refused[0]})")
    return KeptPromises(
        problems, weak, tuple(facts), example, untried, " ".join(dict.fromkeys(remedies)), tried
    )


def _example(check: Check) -> str:
    first = min(check.examples, key=lambda each: len(each.done) + len(each.expected))
    return f"{first.done}\n  expected: {first.expected}\n  found:    {first.found}"


def finding(
    record: Record, checks: Sequence[Check] | None, promises: Sequence[Promise], holds: str
) -> Finding:
    """Answer a question that is about promises alone. `holds` is its summary if all were kept."""
    outcome = kept(record, checks, promises)
    if outcome.problems:
        summary = "; ".join(outcome.problems)
        return Finding("fail", summary, outcome.facts, outcome.example, outcome.remedy)
    if outcome.untried:
        summary = f"not tried: {', '.join(outcome.untried)}"
        return Finding("unknown", summary, outcome.facts, remedy=AGAIN)
    if outcome.weak:
        return Finding(
            "warn", "; ".join(outcome.weak), outcome.facts, outcome.example, outcome.remedy
        )
    return Finding("pass", f"{holds} ({plural(outcome.tried, 'trial')})", outcome.facts)


def judged_by(field: str, promises: Sequence[Promise], holds: str) -> Judge:
    """Return the judge of a question that is about the promises in this field of the record."""

    def judge(record: Record, limits: Thresholds) -> Finding:
        return finding(record, getattr(record, field), promises, holds)

    return judge


AGAIN = "Run it again on an idle machine: what was not tried says nothing about the memory."


def with_promises(
    finding: Finding, record: Record, checks: Sequence[Check] | None, promises: Sequence[Promise]
) -> Finding:
    """Add to a finding what was recorded of these promises."""
    outcome = kept(record, checks, promises)
    facts = (*finding.evidence, *outcome.facts)
    if outcome.problems:
        also = [finding.summary] if finding.verdict == "fail" else []
        summary = "; ".join([*also, *outcome.problems])
        example = finding.counter_example or outcome.example
        remedy = " ".join(dict.fromkeys(each for each in (finding.remedy, outcome.remedy) if each))
        return Finding("fail", summary, facts, example, remedy)
    if finding.verdict in ("fail", "unknown"):
        return replace(finding, evidence=facts)
    if outcome.untried:
        return Finding("unknown", f"not tried: {', '.join(outcome.untried)}", facts, remedy=AGAIN)
    if outcome.weak:
        also = [finding.summary] if finding.verdict == "warn" else []
        summary = "; ".join([*also, *outcome.weak])
        return Finding(
            "warn", summary, facts, finding.counter_example or outcome.example, outcome.remedy
        )
    return replace(finding, evidence=facts)
