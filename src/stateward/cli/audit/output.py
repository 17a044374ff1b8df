"""Every form of a report, on the terminal and in files."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

import msgspec

from stateward.audit.forms import baseline, junit, markdown, schema, terminal
from stateward.audit.forms.html import page
from stateward.audit.record import Record
from stateward.audit.report import Report
from stateward.errors import InvalidInput


def write(options: argparse.Namespace, record: Record, report: Report) -> None:
    """Every form of the report, each complete or not at all."""
    if options.save is not None:
        put(Path(options.save), msgspec.json.encode(record))
    if options.output is None:
        return
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    put(folder / "report.json", schema.to_json(report))
    put(folder / "report.html", page.html(report).encode())
    put(folder / "report.md", markdown.text(report).encode())
    put(folder / "junit.xml", junit.xml(report).encode())


def put(path: Path, content: bytes) -> None:
    try:
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def shown(options: argparse.Namespace, report: Report) -> str:
    if options.json:
        return schema.to_json(report).decode()
    width = shutil.get_terminal_size((100, 24)).columns
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    shown = terminal.text(report, colour, max(40, min(width, 120)))
    if options.output is not None:
        shown += f"\n\nreport: {Path(options.output) / 'report.html'}"
    return shown


def changes_since(options: argparse.Namespace, report: Report) -> str:
    """What changed since the baseline; "" without one."""
    if options.baseline is None:
        return ""
    try:
        old = schema.from_json(Path(options.baseline).read_bytes())
    except OSError as error:
        raise InvalidInput(f"{options.baseline} cannot be read: {error.strerror}") from error
    return baseline.text(baseline.compare(old, report))
