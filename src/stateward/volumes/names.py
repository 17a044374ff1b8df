"""The names of the replicas that divide state among their volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stateward.codec import check_id
from stateward.errors import InvalidInput

Replicas = Iterable[str] | Callable[[], Iterable[str]]


class Names(tuple[str, ...]):
    """Names of replicas, checked and sorted."""

    __slots__ = ()


def check_replicas(replica: str | None, replicas: Replicas | None) -> Replicas | None:
    """The replicas, to be asked again and again.

    Refuses one without the other, and a replica that is not among the replicas.
    """
    if (replica is None) != (replicas is None):
        raise InvalidInput(
            "replica= and replicas= belong together: the name of this replica, and the names of all"
        )
    if replica is None or replicas is None:
        return None
    check_id(replica, "the name of a replica")
    if callable(replicas):
        return replicas
    names = replica_names(replicas)
    if replica not in names:
        raise InvalidInput(f"the replica {replica!r} is not among replicas=; add its name there")
    return names


def replica_names(replicas: Replicas) -> tuple[str, ...]:
    """The names of all replicas as of now, in their own order."""
    if type(replicas) is Names:
        return replicas  # checked before
    listed = replicas() if callable(replicas) else replicas
    if isinstance(listed, str):
        raise InvalidInput(f"replicas= is a list of names, not the text {listed!r}")
    names = Names(sorted({check_id(name, "the name of a replica") for name in listed}))
    if not names:
        raise InvalidInput(
            "replicas= is empty; it has the names of all replicas, this one included"
        )
    return names
