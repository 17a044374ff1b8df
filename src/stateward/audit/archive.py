"""A report as a store keeps it, and what is read from there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from stateward.audit.forms import schema
from stateward.audit.forms.baseline import Comparison, compare
from stateward.audit.report import Report
from stateward.errors import InvalidInput
from stateward.records import AuditInfo


def info_of(report: Report) -> AuditInfo:
    """Return a report's row in a list. Ids begin with the time, so that they are in its order."""
    started = re.sub(r"[^0-9T]", "", report.started.partition("+")[0])
    return AuditInfo(
        id=f"{started}Z-{report.seed}",
        started=report.started,
        title=report.title,
        target=report.target,
        verdict=report.verdict,
        sentence=report.sentence,
        profile=report.profile,
        seed=report.seed,
        seconds=report.seconds,
        interrupted=report.interrupted,
        answers=dict(Counter(answer.verdict for answer in report.answers)),
    )


def before(id: str, kept: Sequence[AuditInfo]) -> AuditInfo | None:
    """Return the audit before this one of the same title. `kept` is sorted, newest first."""
    title = next((info.title for info in kept if info.id == id), None)
    older = [info for info in kept if info.id < id and info.title == title]
    return older[0] if older else None


def changes(old: bytes | None, new: Report) -> Comparison | None:
    """Compare with an older report; None if none can be compared with."""
    if old is None:
        return None
    try:
        return compare(schema.from_json(old), new)
    except InvalidInput:  # a report of another machine or release
        return None
