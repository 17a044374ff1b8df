"""Promises of a memory, and whether those that were tried were kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stateward.audit.differences import ERROR, OWN
from stateward.audit.questions.classes import ALL, CLASSES
from stateward.audit.questions.question import Finding, Judge, Thresholds, each_once, plural, power
from stateward.audit.record import Check, Counterexample, Record
from stateward.audit.report import Evidence, Verdict


class Promise(NamedTuple):
    """One promise. `broken` describes a memory that does not keep it, in one of the ways `claims`.

    A difference of another class gets a sentence and a remedy of its own: see `classes`.
    """

    name: str
    broken: str
    remedy: str = ""
    needs: str = ""  # a part of the target without which it cannot be tried
    refusable: bool = True  # True if a refusal counts as keeping the promise
    weak: bool = False  # True if a broken promise is a warning only
    chance: bool = False  # True if some audits or targets cannot try the promise
    claims: tuple[str, ...] = ALL  # classes of difference of which `broken` is true
    sentences: Mapping[str, str] = {}  # of some classes, instead of the general sentence
    means: str = ""  # for users, instead of what the question says

    def clauses(self, check: Check) -> Iterator[BrokenClause]:
        """Yield what was found, one clause for each sentence that is true of it."""
        counts = check.kinds or {OWN: check.differing}
        claimed = [kind for kind in counts if self._is_claimed(kind)]
        if claimed:
            count = sum(counts[kind] for kind in claimed)
            yield self._clause(check, self.broken, count, claimed)
        for kind in counts:
            if kind not in claimed:
                yield self._clause(check, self._sentence(check, kind), counts[kind], [kind])

    def _is_claimed(self, kind: str) -> bool:
        has_own_words = kind in CLASSES or kind in self.sentences
        return kind == OWN or kind in self.claims or not has_own_words

    def _sentence(self, check: Check, kind: str) -> str:
        if kind in self.sentences:
            return self.sentences[kind]
        error = next((each.found for each in check.examples if each.kind == kind), "an error")
        sentence = CLASSES[kind].sentence.format(error=error.partition(":")[0])
        return f"{sentence} ({self.name})"

    def _clause(self, check: Check, sentence: str, count: int, kinds: list[str]) -> BrokenClause:
        times = f"{sentence} ({count} of {plural(check.tried, 'trial')})"
        own = self._is_claimed(kinds[0]) or kinds[0] in self.sentences
        remedy = self.remedy if own else CLASSES[kinds[0]].remedy
        means = self.means if own else CLASSES[kinds[0]].means
        examples = [each for each in check.examples if each.kind in kinds]
        return BrokenClause(times, remedy, means, _example(examples) if examples else "")


class BrokenClause(NamedTuple):
    """One sentence about a broken promise, and the example that it is true of."""

    sentence: str
    remedy: str
    means: str  # "" if it means what the question says
    example: str


class KeptPromises(NamedTuple):
    """The result of trying some promises."""

    problems: list[BrokenClause]
    weak: list[BrokenClause]
    facts: tuple[Evidence, ...]
    untried: list[str]
    tried: int

    def finding(self, verdict: Verdict, clauses: list[BrokenClause]) -> Finding:
        """Return what these clauses say together, with an example of each."""
        own = any(not each.means for each in clauses)
        return Finding(
            verdict,
            "; ".join(each.sentence for each in clauses),
            self.facts,
            "\n".join(dict.fromkeys(each.example for each in clauses if each.example)),
            each_once(each.remedy for each in clauses),
            means="" if own else each_once(each.means for each in clauses),
            severity=None if own else "high",
        )


def kept(
    record: Record, checks: Sequence[Check] | None, promises: Sequence[Promise]
) -> KeptPromises:
    """Summarize the checks of all promises."""
    by_name = {check.promise: check for check in checks or ()}
    problems: list[BrokenClause] = []
    weak: list[BrokenClause] = []
    facts: list[Evidence] = []
    untried: list[str] = []
    tried = 0
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
            (weak if promise.weak else problems).extend(promise.clauses(check))
        if check.refused and promise.refusable:
            facts.append(Evidence(f"{promise.name}: refused by an error", check.refused[0]))
        elif check.refused:
            refused = f"{plural(len(check.refused), 'value')} refused ({check.refused[0]})"
            problems.append(BrokenClause(refused, CLASSES[ERROR].remedy, CLASSES[ERROR].means, ""))
    return KeptPromises(problems, weak, tuple(facts), untried, tried)


def _example(examples: Sequence[Counterexample]) -> str:
    first = min(examples, key=lambda each: len(each.done) + len(each.expected))
    return f"{first.done}\n  expected: {first.expected}\n  found:    {first.found}"


def finding(
    record: Record, checks: Sequence[Check] | None, promises: Sequence[Promise], holds: str
) -> Finding:
    """Answer a question that is about promises alone. `holds` is its summary if all were kept."""
    outcome = kept(record, checks, promises)
    if outcome.problems:
        return outcome.finding("fail", outcome.problems)
    if outcome.untried:
        summary = f"not tried: {', '.join(outcome.untried)}"
        return Finding("unknown", summary, outcome.facts, remedy=AGAIN)
    if outcome.weak:
        return outcome.finding("warn", outcome.weak)
    return Finding("pass", f"{holds} ({plural(outcome.tried, 'trial')})", outcome.facts)


def judged_by(field: str, promises: Sequence[Promise], holds: str) -> Judge:
    """Return the judge of a question that is about the promises in this field of the record."""

    def judge(record: Record, limits: Thresholds) -> Finding:
        return finding(record, getattr(record, field), promises, holds)

    return judge


# Asked by each question whose workload calls every method on a server of the audit's own.
ENDED = Promise(
    "transactions end with their call",
    "a transaction stays open after a call",
    "End every transaction with its call, after reads too: commit, roll back, or use autocommit.",
    chance=True,
    sentences={
        method: f"a transaction stays open after {method}"
        for method in ("append", "load", "put_user", "get_user")
    },
    means="Migrations, vacuum and other calls wait for locks that no one gives back.",
)
AGAIN = "Run it again on an idle machine: what was not tried says nothing about the memory."


def with_promises(
    finding: Finding, record: Record, checks: Sequence[Check] | None, promises: Sequence[Promise]
) -> Finding:
    """Add to a finding what was recorded of these promises."""
    outcome = kept(record, checks, promises)
    facts = (*finding.evidence, *outcome.facts)
    if outcome.problems:
        return _added(finding, outcome.finding("fail", outcome.problems), facts)
    if finding.verdict in ("fail", "unknown"):
        return replace(finding, evidence=facts)
    if outcome.untried:
        return Finding("unknown", f"not tried: {', '.join(outcome.untried)}", facts, remedy=AGAIN)
    if outcome.weak:
        return _added(finding, outcome.finding("warn", outcome.weak), facts)
    return replace(finding, evidence=facts)


def _added(finding: Finding, more: Finding, facts: tuple[Evidence, ...]) -> Finding:
    """Return a finding after another one, if that has the same verdict, else alone."""
    if finding.verdict != more.verdict:
        return replace(more, evidence=facts)
    examples = filter(None, (finding.counter_example, more.counter_example))
    return replace(
        more,
        summary=f"{finding.summary}; {more.summary}",
        evidence=facts,
        counter_example="\n".join(examples),
        remedy=each_once((finding.remedy, more.remedy)),
        means=finding.means,
    )
