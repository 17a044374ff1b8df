"""Which node of a cluster holds which key. No I/O here."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from typing import Any

from stateward.engines.redis.settings import Address

SLOTS = 16_384


def slot_of(key: str) -> int:
    """The slot of a key: all of ours have a hash tag."""
    start = key.index("{") + 1
    return crc_hqx(key[start : key.index("}", start)].encode(), 0) % SLOTS


class Topology:
    """The primary of every slot, as far as it is known."""

    def __init__(self) -> None:
        self._primaries: dict[int, Address] = {}

    def primary_of(self, key: str) -> Address | None:
        return self._primaries.get(slot_of(key))

    def primaries(self) -> list[Address]:
        return sorted(set(self._primaries.values()))

    def learn(self, reply: Sequence[Any], asked: Address) -> bool:
        """Take over the answer of CLUSTER SLOTS; False if it leaves slots out."""
        primaries: dict[int, Address] = {}
        for first, last, primary, *_ in reply:
            host = primary[0].decode() if primary[0] else ""
            # A node that does not know its own name means the one that was asked.
            address = Address(host if host not in ("", "?") else asked.host, int(primary[1]))
            for slot in range(first, last + 1):
                primaries[slot] = address
        if primaries:
            self._primaries = primaries
        return len(primaries) == SLOTS

    def move(self, message: str, asked: Address) -> Address:
        """Take over what a MOVED or ASK reply says: "MOVED <slot> <host>:<port>"."""
        word, slot, place = message.split()[:3]
        host, _, port = place.rpartition(":")
        address = Address(host.strip("[]") or asked.host, int(port))
        if word == "MOVED":
            self._primaries[int(slot)] = address
        return address
