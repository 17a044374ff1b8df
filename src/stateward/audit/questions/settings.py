"""Judgement of the store's durability settings."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import Record
from stateward.audit.report import Evidence, Setting, Verdict

# What a value means: the first pattern that it is.
RULES: dict[str, tuple[tuple[str, Verdict, str], ...]] = {
    "appendonly": (
        ("yes", "pass", "what is acknowledged goes to a file"),
        (".*", "fail", "a restart of the server loses everything since its last snapshot"),
    ),
    "appendfsync": (
        ("always", "pass", "an acknowledged write is on disk"),
        ("everysec", "warn", "a crash of the server loses about the last second"),
        ("no", "fail", "a crash loses what the operating system had not written yet"),
        (".*", "unknown", "the server does not report how often it syncs"),
    ),
    "maxmemory_policy": (
        ("allkeys.*", "fail", "under memory pressure the server deletes state"),
        (
            "volatile.*",
            "fail",
            "under memory pressure the server deletes what has an expiry: conversations",
        ),
        ("noeviction", "pass", "a full server refuses writes and deletes nothing"),
        (".*", "unknown", "the server does not report what it evicts"),
    ),
    "fsync": (
        ("on", "pass", "writes are synced to disk"),
        (".*", "fail", "a crash of the machine may lose or damage everything"),
    ),
    "synchronous_commit": (
        ("off", "fail", "a crash may lose the last acknowledged writes"),
        (".*", "pass", "an acknowledged write survives a crash"),
    ),
    "full_page_writes": (
        ("on", "pass", "a torn page can be repaired"),
        (".*", "fail", "a crash may leave torn pages"),
    ),
    "journal_mode": (
        ("(?i:wal|delete|truncate|persist)", "pass", "a crash leaves the file whole"),
        (".*", "fail", "a crash may damage the file"),
    ),
    "synchronous": (
        ("(?i:2|3|full|extra)", "pass", "every acknowledged write is synced to disk"),
        ("(?i:1|normal)", "warn", "a power failure may lose the last writes"),
        (".*", "fail", "a power failure may lose writes or damage the file"),
    ),
}


BEST = {
    "appendonly": "appendonly yes",
    "appendfsync": "appendfsync always",
    "maxmemory_policy": "maxmemory-policy noeviction",
    "fsync": "fsync on",
    "synchronous_commit": "synchronous_commit on",
    "full_page_writes": "full_page_writes on",
    "journal_mode": "journal_mode wal",
    "synchronous": "synchronous full",
}

DECLARE = (
    "Let describe() return the settings that decide what a crash leaves, or declare them under "
    "[declare]."
)

# What decides together: of one of these, the others must be known too.
GROUPS = (
    ("appendonly", "appendfsync", "maxmemory_policy"),
    ("fsync", "synchronous_commit", "full_page_writes"),
    ("journal_mode", "synchronous"),
)


def _unreported(reported: Container[str]) -> list[str]:
    """Return settings that the store has but does not report."""
    return [
        name
        for group in GROUPS
        if any(name in reported for name in group)
        for name in group
        if name not in reported
    ]


def _meaning(name: str, value: Any) -> tuple[Verdict, str]:
    return next(
        (verdict, meaning)
        for pattern, verdict, meaning in RULES[name]
        if re.fullmatch(pattern, str(value), re.DOTALL)
    )


def read_settings(record: Record) -> tuple[Setting, ...]:
    """Return each setting that has a rule, as read or as declared."""
    values = record.settings.values if record.settings is not None else {}
    values = {name: value for name, value in values.items() if value not in (None, "")}
    values |= dict.fromkeys(_unreported({**values, **record.declared}), "unknown")
    settings = []
    for name in RULES:
        if name in values and str(values[name]) != "unknown":
            verdict, meaning = _meaning(name, values[name])
            if nodes := values.get(f"{name}_nodes"):  # nodes of a cluster with the worst value
                meaning += f" ({nodes})"
            settings.append(Setting(name, str(values[name]), verdict, meaning))
        elif name in record.declared:
            _, meaning = _meaning(name, record.declared[name])
            summary = f"{meaning} (declared, not verified)"
            settings.append(
                Setting(name, str(record.declared[name]), "unknown", summary, "declared")
            )
        elif name in values:
            summary = "the store does not report it; declare it under [declare]"
            settings.append(Setting(name, "", "unknown", summary, "blocked"))
    if {s.name: s.value for s in settings}.get("appendonly") == "no":
        settings = [s for s in settings if s.name != "appendfsync"]  # has no meaning without a log
    return tuple(settings)


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.settings is not None
    settings = read_settings(record)
    facts = tuple(Evidence(s.name, s.value or None, limit=s.meaning) for s in settings)
    if not settings:
        summary = "the store reports no setting that decides what survives"
        return Finding("unknown", summary, facts, remedy=DECLARE)
    order: tuple[Verdict, ...] = ("fail", "unknown", "warn")
    for verdict in order:
        bad = [s for s in settings if s.verdict == verdict]
        if bad:
            summary = "; ".join(f"{s.name} {s.value}".rstrip() + f": {s.meaning}" for s in bad)
            remedy = " ".join(dict.fromkeys(_remedy(setting) for setting in bad))
            return Finding(verdict, summary, facts, remedy=remedy)
    return Finding("pass", record.settings.durability or "all settings are durable", facts)


def _remedy(setting: Setting) -> str:
    """Return the remedy for this one setting of this engine."""
    if setting.source != "read":
        return f"Let the audit read {setting.name} from the store, to verify it."
    return f"Set {BEST[setting.name]}."


QUESTION = Question(
    "settings",
    16,
    "Do the store's settings keep what it acknowledges?",
    "A store that answers before it has written loses the last turns with the next crash, or "
    "evicts old ones when its memory is full. No test shows that while all is well.",
    ("sizes",),
    ("settings",),
    "Set appendonly yes, appendfsync always and maxmemory-policy noeviction; fsync on and "
    "synchronous_commit on; journal_mode wal and synchronous full.",
    judge,
    ("settings",),
    severity="high",
    means="What was acknowledged is lost with the next crash of the server.",
)
