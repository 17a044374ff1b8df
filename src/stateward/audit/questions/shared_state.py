"""4: state shared across replicas."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural, zero
from stateward.audit.record import Look, Record

FEWEST = 5  # reads


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.sharing is not None
    looks = [look for look in record.sharing if look.writer != look.reader]
    unseen = [look for look in looks if not look.seen]
    turns = [look for look in looks if look.what == "turn"]
    others = [look for look in looks if look.what == "preference"]
    facts = (
        zero("turns another replica did not see", _missed(turns), len(turns), "reads"),
        zero("preferences another replica did not see", _missed(others), len(others), "reads"),
    )
    if not turns or ("users" in record.provides and not others):
        what = "preference" if turns else "turn"
        return Finding("unknown", f"no replica read a {what} that another wrote", facts)
    if not unseen and len(looks) < FEWEST:
        return Finding("unknown", f"only {plural(len(looks), 'read')}: too few", facts)
    if not unseen:
        summary = (
            f"every write was immediately visible to every other replica ({len(looks):,} reads)"
        )
        return Finding("pass", summary, facts)
    first = unseen[0]
    example = (
        f"replica {first.writer} wrote a {first.what}, which was acknowledged; "
        f"replica {first.reader} then read: {first.detail}"
    )
    summary = f"{plural(len(unseen), 'read')} of {len(looks):,} did not see an acknowledged write"
    return Finding("fail", summary, facts, example)


def _missed(looks: list[Look]) -> int:
    return sum(not look.seen for look in looks)


QUESTION = Question(
    "sharing",
    4,
    "Is state shared across agent replicas?",
    "A load balancer sends the next message to any replica. Without shared state, each "
    "one starts from nothing.",
    ("threads",),
    ("sharing",),
    "Let all replicas use one store, and revalidate caches at every read.",
    judge,
    ("sharing",),
    severity="critical",
    means="The next message may reach a replica that knows nothing of the last one.",
)
