"""A digest that grows with a log: equal at a place only if all that is before it is equal."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b

STAMP = 12  # bytes, as many as a commit's own id has


class Chain:
    """The digest of a log so far."""

    def __init__(self) -> None:
        self.count = 0
        self._link = b""

    def add(self, body: str) -> int:
        """Returns how many bytes it has."""
        data = body.encode()
        self._link = blake2b(data, key=self._link, digest_size=16).digest()
        self.count += 1
        return len(data)

    @property
    def digest(self) -> str:
        return self._link.hex()

    @property
    def stamp(self) -> str:
        """The same for the same log, in the shape of a commit's id."""
        return urlsafe_b64encode(self._link[:STAMP]).decode("ascii")


def digest_of_documents(documents: Mapping[str, str]) -> str:
    """In whatever order they come; "" for none."""
    if not documents:
        return ""
    whole = blake2b(digest_size=16)
    for name in sorted(documents):
        for text in (name, documents[name]):
            data = text.encode()
            whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()
