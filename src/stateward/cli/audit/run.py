"""One audit with its progress: its record, and the judgement of the record."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from stateward.audit import verdict
from stateward.audit.conductor import Audit
from stateward.audit.config import Config
from stateward.audit.forms.redaction import redact
from stateward.audit.options import plan
from stateward.audit.prices import Prices
from stateward.audit.record import FORMAT, Record
from stateward.audit.report import Report
from stateward.cli.audit.options import asked_for, confirm, described
from stateward.cli.common import ProgressLine, run_interruptibly
from stateward.errors import InvalidInput


def recorded(
    options: argparse.Namespace, config: Config, target: str | None, url: str | None
) -> Record | None:
    """Run an audit and return its record; None for a dry run."""
    asked = asked_for(options, config, target, url)
    if options.dry_run:
        print(f"would audit {described(asked)}: {plan(asked)}")
        return None
    confirm(options, asked)

    async def conducted() -> Record:
        return await Audit(asked, progress.show).run()

    with ProgressLine() as progress:
        return run_interruptibly(conducted())


def saved(file: str) -> Record:
    """Read the record that `--save` wrote."""
    try:
        record = msgspec.json.decode(Path(file).read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f"{file} is not a saved audit: {error}") from error
    if record.format != FORMAT:
        raise InvalidInput(
            f"{file} has record format {record.format}, and this Stateward judges format "
            f"{FORMAT}: run the audit again, or judge it by the release that saved it."
        )
    return record


def judged(
    options: argparse.Namespace,
    record: Record,
    config: Config,
    limits: Mapping[str, float],
    prices: Prices | None,
) -> Report:
    if "parts" in config.expect:
        record.expected = list(config.expect["parts"])
    today = datetime.now(UTC).date()
    report = verdict.report(record, limits, config.waive, today, prices)
    return redact(report) if options.redact else report
