"""Versions of conversations and documents, as text for clients."""

from __future__ import annotations

from urllib.parse import quote


def etag(version: int, stamp: str | None) -> str:
    """Return a version as an ETag; whatever a stamp consists of, it stays within its quotes."""
    return f'"{version}-{quote(stamp or "", safe="")}"'
