"""Reports as audits make them: one that passes, one that fails, one cut short, one with gaps."""

from __future__ import annotations

import math
from typing import Any

from stateward.audit.report import (
    FORMAT,
    SEVERITIES,
    Answer,
    Evidence,
    Growth,
    Report,
    Setting,
    Span,
    Timeline,
    Verdict,
    Waiver,
)
from stateward.pages.series import Curve, Moment, Point

QUESTIONS = (
    (
        "sessions",
        "Do agents keep the conversation history of previous sessions?",
        "A user who has to explain everything again stops using the agent. History that lives in "
        "one process is gone with the next deployment.",
    ),
    (
        "preferences",
        "Are user preferences persistent?",
        "Preferences are promises to a user. They must outlive the replica that heard them.",
    ),
    (
        "workflows",
        "Is the progress of multi-step workflows kept?",
        "A crash between two steps must neither repeat a payment nor skip a confirmation.",
    ),
    (
        "sharing",
        "Is state shared across replicas?",
        "A load balancer sends the next request anywhere. What one replica wrote, all must see.",
    ),
    (
        "recovery",
        "Is there backup, and does recovery work?",
        "A backup that was never restored is a hope. What counts is how much is lost and how long "
        "it takes.",
    ),
    (
        "lookups",
        "Are lookups below 100 ms under load?",
        "Every turn begins with a lookup. What it takes is added to what the user already waits "
        "for the model.",
    ),
    (
        "concurrency",
        "How does latency follow ten and more conversations at once?",
        "A demonstration has one user. Production has all of them at once.",
    ),
    (
        "outages",
        "What happens when the storage is unavailable?",
        "Storage fails. Agents should say so fast, keep the turn, and lose nothing that was "
        "accepted.",
    ),
    (
        "monitoring",
        "Is the performance of lookups monitored?",
        "Without percentiles and an alarm, users are the monitoring.",
    ),
    (
        "races",
        "Are race conditions between replicas prevented?",
        "Two replicas that write one conversation at the same time must not lose, split or "
        "reorder a turn.",
    ),
    (
        "updates",
        "Can several agents modify one user's state at once?",
        "Read, change, write: done by two at once, the second overwrites what the first did.",
    ),
    ("conflicts", "Is there conflict resolution?", "A conflict that nobody notices is lost data."),
    (
        "consistency",
        "Is state eventually or immediately consistent?",
        "Agents that read old state act on it. It must be known which kind a store is.",
    ),
)

ENVIRONMENT: dict[str, Any] = {
    "fingerprint": "linux-x86_64-2c-5f1c9a",
    "host": "build-7.internal.example",
    "machine": {"system": "Linux 6.8", "processor": "x86_64", "cores": 2, "memory": "7.6 GB"},
    "versions": {"python": "3.11.9", "stateward": "0.1.0", "apsw": "3.54.1.0"},
    "replicas": 4,
    "rate": 200.0,
}
THRESHOLDS = {
    "lookup_p95_ms": 100.0,
    "lookup_p99_ms": 250.0,
    "errors_percent": 0.1,
    "recovery_seconds": 30.0,
    "days_to_full": 30.0,
    "history_growth": 10.0,
}


def _answer(at: int, verdict: Verdict, summary: str, **more: Any) -> Answer:
    name, question, why = QUESTIONS[at - 1]
    target = more.pop("target", "sqlite:///agents.db")
    return Answer(
        id=name,
        number=at,
        question=question,
        why=why,
        verdict=verdict,
        summary=summary,
        reproduce=f"stateward audit {target} --only {name} --seed 7",
        seconds=3.2,
        severity={"fail": SEVERITIES[at % 3], "warn": "low"}.get(verdict),
        means="Users must say everything again." if verdict == "fail" else "",
        **more,
    )


def _wave(at: int, low: float, high: float) -> float:
    """A figure that wanders, the same in every run."""
    return low + (high - low) * (0.5 + 0.35 * math.sin(at * 1.7) + 0.15 * math.sin(at * 0.6))


def steady() -> Timeline:
    moments = []
    for second in range(60):
        cut, slow = 18 <= second < 23, 38 <= second < 46
        p50 = _wave(second, 0.5, 0.9) + (40 if slow else 0)
        p95 = _wave(second + 3, 1.4, 2.6) + (55 if slow else 0) + (4 if 23 <= second < 25 else 0)
        p99 = _wave(second + 5, 3.0, 7.0) + (70 if slow else 0) + (90 if 23 <= second < 25 else 0)
        failed = 200 if cut else 0
        moments.append(
            Moment(float(second), p50, p95, p99, 200.0, 0.0 if cut else 200.0 - second % 3, failed)
        )
    faults = (Span(18, 23, "the link is cut"), Span(38, 46, "every answer is delayed by 40 ms"))
    return Timeline("Lookups at 200 a second, with what disturbed them", tuple(moments), faults)


def stalling() -> Timeline:
    moments = []
    for second in range(45):
        frozen = 15 <= second < 21
        backlog = max(0.0, 21 - second) * 1000 if frozen else 0.0
        p50 = _wave(second, 3, 6) + backlog * 0.8
        p95 = _wave(second, 60, 190) + backlog
        p99 = _wave(second, 220, 420) + backlog * 1.05
        achieved = 12.0 if frozen else 188.0 - second % 9
        moments.append(Moment(float(second), p50, p95, p99, 200.0, achieved, 14 if frozen else 0))
    faults = (Span(15, 21, "the server is frozen (SIGSTOP)"),)
    return Timeline("Lookups at 200 a second, with what disturbed them", tuple(moments), faults)


def _curve(title: str, x: str, at: tuple[int, ...], slope: float) -> Curve:
    points = tuple(
        Point(float(n), 0.6 + n**slope * 0.4, 1.8 + n**slope * 1.1, 3.0 + n**slope * 2.4)
        for n in at
    )
    return Curve(title, x, points)


def curves(slope: float) -> tuple[Curve, ...]:
    return (
        _curve("Conversations at once", "conversations", (1, 10, 100, 400), slope),
        _curve("Length of the history", "turns in the conversation", (10, 100, 1000, 10000), slope),
    )


def passing() -> Report:
    power = "a rate above 1 in 4,000 would have been detected"
    answers = (
        _answer(
            1,
            "pass",
            "All 400 turns were there in a new process, in order.",
            evidence=(
                Evidence(
                    "turns missing",
                    0,
                    "of 400",
                    "none",
                    "a rate above 1 in 133 would have been detected",
                ),
                Evidence("turns out of order", 0, "", "none"),
            ),
        ),
        _answer(
            2,
            "pass",
            "All 50 preferences survived a restart of the replica, with their versions.",
            evidence=(Evidence("preferences changed or gone", 0, "of 50", "none"),),
        ),
        _answer(
            3,
            "pass",
            "Twenty workflows were killed between two steps; each was resumed by another replica.",
            evidence=(
                Evidence("finished steps that ran again", 0, "", "none"),
                Evidence("steps skipped", 0, "", "none"),
                Evidence("until another replica went on", 1.31, "s", "at most 30 s"),
            ),
        ),
        _answer(
            4,
            "pass",
            "Every write was seen by all four replicas at once.",
            evidence=(
                Evidence("reads that missed a finished write", 0, "of 12,000", "none", power),
            ),
        ),
        _answer(
            5,
            "pass",
            "A backup made under load was restored and is equal to one point in time.",
            evidence=(
                Evidence("acknowledged writes lost (RPO)", 0, "", "none"),
                Evidence("time to restore (RTO)", 0.84, "s"),
            ),
        ),
        _answer(
            6,
            "pass",
            "95 % of lookups took at most 2.6 ms at 200 a second.",
            evidence=(
                Evidence("p50", 0.71, "ms"),
                Evidence("p95", 2.58, "ms", "at most 100 ms"),
                Evidence("p99", 6.9, "ms", "at most 250 ms"),
                Evidence("achieved of the intended rate", 99.4, "%", "at least 95 %"),
            ),
        ),
        _answer(
            7,
            "pass",
            "p95 stays at 9.4 ms with 100 conversations at once, and at 14 ms with 400.",
            evidence=(
                Evidence("p95 at 10 conversations", 4.1, "ms", "at most 100 ms"),
                Evidence("p95 at 100 conversations", 9.4, "ms", "at most 100 ms"),
            ),
        ),
        _answer(
            8,
            "pass",
            "Reads failed fast, every accepted turn was kept, and recovery took 1.2 s.",
            evidence=(
                Evidence("longest wait of a read during the outage", 0.51, "s", "at most 0.6 s"),
                Evidence("accepted turns lost", 0, "of 3,100", "none", power),
                Evidence("until lookups were well again", 1.2, "s", "at most 5 s"),
            ),
        ),
        _answer(
            9,
            "pass",
            "The percentiles are exported and the alarm fired 12 s into the outage.",
            evidence=(Evidence("until the alarm fired", 12.0, "s", "at most 60 s"),),
        ),
        _answer(
            10,
            "pass",
            (
                "Four replicas raced on one conversation: no turn was lost, "
                "split, doubled or reordered."
            ),
            evidence=(
                Evidence("turns lost, split, doubled or reordered", 0, "of 12,000", "none", power),
            ),
        ),
        _answer(
            11,
            "pass",
            "4 × 500 updates of one user: all 2,000 acknowledged ones are in the final state.",
            evidence=(
                Evidence(
                    "updates lost",
                    0,
                    "of 2,000",
                    "none",
                    "a rate above 1 in 667 would have been detected",
                ),
            ),
        ),
        _answer(
            12,
            "pass",
            "All 200 forced conflicts were detected and reported with both versions.",
            evidence=(Evidence("conflicts that nobody was told of", 0, "of 200", "none"),),
        ),
        _answer(
            13,
            "pass",
            "Immediately consistent: the history of 8,000 operations is strictly serializable.",
            evidence=(Evidence("level found", "strictly serializable", "", "as claimed"),),
        ),
        Answer(
            "growth",
            None,
            "When is the storage full?",
            "State grows with every turn. It is better to know the day than to meet it.",
            "pass",
            "At 50,000 turns a day the disk is full in 214 days.",
            (Evidence("days to full", 214.0, "days", "at least 90 days"),),
        ),
        Answer(
            "settings",
            None,
            "Do the settings of the store keep what it accepts?",
            "A store is as durable as its settings.",
            "pass",
            "All three settings keep accepted writes.",
        ),
    )
    return Report(
        format=FORMAT,
        target="sqlite:///agents.db",
        title="SQLite (embedded)",
        verdict="pass",
        sentence="All thirteen questions are answered well, with evidence for each.",
        profile="quick",
        seed=7,
        command="stateward audit sqlite:///agents.db --profile quick --seed 7",
        started="2026-11-15T12:00:00.123456Z",
        seconds=71.4,
        interrupted=False,
        answers=answers,
        timelines=(steady(),),
        curves=curves(0.42),
        growth=Growth(1480.0, 50_000.0, 20e9, 4.2e9, 214.0),
        settings=(
            Setting(
                "journal_mode", "wal", "pass", "Readers and the writer do not wait for each other."
            ),
            Setting("synchronous", "FULL", "pass", "An accepted write is on the disk."),
            Setting("file system", "ext4", "pass", "Local, so locks hold.", "declared"),
        ),
        environment=ENVIRONMENT,
        thresholds=THRESHOLDS,
    )


COUNTER_EXAMPLE = """\
replica 1  reads   thread t-3  → [a1, a2]
replica 2  reads   thread t-3  → [a1, a2]
replica 1  writes  thread t-3  ← [a1, a2, b1]      acknowledged
replica 2  writes  thread t-3  ← [a1, a2, c1]      acknowledged
reader     reads   thread t-3  → [a1, a2, c1]      b1 is lost"""


def failing() -> Report:
    target = "redis://cache-3.internal.example:6379/0"
    base = {answer.id: answer for answer in passing().answers}

    def fail(at: int, summary: str, verdict: Verdict = "fail", **more: Any) -> Answer:
        return _answer(at, verdict, summary, target="naive:redis-document", **more)

    answers = (
        base["sessions"],
        base["preferences"],
        fail(
            3,
            "After kill -9 another replica ran 11 finished steps again.",
            evidence=(
                Evidence("finished steps that ran again", 11, "of 60", "none"),
                Evidence(
                    "steps skipped", 0, "", "none", "a rate above 1 in 20 would have been detected"
                ),
            ),
            counter_example=(
                "workflow w-4: charge ran on replica 1, kill -9, charge ran on replica 2"
            ),
            remedy="Record a step in the same write as its result. Stateward's workflows do.",
        ),
        base["sharing"],
        fail(
            5,
            "No way to back up this store is known, so none was drilled.",
            "unknown",
            remedy=(
                "Give --backup-command and --restore-command, or use a store that can be backed up."
            ),
        ),
        fail(
            6,
            (
                "95 % of lookups took up to 187 ms at 200 a second: the "
                "whole conversation travels each time."
            ),
            evidence=(
                Evidence("p50", 5.4, "ms"),
                Evidence("p95", 187.0, "ms", "at most 100 ms"),
                Evidence("p99", 412.0, "ms", "at most 250 ms"),
                Evidence("windows that failed", 3, "of 3", "at most 1"),
            ),
            remedy=(
                "Read a window of the conversation instead of all of it, and "
                "append instead of rewriting."
            ),
        ),
        fail(
            7,
            "p95 grows with the history: 2.9 ms at 10 turns, 642 ms at 10,000.",
            evidence=(
                Evidence("growth from 10 to 10,000 turns", 221.0, "times", "at most 10 times"),
            ),
            remedy="Keep one entry a turn instead of one document a conversation.",
        ),
        fail(
            8,
            "Calls hung for 6 s while the server was frozen, and 31 accepted turns were lost.",
            evidence=(
                Evidence("longest wait of a read during the outage", 6.02, "s", "at most 0.6 s"),
                Evidence("accepted turns lost", 31, "of 3,100", "none"),
            ),
            remedy="Set a deadline on every call, and keep turns locally while the store is away.",
        ),
        _answer(
            9,
            "absent",
            "The target exports no metrics.",
            target="naive:redis-document",
            remedy="Export the percentiles of lookups and alert on them.",
        ),
        fail(
            10,
            "187 of 12,000 acknowledged turns were lost when four replicas wrote one conversation.",
            evidence=(
                Evidence("turns lost", 187, "of 12,000", "none"),
                Evidence(
                    "turns doubled",
                    0,
                    "of 12,000",
                    "none",
                    "a rate above 1 in 4,000 would have been detected",
                ),
                Evidence("first loss after", 0.04, "s"),
            ),
            counter_example=COUNTER_EXAMPLE,
            remedy=(
                "Append on the server, in one step, instead of reading the "
                "document and writing it back. "
                "`thread.append` of Stateward does that on every engine."
            ),
        ),
        fail(
            11,
            "412 of 2,000 acknowledged updates of one user are not in the final state.",
            evidence=(Evidence("updates lost", 412, "of 2,000", "none"),),
            remedy="Check the version when writing, and try again on a conflict.",
        ),
        fail(
            12,
            "200 of 200 forced conflicts went unnoticed: the last writer wins.",
            evidence=(Evidence("conflicts that nobody was told of", 200, "of 200", "none"),),
            remedy="Write with the version that was read: `expect=` in Stateward.",
        ),
        fail(
            13,
            "Weaker than claimed: lost updates were found in a history of 8,000 operations.",
            evidence=(
                Evidence("level found", "no level: lost updates", "", "strictly serializable"),
            ),
            counter_example=COUNTER_EXAMPLE,
            remedy="As for question 10.",
        ),
        Answer(
            "growth",
            None,
            "When is the storage full?",
            "State grows with every turn.",
            "fail",
            "At 50,000 turns a day the memory is full in 19 days.",
            (Evidence("days to full", 19.0, "days", "at least 30 days"),),
            remedy="Move history that is not in use out of memory, or set a retention.",
        ),
        Answer(
            "settings",
            None,
            "Do the settings of the store keep what it accepts?",
            "A store is as durable as its settings.",
            "fail",
            "Nothing is written to disk, and state is evicted when memory is short.",
            remedy=(
                "Set appendonly yes, appendfsync everysec or always, and "
                "maxmemory-policy noeviction."
            ),
        ),
    )
    report = passing()
    return Report(
        format=FORMAT,
        target=target,
        title="A document a conversation in Redis (naive)",
        verdict="fail",
        sentence=(
            "Not ready for production: turns are lost when two replicas "
            "write at once, and nothing survives a restart of the server."
        ),
        profile="full",
        seed=7,
        command=(
            "stateward audit naive:redis-document --url "
            "redis://cache-3.internal.example:6379/0 --seed 7"
        ),
        started="2026-11-15T12:10:00Z",
        seconds=312.0,
        interrupted=False,
        answers=answers,
        timelines=(stalling(),),
        curves=curves(0.7),
        growth=Growth(5200.0, 50_000.0, 5e9, 0.1e9, 19.0),
        settings=(
            Setting(
                "appendonly",
                "no",
                "fail",
                "Everything since the last snapshot is lost with the server.",
            ),
            Setting(
                "maxmemory-policy",
                "allkeys-lru",
                "fail",
                "Conversations are thrown away when memory is short.",
            ),
            Setting("replicas", "1", "pass", "A second copy exists.", "declared"),
            Setting("appendfsync", "", "unknown", "CONFIG is not allowed.", "blocked"),
        ),
        environment=report.environment,
        thresholds=THRESHOLDS,
    )


def interrupted() -> Report:
    report = passing()
    reached = report.answers[:5]
    rest = tuple(
        _answer(
            at,
            "unknown",
            "The audit was interrupted before this was asked.",
            remedy="Run the audit again and let it finish.",
        )
        for at in range(6, 14)
    )
    return Report(
        format=FORMAT,
        target=report.target,
        title=report.title,
        verdict="unknown",
        sentence="Interrupted after five of thirteen questions; what was reached is well.",
        profile="quick",
        seed=7,
        command=report.command,
        started=report.started,
        seconds=14.0,
        interrupted=True,
        answers=(*reached, *rest),
        timelines=(Timeline("Lookups at 200 a second", ()),),
        environment=report.environment,
        thresholds=THRESHOLDS,
    )


def waived() -> Report:
    report = passing()
    answers = list(report.answers)
    answers[4] = _answer(
        5,
        "fail",
        "The provider's snapshots were not drilled.",
        evidence=(Evidence("restore tried", False, "", "yes"),),
        remedy="Give --backup-command and --restore-command.",
        waived=Waiver("The provider restores a copy every night and reports it.", "2027-01-31"),
    )
    answers[7] = _answer(
        8,
        "warn",
        "Reads failed fast and every accepted turn was kept, but recovery took 6.2 s.",
        evidence=(
            Evidence("longest wait of a read during the outage", 0.51, "s", "at most 0.6 s"),
            Evidence(
                "accepted turns lost",
                0,
                "of 3,100",
                "none",
                "a rate above 1 in 1,033 would have been detected",
            ),
            Evidence("until lookups were well again", 6.2, "s", "at most 5 s"),
        ),
        remedy="Lower `breaker_reset` so that the store is tried again sooner.",
    )
    answers[8] = _answer(
        9,
        "absent",
        "The target exports no metrics.",
        waived=Waiver("Metrics come with the next release.", "2026-12-31"),
    )
    answers[11] = _answer(
        12,
        "error",
        "The check could not run: the replica did not start.",
        evidence=(Evidence("replicas started", None, "", "4"),),
    )
    return Report(
        format=FORMAT,
        target="langgraph:postgres",
        title="LangGraph on PostgreSQL",
        verdict="error",
        sentence="One question could not be asked; two findings are waived.",
        profile="ci",
        seed=11,
        command="stateward audit langgraph:postgres --profile ci --seed 11 --yes",
        started="2026-11-15T12:20:00+00:00",
        seconds=7260.0,
        interrupted=False,
        answers=tuple(answers),
        curves=report.curves[:1],
        growth=Growth(900.0, 1000.0, None, None, None),
        environment=report.environment,
        thresholds=THRESHOLDS,
    )


SAMPLES = {"passing": passing, "failing": failing, "interrupted": interrupted, "waived": waived}
