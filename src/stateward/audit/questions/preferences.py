"""2: user preferences."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural, zero
from stateward.audit.record import Record
from stateward.audit.report import Evidence


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.preferences is not None
    written, read = record.preferences.written, record.preferences.read
    if not written:
        return Finding("unknown", "no preference was written")
    nothing = (None, None)
    wrong = [user for user in written if read.get(user, nothing)[0] != written[user][0]]
    changed = [user for user in written if read.get(user, nothing)[1] != written[user][1]]
    versioned = any(version is not None for _, version in written.values())
    facts = (
        zero("preferences changed by a restart", len(wrong), len(written), "users"),
        Evidence(
            "versions", "kept" if versioned and not changed else "none" if not versioned else ""
        ),
    )
    if wrong:
        user = wrong[0]
        example = f"{user}\n  written: {written[user]}\n  read:    {read.get(user)}"
        summary = (
            f"preferences of {plural(len(wrong), 'user')} of {len(written)} are not as written"
        )
        return Finding("fail", summary, facts, example)
    if changed:
        return Finding("fail", f"{plural(len(changed), 'version')} changed by a restart", facts)
    summary = f"the preferences of {plural(len(written), 'user')} were there in a new process"
    if not versioned:
        return Finding("warn", f"{summary}; they carry no version", facts)
    return Finding("pass", f"{summary}, with their versions", facts)


QUESTION = Question(
    "preferences",
    2,
    "Does it store user preferences persistently?",
    "What a user has said once must hold in every later conversation. It outlives the conversation "
    "in which it was said.",
    ("users",),
    ("preferences",),
    "Keep what is known about a user separately from conversations, which expire, with a version "
    "that increases with every change.",
    judge,
    ("preferences",),
    severity="critical",
    means="A user's preferences are forgotten or altered, and must be given again.",
)
