"""Room that a server has to spare: an audit takes a small part of it, or does not begin."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stateward.audit.profiles import AuditSizes
from stateward.audit.safety.isolation import opened, with_options
from stateward.engines.registry import parse
from stateward.errors import InvalidInput

MEMORY = 0.8  # of maxmemory
CONNECTIONS = 0.2  # share of the free connections
POOL = 4  # connections of one replica
FEWEST_POOL, FEWEST_REPLICAS = 2, 2
OWN = 3  # connections of the conductor: its probe, and a backup


def refuse_full(said: dict[str, Any]) -> None:
    """Raise if the store has so little memory left that a load could do harm."""
    full = too_full(said.get("settings", {}))
    if full:
        raise InvalidInput(f"{full}; --observe reads its settings and writes nothing")


def too_full(settings: Any) -> str:
    """Say why a server must not be loaded, or return an empty text."""
    most, used = int(settings.get("maxmemory") or 0), int(settings.get("used_memory") or 0)
    if not most or used <= MEMORY * most:
        return ""
    return (
        f"the server uses {used / most:.0%} of its maxmemory: an audit does not load one that "
        f"is over {MEMORY:.0%}"
    )


def free_connections(settings: Any) -> int | None:
    """Return how many more connections the server would take; None if it does not report that."""
    for most, used, reserved in (
        ("max_connections", "used_connections", "reserved_connections"),
        ("maxclients", "connected_clients", ""),
    ):
        if isinstance(settings.get(most), int) and isinstance(settings.get(used), int):
            reserved_ones = int(settings.get(reserved) or 0)
            return max(0, int(settings[most]) - int(settings[used]) - reserved_ones)
    return None


def connections(replicas: int, pool: int) -> int:
    """Return the most connections an audit opens: while the replicas are doubled or others look."""
    return pool * max(2 * replicas, max(2, replicas) + 1) + OWN


def pool_of(url: str | None) -> int:
    """Connections that one replica may open."""
    pool = parse(url).options.get("pool", "") if url is not None and "://" in url else ""
    return int(pool) if pool.isdigit() else POOL


async def fitted(sizes: AuditSizes, url: str) -> tuple[AuditSizes, str]:
    """`sizes` and the URL so that they take no more than a fifth of the free connections."""
    async with opened(url) as engine:
        settings = (await engine.describe()).settings
    pool, pools = pool_of(url), "max_connections" in settings
    sizes, smaller = fit(sizes, pool, free_connections(settings), pools)
    return sizes, url if smaller == pool else with_options(url, pool=str(smaller))


def fit(sizes: AuditSizes, pool: int, free: int | None, pools: bool) -> tuple[AuditSizes, int]:
    """Sizes and pool that take no more than a fifth of the free connections.

    `pools`: the URL can set the pool. Raises if even the smallest sizes take too much.
    """
    if free is None:
        return sizes, pool
    most = int(CONNECTIONS * free)
    smaller = range(pool, FEWEST_POOL - 1, -1) if pools else (pool,)
    fewer = range(sizes.replicas, min(FEWEST_REPLICAS, sizes.replicas) - 1, -1)
    for replicas in fewer:
        for each in smaller:
            if connections(replicas, each) <= most:
                return replace(sizes, replicas=replicas), each
    least = connections(fewer[-1], smaller[-1])
    raise InvalidInput(
        f"the server has {free} free connections. An audit takes at most a fifth of them, {most}, "
        f"and needs {least}: raise the server's limit or end idle connections; --observe needs one"
    )
