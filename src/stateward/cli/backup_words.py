"""Sentences that the backup commands print at their end."""

from __future__ import annotations

import argparse
import json
from typing import Any

import msgspec

from stateward.transfer.backup import BackupReport


def say(options: argparse.Namespace, report: BackupReport, headline: str, **more: Any) -> None:
    """Counts, and what must be said besides; with `--json` all of the report, and `more`."""
    if options.json:
        print(json.dumps({**more, **msgspec.to_builtins(report)}))
        return
    print(headline)
    print(
        f"  {report.entities:,} entities, {report.messages:,} messages, "
        f"{report.documents:,} documents of the namespace {report.namespace!r}"
    )
    if report.moment == "store":
        print("  a snapshot of one moment")
    else:
        print("  each entity is consistent in itself; this engine has no snapshots")
    if report.erased:
        print(f"  {report.erased:,} entities left out because their users were erased")
    if report.resumed:
        print("  an interrupted run was continued")
