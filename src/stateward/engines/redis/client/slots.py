"""Map from the slots of a cluster to the nodes that hold them. No I/O here."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from typing import Any

from hiredis import ReplyError

from stateward.engines.redis.client.server import Address
from stateward.engines.redis.failures import code_of, refused

SLOTS = 16_384


def slot_of(key: str) -> int:
    """The slot of a key: all of ours have a hash tag."""
    start = key.index("{") + 1
    return crc_hqx(key[start : key.index("}", start)].encode(), 0) % SLOTS


def absent(key: str) -> str:
    """The name of a key of the same slot that never exists."""
    return f"{key}:none"


def node_address(node: Sequence[Any], asked: Address) -> Address:
    """A node as CLUSTER SLOTS names it; without a name it is the one that was asked."""
    host = node[0].decode() if node[0] else ""
    return Address(host if host not in ("", "?") else asked.host, int(node[1]))


class SlotTable:
    """The primary of every slot, as far as it is known."""

    def __init__(self) -> None:
        self._primaries: dict[int, Address] = {}
        self.version = 0  # grows with everything that is learnt

    def primary_of(self, key: str) -> Address | None:
        return self._primaries.get(slot_of(key))

    def primaries(self) -> list[Address]:
        return sorted(set(self._primaries.values()))

    def learn(self, reply: Sequence[Any], asked: Address) -> bool:
        """Take over the answer of CLUSTER SLOTS; False if it leaves slots out."""
        primaries: dict[int, Address] = {}
        for first, last, primary, *_ in reply:
            primaries.update(dict.fromkeys(range(first, last + 1), node_address(primary, asked)))
        if primaries:
            self._primaries = primaries
            self.version += 1
        return len(primaries) == SLOTS

    def named_in(self, reply: Any, asked: Address) -> Address | None:
        """Return the node that an ASK names for one request; take over a MOVED and return None."""
        if not isinstance(reply, ReplyError):
            return None
        if code_of(reply) not in ("ASK", "MOVED"):
            raise refused(reply, str(asked))
        to = self.move(str(reply), asked)
        return to if code_of(reply) == "ASK" else None

    def move(self, message: str, asked: Address) -> Address:
        """Take over what a MOVED or ASK reply says: "MOVED <slot> <host>:<port>"."""
        word, slot, node = message.split()[:3]
        host, _, port = node.rpartition(":")
        address = Address(host.strip("[]") or asked.host, int(port))
        if word == "MOVED":
            self._primaries[int(slot)] = address
            self.version += 1
        return address
