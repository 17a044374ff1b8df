"""Stores to import into, of every engine."""

from __future__ import annotations

from backup.conftest import new_store, postgres

__all__ = ["new_store", "postgres"]
