"""Rows as a table that fits a terminal, and values that cannot harm it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import to_builtins

WIDEST = 60


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], widest: int = WIDEST) -> str:
    """Return a table whose columns are as wide as their widest cell, up to `widest`."""
    cells = [[cell(row.get(column), widest) for column in columns] for row in rows]
    titles = [column.replace("_", " ") for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in [titles, *cells]
    ]
    return "\n".join(lines)


def cell(value: Any, widest: int = WIDEST) -> str:
    """Return a value as one line of printable text, with escape sequences made harmless."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    text = value
    if not isinstance(value, str):
        text = json.dumps(to_builtins(value), ensure_ascii=False)
    shown = printable(text)
    return shown if len(shown) <= widest else shown[: widest - 1] + "…"


def printable(text: str) -> str:
    """Return a text with every unprintable character as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
