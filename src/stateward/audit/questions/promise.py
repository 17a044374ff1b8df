"""Promises of a memory, and whether those that were tried were kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stateward.audit.questions.question import Finding, plural, power
from stateward.audit.record import Check, Record
from stateward.audit.report import Evidence


class Promise(NamedTuple):
    """One promise. `broken` is what is said of a memory that does not keep it."""

    name: str
    broken: str
    remedy: str = ""
    needs: str = ""  # a part of the target without which it cannot be tried
    refusable: bool = True  # whether an error that says no is as good as keeping it
    weak: bool = False  # whether breaking it is a warning only


class KeptPromises(NamedTuple):
    """What is to be said of some promises."""

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
    """All of them, the first broken one as the example."""
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
        if check is None or not check.tried:
            untried.append(promise.name)
            continue
        tried += check.tried
        said = power(check.tried) if not check.differing else f"of {check.tried:,}"
        facts.append(Evidence(promise.name, check.differing, "", "0", said))
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
        problems,
        weak,
        tuple(facts),
        example,
        untried,
        " ".join(dict.fromkeys(remedies)),
        tried,
    )


def _example(check: Check) -> str:
    first = min(check.examples, key=lambda each: len(each.done) + len(each.expected))
    return f"{first.done}\n  expected: {first.expected}\n  found:    {first.found}"


def finding(
    record: Record, checks: Sequence[Check] | None, promises: Sequence[Promise], holds: str
) -> Finding:
    """Of a question that is about promises alone. `holds` is said when all were kept."""
    seen = kept(record, checks, promises)
    if seen.problems:
        said = "; ".join(seen.problems)
        return Finding("fail", said, seen.facts, seen.example, seen.remedy)
    if seen.untried:
        said = f"not tried: {', '.join(seen.untried)}"
        return Finding("unknown", said, seen.facts, remedy=AGAIN)
    if seen.weak:
        return Finding("warn", "; ".join(seen.weak), seen.facts, seen.example, seen.remedy)
    return Finding("pass", f"{holds} ({plural(seen.tried, 'trial')})", seen.facts)


AGAIN = "Run it again on an idle machine: what was not tried says nothing about the memory."


def with_promises(
    found: Finding, record: Record, checks: Sequence[Check] | None, promises: Sequence[Promise]
) -> Finding:
    """The finding of an older question, and what newer records know of these promises."""
    if record.format < 2:
        return found
    seen = kept(record, checks, promises)
    facts = (*found.evidence, *seen.facts)
    if seen.problems:
        also = [found.summary] if found.verdict == "fail" else []
        said = "; ".join([*also, *seen.problems])
        example = found.counter_example or seen.example
        remedy = " ".join(dict.fromkeys(each for each in (found.remedy, seen.remedy) if each))
        return Finding("fail", said, facts, example, remedy)
    if found.verdict in ("fail", "unknown"):
        return replace(found, evidence=facts)
    if seen.untried:
        return Finding("unknown", f"not tried: {', '.join(seen.untried)}", facts, remedy=AGAIN)
    if seen.weak:
        also = [found.summary] if found.verdict == "warn" else []
        said = "; ".join([*also, *seen.weak])
        return Finding("warn", said, facts, found.counter_example or seen.example, seen.remedy)
    return replace(found, evidence=facts)
