"""1: conversation history from previous sessions."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural, zero
from stateward.audit.record import Record


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.sessions is not None
    written, read = record.sessions.written, record.sessions.read
    total = sum(map(len, written.values()))
    if total < limits["fewest_turns"]:
        summary = plural(total, "message was", "messages were")
        return Finding("unknown", f"only {summary} written")
    missing = sum(1 for t, w in written.items() for c in set(w) if c not in read.get(t, []))
    wrong = [t for t, w in written.items() if read.get(t, []) != w]
    facts = (
        zero("turns lost by a restart", missing, total // 2),
        zero("conversations not as written", len(wrong), len(written), "conversations"),
    )
    if not wrong:
        summary = f"all {total:,} messages of {plural(len(written), 'conversation')} were there"
        summary += " in a new process"
        return Finding("pass", summary, facts)
    first = min(wrong, key=lambda thread: len(written[thread]))
    example = f"{first}\n  written: {written[first][:8]}\n  read:    {read.get(first, [])[:8]}"
    summary = (
        f"{len(wrong)} of {plural(len(written), 'conversation')} not as written after a restart"
    )
    return Finding("fail", f"{summary}; {plural(missing, 'turn')} lost", facts, example)


QUESTION = Question(
    "sessions",
    1,
    "Can your agent access conversation history from previous sessions?",
    "An agent that forgets when its process ends asks its users everything again. Processes end "
    "with every deployment, crash and scale-down.",
    ("threads",),
    ("sessions",),
    "Keep conversations outside the process, and acknowledge a turn only when it is stored.",
    judge,
    ("sessions",),
    severity="critical",
    means="The agent has forgotten, or misremembers, earlier messages.",
)
