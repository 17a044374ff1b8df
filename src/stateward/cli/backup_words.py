"""What the commands around backups say when they are done."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from stateward.transfer.backup import BackupReport


def as_json(report: BackupReport, **more: Any) -> str:
    return json.dumps({**more, **msgspec.to_builtins(report)})


def in_words(report: BackupReport) -> list[str]:
    """Counts, and what must be said besides."""
    lines = [
        f"  {report.entities:,} entities, {report.messages:,} messages, "
        f"{report.documents:,} documents of the namespace {report.namespace!r}"
    ]
    if report.moment == "store":
        lines.append("  all as of one moment")
    else:
        lines.append(
            "  each entity is consistent in itself; this engine cannot show one moment of all"
        )
    if report.erased:
        lines.append(f"  {report.erased:,} entities left out: their users were erased since")
    if report.resumed:
        lines.append("  an interrupted run was gone on with")
    return lines
