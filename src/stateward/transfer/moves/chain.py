"""A running digest of a log: equal digests mean equal entries up to that place."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b

STAMP = 12  # bytes, as in the id of a commit


class Chain:
    """The digest of a log so far."""

    def __init__(self) -> None:
        self.count = 0
        self._link = b""

    def add(self, body: str) -> int:
        """Add an entry to the digest, and return the size of the entry in bytes."""
        data = body.encode()
        self._link = blake2b(data, key=self._link, digest_size=16).digest()
        self.count += 1
        return len(data)

    @property
    def digest(self) -> str:
        return self._link.hex()

    @property
    def stamp(self) -> str:
        """Return the digest of the log, in the shape of a commit's id."""
        return urlsafe_b64encode(self._link[:STAMP]).decode("ascii")


def digest_of_documents(documents: Mapping[str, str]) -> str:
    """Return a digest that does not depend on the order of the documents; "" for none."""
    if not documents:
        return ""
    whole = blake2b(digest_size=16)
    for name in sorted(documents):
        for text in (name, documents[name]):
            data = text.encode()
            whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()
