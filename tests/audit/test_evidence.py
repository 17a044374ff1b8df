"""No evidence means unknown: every piece of a good record is taken away in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from audit.auditing import answer, judged
from audit.test_questions import good
from stateward.audit.questions import QUESTIONS
from stateward.audit.record import Record

# What a question draws on. "unknown": without it nothing can be said. "fail": it is what came
# back, so nothing of it is itself the finding.
EVIDENCE: dict[str, dict[str, str]] = {
    "sessions": {"sessions.written": "unknown", "sessions.read": "fail"},
    "preferences": {"preferences.written": "unknown", "preferences.read": "fail"},
    "workflows": {
        "workflows": "unknown",
        "workflows.*.steps": "unknown",
        "workflows.*.finished": "unknown",
        "workflows.*.under_way": "unknown",
        "workflows.*.afterwards": "fail",
        "workflows.*.completed": "fail",
        "workflow_checks": "unknown",
        "workflow_checks.*.promise": "unknown",
        "workflow_checks.*.tried": "unknown",
    },
    "sharing": {
        "sharing": "unknown",
        "sharing.*.what": "unknown",
        "sharing.*.writer,reader": "unknown",
        "sharing.*.seen": "fail",
    },
    "backup": {
        "drill.before": "unknown",
        "drill.written": "unknown",
        "drill.moment": "unknown",
        "drill.backup_seconds": "unknown",
        "drill.restore_seconds": "unknown",
        "drill.restored": "fail",
        "drill.users_equal": "fail",
    },
    "latency": {
        "levels": "unknown",
        "levels.*.conversations": "unknown",
        "levels.*.intended": "unknown",
        "levels.*.achieved": "unknown",
        "levels.*.lookups": "unknown",
        "levels.*.windows": "unknown",
        "levels.*.p50": "unknown",
        "levels.*.p95": "unknown",
        "levels.*.p99": "unknown",
        "levels.*.lag": "unknown",
    },
    "concurrency": {
        "levels": "unknown",
        "levels.*.conversations": "unknown",
        "levels.*.intended": "unknown",
        "levels.*.achieved": "unknown",
        "levels.*.lookups": "unknown",
        "levels.*.windows": "unknown",
        "levels.*.p50": "unknown",
        "levels.*.p95": "unknown",
        "levels.*.p99": "unknown",
        "levels.*.lag": "unknown",
        "lengths": "unknown",
        "lengths.*.messages": "unknown",
        "lengths.*.p50": "unknown",
        "doubling.after": "unknown",
        "doubling.lookups": "unknown",
        "doubling.cold_p50": "unknown",
        "doubling.warm_p50": "unknown",
        "doubling.lag": "unknown",
    },
    "outage": {
        "outages": "unknown",
        "outages.*.fired": "unknown",
        "outages.*.tried": "unknown",
        "outages.*.accepted": "unknown",
        "outages.*.found": "fail",
        "outages.*.recovery": "fail",
        "outages.*.tried.*.what": "unknown",
    },
    "monitoring": {
        "monitoring.lookups": "fail",
        "monitoring.percentiles": "fail",
        "monitoring.outage": "unknown",
        "monitoring.suppressed": "unknown",
        "monitoring.alarm": "fail",
        "monitoring.alarm_after": "unknown",
    },
    "races": {
        "turn_race.acknowledged": "unknown",
        "turn_race.order": "fail",
        "turn_race.parts": "unknown",
        "long_race": "unknown",
        "long_race.order": "fail",
        "task_race": "unknown",
        "task_race.tasks": "unknown",
        "task_race.runs": "unknown",
        "task_race.results": "unknown",
        "lock_race": "unknown",
        "lock_race.rounds": "unknown",
        "lock_race.taken_over": "unknown",
        "lock_race.refused": "unknown",
    },
    "updates": {
        "updates.acknowledged": "unknown",
        "updates.final": "fail",
        "updates.replicas": "unknown",
        "update_checks": "unknown",
        "update_checks.*.promise": "unknown",
        "update_checks.*.tried": "unknown",
    },
    "conflicts": {
        "conflicts.forced": "unknown",
        "conflicts.detected": "fail",
        "conflicts.both_versions": "warn",
        "conflicts.resolved": "fail",
        "version_checks": "unknown",
        "version_checks.*.promise": "unknown",
        "version_checks.*.tried": "unknown",
    },
    "consistency": {
        "steps": "unknown",
        "steps.*.process": "unknown",
        "steps.*.invoked,completed": "unknown",
        "steps.*.status": "unknown",
        "steps.*.what": "unknown",
        "steps.*.values": "unknown",
    },
    "growth": {
        "growing.turns": "unknown",
        "growing.bytes_before": "unknown",
        "growing.bytes_after": "unknown",
        "growing.long_turns": "unknown",
        "growing.bytes_long": "unknown",
    },
    "costs": {
        "costs.pool": "unknown",
        "costs.max_connections": "unknown",
        "costs.memory_a_replica": "unknown",
    },
    "settings": {
        "settings.values": "unknown",
        "settings.values.fsync": "unknown",
        "settings.values.synchronous_commit": "unknown",
        "settings.values.full_page_writes": "unknown",
    },
    "fidelity": {
        "fidelity": "unknown",
        "fidelity.*.promise": "unknown",
        "fidelity.*.tried": "unknown",
    },
    "windows": {"windows": "unknown", "windows.*.promise": "unknown", "windows.*.tried": "unknown"},
    "keys": {"keys": "unknown", "keys.*.promise": "unknown", "keys.*.tried": "unknown"},
    "isolation": {
        "isolation": "unknown",
        "isolation.*.promise": "unknown",
        "isolation.*.tried": "unknown",
    },
    "locks": {
        "lock_checks": "unknown",
        "lock_checks.*.promise": "unknown",
        "lock_checks.*.tried": "unknown",
    },
    "tasks": {
        "task_checks": "unknown",
        "task_checks.*.promise": "unknown",
        "task_checks.*.tried": "unknown",
    },
    "kills": {
        "kill_checks": "unknown",
        "kill_checks.*.promise": "unknown",
        "kill_checks.*.tried": "unknown",
    },
    "lasting": {"lasting": "unknown", "lasting.*.promise": "unknown", "lasting.*.tried": "unknown"},
    "retention": {
        "retention": "unknown",
        "retention.*.promise": "unknown",
        "retention.*.tried": "unknown",
    },
    **{
        field: {field: "unknown", f"{field}.*.promise": "unknown", f"{field}.*.tried": "unknown"}
        for field in ("effects", "orphans", "erasure", "context")
    },
    "slowdown": {
        "costs_by_size": "unknown",
        "costs_by_size.*.sizes": "unknown",
        "costs_by_size.*.took": "unknown",
    },
}

# What no verdict draws on, or whose empty value says that all went well.
OTHERWISE: dict[str, str] = {
    "workflows.*.id": "a name",
    "sharing.*.detail": "words for the counter-example",
    "drill.by": "words",
    "levels.*.seconds": "the rates follow from it",
    "levels.*.failed": "nought is good",
    "levels.*.moments": "for the chart",
    "levels.*.errors": "words",
    "lengths.*.p95": "for the chart",
    "lengths.*.p99": "for the chart",
    "doubling.before": "it is held against `after`",
    "doubling.cold_p95": "shown beside the median",
    "doubling.warm_p95": "shown beside the median",
    "outages.*.fault": "words",
    "outages.*.start": "for the chart",
    "outages.*.end": "for the chart",
    "outages.*.hung": "nought is good",
    "outages.*.kills": "nought where the server is not the audit's to kill",
    "outages.*.tried.*.at": "for the chart",
    "outages.*.tried.*.seconds": "at once is good",
    "outages.*.tried.*.outcome": "it is neither an error nor an incomplete read",
    "outages.*.tried.*.error": "words",
    "outages.*.tried.*.typed": "counts for errors only",
    "outages.*.tried.*.complete": "counts for reads that succeed only",
    "monitoring.source": "words",
    "turn_race.unreadable": "empty is good",
    "turn_race.failed": "empty is good",
    "task_race.errors": "nought is good",
    "lock_race.accepted": "nought is good",
    "lock_race.both_held": "nought is good",
    "updates.unknown": "nought is good",
    "conflicts.overwritten": "nought is good",
    "conflicts.example": "words",
    "steps.*.key": "a name",
    "growing.usual": "words",
    "growing.long": "words",
    "growing.capacity": "the user's own figure, state_fits_gb, counts then",
    "costs.replicas": "shown",
    "costs.conversations": "shown",
    "costs.written_a_turn": "not every system tells it; shown as not measured",
    "settings.engine": "words",
    "settings.version": "words",
    "settings.durability": "words",
    "settings.blocked": "the values say so too",
    "outages.*.tried.*.missing": "nought is good",
    "outages.*.unreadable": "empty is good",
    "outages.*.elsewhere": "nought where no other replica could write meanwhile",
    "outages.*.changed": "empty where the target has no users",
    "outages.*.kept_changes": "held against `changed`",
    "monitoring.made": "nought: what the target counts is then not held against it",
    "monitoring.counted": "not every target tells it",
    "monitoring.median": "not every record has it",
    "monitoring.early": "empty is good",
    "monitoring.slow": "not every record has it",
    "monitoring.idle": "not every record has it",
    "monitoring.idle_median": "not every record has it",
    "monitoring.refused": "counts where nothing is suppressed only",
    "outages.*.in_turn": "empty where nothing is kept for later",
    "growing.updates": "nought where the target has no users",
    "growing.document": "held against what an update takes",
    "growing.bytes_updated": "not every record has it",
    "growing.more_updates": "measured only if it had grown",
    "growing.bytes_more": "measured only if it had grown",
    "long_race.acknowledged": "the first race has told whether there were enough",
    "long_race.parts": "the same as in the first race",
    "long_race.unreadable": "empty is good",
    "long_race.failed": "empty is good",
    "costs_by_size.*.call": "words",
    "costs_by_size.*.of": "words",
}
CHECKED = (
    "fidelity", "windows", "keys", "isolation", "lock_checks", "task_checks", "workflow_checks",
    "version_checks", "update_checks", "kill_checks", "lasting", "retention", "effects", "orphans",
    "erasure", "context",
)  # fmt: skip
OTHERWISE |= {
    f"{field}.*.{piece}": "empty is good"
    for field in CHECKED
    for piece in ("differing", "examples", "refused")
}
ABOUT = {  # of the audit itself
    "format", "target", "title", "provides", "profile", "seed", "command", "started", "seconds",
    "interrupted", "aborted", "left", "declared", "expected", "problems", "skipped", "took",
    "environment", "notes",
}  # fmt: skip
CASES = [(id, path, said) for id, pieces in EVIDENCE.items() for path, said in pieces.items()]


def without(tree: Any, path: str, put: Callable[[Any], Any]) -> None:
    """Replace one piece; `*` is each of a list, `a,b` are both."""
    name, _, rest = path.partition(".")
    if name == "*":
        for each in tree:
            without(each, rest, put)
    elif rest:
        without(tree[name], rest, put)
    else:
        for part in name.split(","):
            tree[part] = put(tree[part])


def stripped(path: str) -> list[Record]:
    """Good records without that piece: None where it may be that, and else empty."""
    records = []
    for put in (lambda _: None, lambda value: type(value)()):
        tree = msgspec.to_builtins(good())
        without(tree, path, put)
        try:
            records.append(msgspec.convert(tree, Record))
        except msgspec.ValidationError:
            continue  # this field cannot be so
    last = path.rpartition(".")[2]
    return records if path == last and isinstance(getattr(good(), last), list) else records[:1]


@pytest.mark.parametrize(("id", "path", "verdict"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_without_a_piece_of_its_evidence_a_question_is_not_passed(
    id: str, path: str, verdict: str
) -> None:
    records = stripped(path)
    assert records
    for record in records:
        found = judged(record)
        assert answer(found, id).verdict == verdict, answer(found, id).summary
        assert found.verdict != "pass"


@pytest.mark.parametrize("path", OTHERWISE)
def test_what_is_only_shown_can_be_missing(path: str) -> None:
    for record in stripped(path):
        assert len(judged(record).answers) == len(QUESTIONS)


def pieces(tree: Any, path: str = "") -> Iterator[str]:
    """Every field that a record has, by its path."""
    if isinstance(tree, dict) and path.partition(".")[2] not in ("written", "read"):
        for name, value in tree.items():
            yield from pieces(value, f"{path}.{name}" if path else name)
    elif isinstance(tree, list) and tree and isinstance(tree[0], dict):
        yield from pieces(tree[0], f"{path}.*")
    else:
        yield path


def test_every_field_of_a_record_is_evidence_or_said_to_be_none() -> None:
    known = {
        f"{path.rpartition('.')[0]}.{part}".removeprefix(".")
        for paths in (*EVIDENCE.values(), OTHERWISE)
        for path in paths
        for part in path.rpartition(".")[2].split(",")
    }
    opaque = ("drill.restored", "drill.written", "monitoring.percentiles", "task_race.runs",
              "task_race.results", "settings.values")  # fmt: skip
    for path in pieces(msgspec.to_builtins(good())):
        whole = next((each for each in opaque if path.startswith(each)), path)
        if whole.partition(".")[0] not in ABOUT:
            assert whole in known, f"{whole} is in neither table"


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.id)
def test_every_question_is_in_the_table(question: Any) -> None:
    assert EVIDENCE[question.id]
    assert {path.partition(".")[0] for path in EVIDENCE[question.id]} >= set(question.evidence)


def lagging(record: Record) -> None:
    assert record.levels is not None
    record.levels = [msgspec.structs.replace(each, lag=5.1) for each in record.levels]


def behind(record: Record) -> None:
    assert record.levels is not None
    record.levels = [msgspec.structs.replace(each, achieved=56.9) for each in record.levels]


@pytest.mark.parametrize("id", ["latency", "concurrency"])
@pytest.mark.parametrize("disturb", [lagging, behind])
@pytest.mark.parametrize("p95", [1.0, 99.0])
def test_a_generator_that_lags_proves_no_latency_however_good(
    id: str, disturb: Callable[[Record], None], p95: float
) -> None:
    record = good()
    assert record.levels is not None
    record.levels = [msgspec.structs.replace(each, p95=p95) for each in record.levels]
    assert answer(judged(record), id).verdict == "pass"
    disturb(record)
    assert answer(judged(record), id).verdict == "unknown"


@pytest.mark.parametrize("id", ["latency", "concurrency"])
def test_a_generator_that_lags_blames_no_store(id: str) -> None:
    record = good()
    assert record.levels is not None
    bad = {"p95": 500.0, "windows": [500.0] * 3}
    record.levels = [msgspec.structs.replace(each, **bad) for each in record.levels]
    assert answer(judged(record), id).verdict == "fail"
    lagging(record)
    assert answer(judged(record), id).verdict == "unknown"
