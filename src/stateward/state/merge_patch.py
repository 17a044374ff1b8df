"""JSON merge patches: RFC 7396."""

from __future__ import annotations

from typing import Any


def merge_patch(value: Any, patch: Any) -> Any:
    """The value with the patch applied: objects merge, null removes, the rest replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), item)
    return merged
