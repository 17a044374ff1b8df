"""Prices given by the user, for the bill of a month."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from stateward.errors import InvalidInput
from stateward.files import read_toml

TEMPLATE = """\
# Prices for stateward audit --prices FILE: yours, from the provider's price list. What is 0 or
# left out costs nothing. "Persistence off" is the same store that keeps everything in memory alone.

currency = "USD"

gb_month_stored = 0.10    # a GB on disk, for a month
gb_month_memory = 0.0     # a GB in memory, for a month, where that is billed by the GB
gb_written = 0.0          # a GB written to disk
gb_transferred = 0.01     # a GB between agents and store
million_requests = 0.0    # a million calls
connection_month = 0.0    # a connection, for a month
node_month = 50.0         # a server, for a month
nodes = 1                 # servers: the primary and its replicas
"""


class Prices(Struct, frozen=True, forbid_unknown_fields=True):
    """Prices in the user's currency; a month has 30 days."""

    currency: str = "USD"
    gb_month_stored: float = 0.0
    gb_month_memory: float = 0.0
    gb_written: float = 0.0
    gb_transferred: float = 0.0
    million_requests: float = 0.0
    connection_month: float = 0.0
    node_month: float = 0.0
    nodes: float = 1.0


def read_prices(path: str | None) -> Prices | None:
    """The file's prices, checked; None without a file."""
    if path is None:
        return None
    try:
        prices = msgspec.convert(read_toml(path), Prices)
    except msgspec.ValidationError as error:
        fields = ", ".join(Prices.__struct_fields__)
        raise InvalidInput(f"{path}: {error}; it may have: {fields}") from error
    for name in Prices.__struct_fields__[1:]:
        if not 0 <= getattr(prices, name) < 1e12:
            raise InvalidInput(f"{path}: {name} must be a price of 0 or more")
    return prices
