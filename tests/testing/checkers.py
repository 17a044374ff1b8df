"""Checkers of counters and of fences, and what several tests do with anomalies."""

from __future__ import annotations

from collections.abc import Iterable

from stateward.audit.checkers.anomalies import Anomaly


def names(anomalies: Iterable[Anomaly]) -> set[str]:
    """The kinds of anomaly among these."""
    return {anomaly.name for anomaly in anomalies}


def tell(anomalies: Iterable[Anomaly]) -> str:
    """All of them as one text, for a failing test."""
    return "\n\n".join(str(anomaly) for anomaly in anomalies)


def check_counter(final: int, acknowledged: int, unknown: int = 0) -> list[Anomaly]:
    """What is wrong with a counter that began at 0; an empty list if nothing is.

    `acknowledged` increments were answered as stored; `unknown` ones got no answer, so each of
    them may count or not. None may count twice, and no acknowledged one may be missing.
    """
    said = f"{acknowledged} increments were acknowledged"
    if unknown:
        said += f", {unknown} got no answer"
    if final < acknowledged:
        missing = acknowledged - final
        return [Anomaly("lost update", f"{said}; the counter is {final}: {missing} are missing")]
    if final > acknowledged + unknown:
        surplus = final - acknowledged - unknown
        story = f"{said}; the counter is {final}: {surplus} counted twice or came from nowhere"
        return [Anomaly("surplus update", story)]
    return []


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
