"""Mutants that the quick profile does not find, and why that is so: every one of them is argued."""

from __future__ import annotations

KNOWN: dict[str, str] = {}
