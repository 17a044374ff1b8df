"""What a superseded holder writes is refused."""

from __future__ import annotations

from collections.abc import Iterable

from stateward.audit.checkers.anomalies import Anomaly


def check_fences(accepted: Iterable[tuple[int, str]]) -> list[Anomaly]:
    """What is wrong with the writes that were accepted, in the order the store gave them.

    Each is the token it was written with, and a word for it. Once a write with a larger token
    was accepted, one with a smaller token is the write of a holder that had been superseded.
    """
    found: list[Anomaly] = []
    largest, by = 0, ""
    for place, (token, word) in enumerate(accepted):
        if token < largest:
            story = f"{word} was written with token {token} after {by} with token {largest}"
            found.append(Anomaly("stale token accepted", story, (place,)))
        else:
            largest, by = token, word
    return found
