"""Every form of a report, on the terminal and in files."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import msgspec

from stateward.audit.forms import baseline, junit, markdown, page, schema, terminal
from stateward.audit.forms.baseline import Comparison
from stateward.audit.record import Record
from stateward.audit.report import Report
from stateward.errors import InvalidInput
from stateward.files import private_folder, write_whole


def write(options: argparse.Namespace, record: Record, report: Report) -> None:
    """Every form of the report, each complete or not at all."""
    if options.save is not None:
        write_whole(options.save, msgspec.json.encode(record))
    if options.output is not None:
        write_all(options.output, forms_of(report))


def forms_of(report: Report, changes: Comparison | None = None) -> dict[str, bytes]:
    """Every form by the name of its file."""
    return {
        "report.json": schema.to_json(report),
        "report.html": page.html(report, changes).encode(),
        "report.md": markdown.text(report).encode(),
        "junit.xml": junit.xml(report).encode(),
    }


def write_all(folder: str, contents: dict[str, bytes]) -> None:
    """Files of a folder, which is made if need be: for this account alone, as they are."""
    try:
        private_folder(folder)
    except OSError as error:
        raise InvalidInput(f"{folder} is not a writable folder: {error.strerror}") from error
    for name, content in contents.items():
        write_whole(os.path.join(folder, name), content)


def width() -> int:
    """Of lines that are easy to read on this terminal."""
    return max(40, min(shutil.get_terminal_size((100, 24)).columns, 120))


def shown(options: argparse.Namespace, report: Report) -> str:
    if options.json:
        return schema.to_json(report).decode()
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    shown = terminal.text(report, colour, width())
    if options.output is not None:
        shown += f"\n\nreport: {Path(options.output) / 'report.html'}"
    return shown


def changes_since(options: argparse.Namespace, report: Report) -> str:
    """Return what changed since the baseline in words; "" without a baseline."""
    if options.baseline is None:
        return ""
    return baseline.text(baseline.compare(read_report(options.baseline), report))


def read_report(path: str) -> Report:
    """A report.json that was written earlier."""
    try:
        return schema.from_json(Path(path).read_bytes())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
