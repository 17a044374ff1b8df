"""A counter ends at the number of increments that were acknowledged."""

from __future__ import annotations

from stateward.audit.checkers.anomalies import Anomaly


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
