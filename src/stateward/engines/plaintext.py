"""A warning about connections that cross a network in plain text, and a refusal of the worst."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from stateward.engines.url import is_loopback
from stateward.errors import InvalidInput

PRIVATE = (
    *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"),
    *("fc00::/7", "fe80::/10"),
)

logger = logging.getLogger("stateward.policy")
_warned: set[str] = set()  # stores, in this process


def warn_of_plaintext(
    store: str, hosts: Iterable[str], remedy: str, *, allowing: str | None = None
) -> None:
    """Log, once for each store, that other machines are reached without verified TLS.

    `store` is its URL without credentials. A path is a socket of this machine. With `allowing`, the
    option that would allow it, raises `InvalidInput` for an address of the public Internet: the
    password and all state would be readable on the way. A name may be one of a private network.
    """
    others = [each for each in hosts if each[:1] not in ("", "/", "@") and not is_loopback(each)]
    if allowing is not None and any(_is_public(each) for each in others):
        raise InvalidInput(
            f"{store!r} would send its password and all state over the Internet without TLS: use "
            f"{remedy}, or say {allowing} if the network between is trusted"
        )
    if others and store not in _warned:
        _warned.add(store)
        logger.warning("connection_in_plain_text", extra={"store": store, "remedy": remedy})


def _is_public(host: str) -> bool:
    from ipaddress import ip_address, ip_network  # for stores on other machines only

    try:
        address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return not any(address in ip_network(each) for each in PRIVATE)
