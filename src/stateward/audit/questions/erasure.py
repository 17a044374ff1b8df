"""30: who is erased is gone."""

from __future__ import annotations

from msgspec.structs import replace

from stateward.audit.questions.promise import Promise, finding
from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record

BACKUP = "a backup made afterwards"
FILES, KEPT = "nothing of it in the server's files", "turns kept for later"
SOMETIMES = (BACKUP, FILES, KEPT)  # not every target has, or does, what these need
TRACES = (
    "Give the memory a method `traces(text)` that names the files, tables or keys which still have "
    "a text, or audit it on a server of the audit's own (--with-server), whose files are searched. "
    "Of a Stateward service, name the store behind it: --url."
)
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
    Promise(FILES, "what was erased is still in the server's files, also when it has written them "
            "anew", "Delete the rows and keys instead of marking them."),
    Promise(KEPT, "a turn that a replica kept for later comes back after its person was erased",
            "Remember for a while what was erased, and refuse what was said before that."),
    Promise("a new beginning", "what was erased comes back when its id is used again"),
    Promise(BACKUP, "what was erased is in a backup made afterwards",
            "Back up what is there, and leave out what only waits to be removed."),
)  # fmt: skip


def judge(record: Record, limits: Thresholds) -> Finding:
    tried = {check.promise for check in record.erasure or ()}
    promises = [each for each in PROMISES if each.name not in SOMETIMES or each.name in tried]
    found = finding(record, record.erasure, promises, "who was erased was gone, and nobody else")
    if found.verdict == "pass" and "traces" not in record.provides and FILES not in tried:
        said = "who was erased was not given to anybody; what is still stored nobody can tell"
        return replace(found, verdict="unknown", summary=said, remedy=TRACES)
    return found


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
