"""5: backup and recovery."""

from __future__ import annotations

from stateward.audit.questions.question import Finding, Question, Thresholds, plural, zero
from stateward.audit.record import Drill, Record
from stateward.audit.report import Evidence


def judge(record: Record, limits: Thresholds) -> Finding:
    drill = record.drill
    assert drill is not None
    if drill.before < limits["fewest_turns"]:
        summary = plural(drill.before, "turn")
        return Finding("unknown", f"there were only {summary} to back up")
    if not any(drill.written.values()):
        return Finding("unknown", "what was written is unknown, so nothing can be compared")
    if not drill.moment or not drill.backup_seconds or not drill.restore_seconds:
        return Finding(
            "unknown", "the duration or the point in time of the backup was not recorded"
        )
    came_back = {number for numbers in drill.restored.values() for number in numbers}
    missing = [number for number in range(drill.before) if number not in came_back]
    disordered = [t for t, n in drill.restored.items() if n != drill.written.get(t, [])[: len(n)]]
    whole = came_back == set(range(len(came_back)))
    facts = (
        zero("turns acknowledged before the backup that are missing", len(missing), drill.before),
        zero("conversations that differ", len(disordered), len(drill.restored), "conversations"),
        Evidence("users' state", "equal" if drill.users_equal else "different"),
        Evidence(
            "one point in time", whole if drill.moment == "store" else "each entity separately"
        ),
        Evidence("RPO", plural(len(missing), "acknowledged turn"), limit="0"),
        Evidence("RTO", round(drill.restore_seconds, 2), "s"),
        Evidence("backup took", round(drill.backup_seconds, 2), "s"),
    )
    if missing or disordered or not drill.users_equal or (drill.moment == "store" and not whole):
        problems = []
        if missing:
            problems.append(f"{plural(len(missing), 'acknowledged turn')} did not come back")
        if disordered:
            problems.append(f"{plural(len(disordered), 'conversation')} came back differently")
        if not drill.users_equal:
            problems.append("users' state did not come back as it was")
        if drill.moment == "store" and not whole:
            problems.append("what came back is not of one moment: turns before others are missing")
        return Finding("fail", "; ".join(problems), facts, _example(drill, missing, disordered))
    summary = (
        f"all {drill.before} turns acknowledged before the backup came back in "
        f"{drill.restore_seconds:.1f} s ({drill.by}, taken under load)"
    )
    return Finding("pass", summary, facts)


def _example(drill: Drill, missing: list[int], disordered: list[str]) -> str:
    if missing:
        return f"turns {missing[:10]} were acknowledged before the backup and are not restored"
    if disordered:
        thread = disordered[0]
        written, restored = drill.written.get(thread, [])[:10], drill.restored[thread][:10]
        return f"{thread}: written {written}, restored {restored}"
    if not drill.users_equal:
        return "users' state that was stored before the backup is another one in the restored copy"
    return "turns written after the backup was taken are there, while earlier ones are not"


QUESTION = Question(
    "backup",
    5,
    "Do you have backup and recovery for state data?",
    "Disks fail, and people delete the wrong thing. A backup that was never restored may not work.",
    ("threads",),
    ("drill",),
    "Back up on a schedule, restore into an empty place as a drill, and compare. For a provider's "
    "snapshots, pass --backup-command and --restore-command, so that the drill uses them; a memory "
    "of your own can have backup() and restore().",
    judge,
    ("backup",),
    beside="backup",
    severity="high",
    means="After the next broken disk or wrong command, conversations are lost permanently.",
)
