"""Which replica handles a conversation, without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from stateward.codec import check_id
from stateward.errors import InvalidInput


def route(id: str, replicas: Iterable[str]) -> str:
    """The replica that handles `id`: the same answer everywhere, whatever the list's order.

    Rendezvous hashing: when a replica joins or leaves, only the conversations it gains or had
    move; everybody else's stay where they are.
    """
    check_id(id, "the id to route")
    names = list(replicas)
    if not names:
        raise InvalidInput("there are no replicas to route to; pass at least one name")

    def weight(replica: str) -> tuple[bytes, str]:
        text = f"{len(replica)}:{replica}{id}"  # the length keeps ("ab", "c") from ("a", "bc")
        return blake2b(text.encode(), digest_size=16).digest(), replica

    return max(names, key=weight)
