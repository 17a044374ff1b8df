"""Why another is ahead in a cell, where that is known."""

from __future__ import annotations

from bench.peers.comparing import Comparison

# (engine or "", beginning of the cell's name, contestant or "") → why; the first that fits counts
REASONS: tuple[tuple[str, str, str, str], ...] = ()


def reason(each: Comparison) -> str:
    for engine, name, who, why in REASONS:
        if engine in ("", each.engine) and each.what.startswith(name) and who in ("", each.who):
            return why
    return ""
