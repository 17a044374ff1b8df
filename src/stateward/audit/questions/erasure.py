"""30: who is erased is gone."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

BACKUP = "a backup made afterwards"
PROMISES = (
    Promise("gone at once", "what was erased is still there",
            "Remove all of the person before erase returns, and let no replica keep a copy."),
    Promise("gone for a new process", "what was erased is there in a new process",
            "Remove it in the store, not in the process."),
    Promise("others stay", "others are erased with a person",
            "Name what is removed by whole ids: no prefix, no pattern."),
    Promise("nothing of it is stored", "what was erased is still stored",
            "Delete the rows and keys instead of marking them; on SQLite with secure_delete and a "
            "truncated write-ahead log, and without copies in caches, indexes and logs.", "traces"),
    Promise("a new beginning", "what was erased comes back when its id is used again"),
    Promise(BACKUP, "what was erased is in a backup made afterwards",
            "Back up what is there, and leave out what only waits to be removed."),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    tried = {check.promise for check in record.erasure or ()}
    promises = [each for each in PROMISES if each.name != BACKUP or each.name in tried]
    holds = "who was erased was gone, and nobody else"
    if "traces" not in record.provides:
        holds += "; what is left in its files or keys nobody can tell (it has no `traces`)"
    return finding(record, record.erasure, promises, holds)


QUESTION = Question(
    "erasure",
    30,
    "Is a person who is erased really gone?",
    "People may demand that what is known of them is removed. What is only hidden, or still in a "
    "copy, comes back with the next restore, and with a fine.",
    ("threads", "erasure"),
    ("erasure",),
    "Remove what belongs to a person from the store itself, by whole ids, in one place that all "
    "replicas read.",
    judge,
    ("erasure", "backup"),
    severity="high",
    means="What a person had removed is shown again, or another's conversations vanish.",
    since=3,
    optional=True,
)
