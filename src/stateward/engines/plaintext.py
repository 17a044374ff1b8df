"""A warning about connections that cross a network in plain text."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from stateward.engines.url import is_loopback

logger = logging.getLogger("stateward.policy")
_warned: set[str] = set()  # stores, in this process


def warn_of_plaintext(store: str, hosts: Iterable[str], remedy: str) -> None:
    """Log, once for each store, that other machines are reached without verified TLS.

    `store` is its URL without credentials. A path is a socket of this machine.
    """
    others = [each for each in hosts if each[:1] not in ("", "/", "@") and not is_loopback(each)]
    if others and store not in _warned:
        _warned.add(store)
        logger.warning("connection_in_plain_text", extra={"store": store, "remedy": remedy})
