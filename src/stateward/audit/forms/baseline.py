"""Changes between two reports of the same machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from stateward.audit.forms import sentences
from stateward.audit.report import Answer, Evidence, Report
from stateward.errors import InvalidInput
from stateward.pages import words

Direction = Literal["better", "worse", "different"]

# A verdict's place on the way from good to bad; `unknown` is worse than `warn`, better than broken.
_RANK: Final = {"pass": 0, "warn": 1, "unknown": 2, "absent": 3, "error": 4, "fail": 5}

# Two runs of one thing differ by this much without a cause: as a part, and at least in the unit.
_NOISE: Final = 0.30
_LEAST: Final = {"µs": 50.0, "us": 50.0, "ms": 2.0, "s": 0.5}
_LESS_IS_BETTER: Final = {*_LEAST, "bytes", "B", "KB", "MB", "GB", "connections"}
_MORE_IS_BETTER: Final = {"calls/s", "turns/s", "days"}


class Difference(Struct, frozen=True):
    """One change against the baseline."""

    kind: Literal["verdict", "figure", "setting"]
    where: str  # the answer's id, the curve's title, "growth" or "settings"
    what: str  # the change
    before: str
    after: str
    direction: Direction


class Comparison(Struct, frozen=True):
    """All changes, worst first; `notes` says what makes the two reports less comparable."""

    before: str  # when the old audit was started
    after: str
    changes: tuple[Difference, ...]
    notes: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        """True if anything got worse."""
        return any(change.direction == "worse" for change in self.changes)


def compare(old: Report, new: Report) -> Comparison:
    """Compare two reports, leaving out differences within the noise of a run.

    Raises `InvalidInput` when the two are not of the same machine: their figures say nothing about
    each other.
    """
    _refuse_another_machine(old, new)
    changes = [*_verdicts(old, new), *_settings(old, new), *_figures(old, new)]
    order = {"worse": 0, "different": 1, "better": 2}
    kinds = {"verdict": 0, "setting": 1, "figure": 2}
    changes.sort(key=lambda change: (order[change.direction], kinds[change.kind]))
    return Comparison(
        before=old.started, after=new.started, changes=tuple(changes), notes=tuple(_notes(old, new))
    )


def machine(report: Report) -> object:
    """Return the id of a machine: the environment's `fingerprint`, else its `machine`."""
    return report.environment.get("fingerprint") or report.environment.get("machine")


def _refuse_another_machine(old: Report, new: Report) -> None:
    if machine(old) is None or machine(new) is None:
        which = "baseline" if machine(old) is None else "new report"
        raise InvalidInput(
            f"The {which} does not name the machine it was made on, so it cannot be compared. "
            "Run the audit again here and keep its report.json as the baseline."
        )
    if machine(old) != machine(new):
        raise InvalidInput(
            "The baseline comes from another machine, and figures of two machines cannot be "
            "compared. Run the audit on this machine once and keep its report.json as the "
            "baseline."
        )


def _notes(old: Report, new: Report) -> Iterator[str]:
    for name, before, after in (
        ("target", old.target, new.target),
        ("profile", old.profile, new.profile),
        ("seed", str(old.seed), str(new.seed)),
    ):
        if before != after:
            yield f"different {name}: {before} before, {after} now"
    for which, report in (("baseline", old), ("new audit", new)):
        if report.interrupted:
            yield f"the {which} was interrupted"


def _verdicts(old: Report, new: Report) -> Iterator[Difference]:
    before = {answer.id: answer for answer in old.answers}
    after = {answer.id: answer for answer in new.answers}
    for name in [*before, *(name for name in after if name not in before)]:
        was, now = _verdict(before.get(name)), _verdict(after.get(name))
        if was != now:
            question = (after.get(name) or before[name]).question
            yield Difference("verdict", name, question, was, now, _moved(was, now))


def _verdict(answer: Answer | None) -> str:
    if answer is None:
        return "not asked"
    return f"{answer.verdict}, waived" if answer.waived is not None else answer.verdict


def _moved(was: str, now: str) -> Direction:
    first, second = (_RANK.get(word.removesuffix(", waived")) for word in (was, now))
    if first is None or second is None or first == second:
        return "different"
    if second > first:
        return "worse"
    return "better" if second <= _RANK["warn"] else "different"  # from broken to not known: no gain


def _settings(old: Report, new: Report) -> Iterator[Difference]:
    before = {setting.name: setting for setting in old.settings}
    for now in new.settings:
        was = before.get(now.name)
        if was is not None and (was.value, was.verdict) != (now.value, now.verdict):
            moved = _moved(was.verdict, now.verdict)
            yield Difference("setting", "settings", now.name, was.value, now.value, moved)


def _figures(old: Report, new: Report) -> Iterator[Difference]:
    before = {answer.id: answer for answer in old.answers}
    for answer in new.answers:
        if answer.id in before:
            yield from _evidence(before[answer.id], answer)
    curves = {curve.title: {point.x: point for point in curve.points} for curve in old.curves}
    for curve in new.curves:
        for point in curve.points:
            was = curves.get(curve.title, {}).get(point.x)
            if was is not None:
                what = f"p95 at {words.number(point.x)} {curve.x}"
                yield from _figure(
                    curve.title, Evidence(what, was.p95, "ms"), Evidence(what, point.p95, "ms")
                )
    if old.growth is not None and new.growth is not None:
        was_a_turn = Evidence("stored a turn", old.growth.bytes_a_turn, "bytes")
        now_a_turn = Evidence("stored a turn", new.growth.bytes_a_turn, "bytes")
        yield from _figure("growth", was_a_turn, now_a_turn)


def _evidence(before: Answer, after: Answer) -> Iterator[Difference]:
    facts_before = {(fact.what, fact.unit): fact for fact in before.evidence}
    for fact in after.evidence:
        if (fact.what, fact.unit) in facts_before:
            yield from _figure(after.id, facts_before[fact.what, fact.unit], fact)


def _figure(where: str, before: Evidence, after: Evidence) -> Iterator[Difference]:
    if _same(before, after):
        return
    yield Difference(
        "figure",
        where,
        after.what,
        sentences.measured(before),
        sentences.measured(after),
        _direction(before, after),
    )


def _same(was: Evidence, now: Evidence) -> bool:
    first, second = _number(was), _number(now)
    if first is None or second is None:
        return was.value == now.value
    if first == 0 or second == 0:  # from none to one lost turn is no noise
        return abs(first - second) <= _LEAST.get(now.unit, 0)
    apart = abs(second - first)
    return apart <= _NOISE * max(abs(first), abs(second)) or apart <= _LEAST.get(now.unit, 0)


def _number(fact: Evidence) -> float | None:
    if isinstance(fact.value, bool) or not isinstance(fact.value, int | float):
        return None
    return float(fact.value)


def _direction(was: Evidence, now: Evidence) -> Direction:
    first, second = _number(was), _number(now)
    if first is None or second is None:
        return "different"
    limit = now.limit.lower()
    if now.unit in _MORE_IS_BETTER or limit.startswith(("at least", "more than", "≥", ">")):
        return "better" if second > first else "worse"
    bounded = limit.startswith(("at most", "less than", "under", "below", "within", "≤", "<", "0"))
    if bounded or limit in ("none", "no") or now.unit in _LESS_IS_BETTER:
        return "better" if second < first else "worse"
    return "different"


def text(comparison: Comparison) -> str:
    """The comparison in lines, worst first."""
    since = f"Since the audit of {words.moment(comparison.before)}"
    lines = [f"{since}: note: {words.line(note)}" for note in comparison.notes]
    if not comparison.changes:
        return "\n".join([*lines, f"{since}: nothing changed beyond measurement noise.", ""])
    lines.append(f"{since}:")
    for change in comparison.changes:
        change_line = f"{change.where}: {change.what}: {change.before} → {change.after}"
        lines.append(f"  {change.direction.upper():<10}{words.line(change_line)}")
    return "\n".join([*lines, ""])
