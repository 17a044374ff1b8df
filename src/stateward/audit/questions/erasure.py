"""30: who is erased is gone."""

from __future__ import annotations

from msgspec.structs import replace

from stateward.audit.differences import ALTERED, MISSING, SURPLUS
from stateward.audit.questions.promise import ENDED, Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

BACKUP = "a later backup"
FILES, KEPT = "no trace in the server's files", "spilled turns"
TRACES = (
    "Give the memory a method `traces(text)` that names the files, tables or keys which still "
    "contain a text, or audit it on a server that the audit starts (--with-server), whose files "
    "are searched. For a Stateward service, pass the store behind it as --url."
)
# Not every target has, or does, what the promises need that are left to chance.
PROMISES = (
    Promise("gone immediately", "erased data can still be read",
            "Remove all data of the person before erase returns, and let no replica keep a copy."),
    Promise("gone in a new process", "erased data can still be read in a new process",
            "Remove it in the store, not in the process."),
    Promise("other people's data stays", "other people's data is erased too",
            "Select what is removed by full ids, not by a prefix or pattern.", claims=(MISSING,)),
    Promise("no trace in the store", "erased data is still stored",
            "Delete the rows and keys instead of marking them; on SQLite with secure_delete and a "
            "truncated write-ahead log, and without copies in caches, indexes and logs.", "traces"),
    Promise(FILES, "erased data is still in the server's files, even after it rewrote them",
            "Delete the rows and keys instead of marking them.", chance=True),
    Promise(KEPT, "a spilled turn comes back after its person was erased",
            "Remember erasures for a while, and refuse turns from before them.", chance=True),
    Promise("id used again", "erased data comes back when its id is used again",
            claims=(SURPLUS, ALTERED)),
    Promise(BACKUP, "erased data is in a backup made later",
            "Leave what is marked for removal out of backups.", chance=True),
    ENDED,
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    tried = {check.promise for check in record.erasure or ()}
    answer = finding(
        record, record.erasure, PROMISES, "erased people were gone, and no one else was affected"
    )
    if answer.verdict == "pass" and "traces" not in record.provides and FILES not in tried:
        summary = "no read returned erased data; whether it is still stored is unknown"
        return replace(answer, verdict="unknown", summary=summary, remedy=TRACES)
    return answer


QUESTION = Question(
    "erasure",
    30,
    "Is a person who is erased really gone?",
    "People may demand that their data is deleted. Data that is only hidden, or still in a copy, "
    "comes back with the next restore, and may cost a fine.",
    ("threads", "erasure"),
    ("erasure",),
    "Delete what belongs to a person from the store itself, by full ids, in one place that all "
    "replicas read.",
    judge,
    ("erasure", "backup"),
    severity="high",
    means="Deleted data is shown again, or someone else's conversations disappear.",
    optional=True,
)
