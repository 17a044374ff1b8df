"""The description of a server, in words. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stateward.engine import Description

SCHEMA = 3  # the heads have a tip: see lua/commit.lua
SILENT = 5  # seconds after which a replica that has not answered does not count
WORST_FIRST = {  # beginnings of the least durable values
    "appendonly": ("no",),
    "appendfsync": ("no", "unknown", "everysec"),
    "maxmemory_policy": ("allkeys", "volatile", "unknown"),
}


def info_of(reply: bytes) -> dict[str, str]:
    """The answer of INFO as fields."""
    fields: dict[str, str] = {}
    for line in reply.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            fields[name] = value.strip()
    return fields


def description_of(nodes: Mapping[str, Mapping[str, str]], wait_replicas: int) -> Description:
    """Describe one server, or the primaries of a cluster, by their names.

    `nodes` has the fields of INFO and CONFIG GET of each server; managed servers refuse the latter.
    State lies on all servers, so the least durable value of a setting counts.
    """
    infos = list(nodes.values())
    info = infos[0]
    weakest = {name: _weakest(nodes, name, order) for name, order in WORST_FIRST.items()}
    settings: dict[str, Any] = {
        "server": "valkey" if "valkey_version" in info else "redis",
        "mode": info.get("redis_mode", info.get("server_mode", "standalone")),
        "role": info.get("role", "unknown"),
        "primaries": len(infos),
        "replicas": min(map(_replicas, infos)),
        "wait_replicas": wait_replicas,
        "appendonly": weakest["appendonly"].value,
        "appendfsync": weakest["appendfsync"].value,
        "maxmemory": sum(int(each.get("maxmemory", 0)) for each in infos),
        "maxmemory_policy": weakest["maxmemory_policy"].value,
        "used_memory": sum(int(each.get("used_memory", 0)) for each in infos),
        "maxclients": _fewest(infos),
        "connected_clients": max(int(each.get("connected_clients", 0)) for each in infos),
        "replication_lag_bytes": max((_lag(each) for each in infos), default=0),
        "evicted_keys": sum(int(each.get("evicted_keys", 0)) for each in infos),
    }
    for name, setting in weakest.items():
        if setting.nodes:
            settings[f"{name}_nodes"] = ", ".join(setting.nodes)
    return Description(
        engine="redis",
        version=info.get("valkey_version") or info.get("redis_version", "unknown"),
        schema=SCHEMA,
        durability=_durability(settings),
        bytes=settings["used_memory"],
        settings=settings,
        capacity=settings["maxmemory"] or None,
        problem=_missing_replicas(nodes, wait_replicas),
    )


def _missing_replicas(nodes: Mapping[str, Mapping[str, str]], wanted: int) -> str | None:
    """Say which servers have fewer working replicas than their writes wait for."""
    short = [f"{name} has {n}" for name, info in nodes.items() if (n := _replicas(info)) < wanted]
    if not short:
        return None
    return (
        f"not replicated: wait_replicas={wanted}, but {', '.join(short)} working replicas. What is "
        "written there is stored on the primary alone, and a failover could lose it. Start the "
        "missing replicas; with one more than wait_replicas, a failover leaves enough of them"
    )


class Weakest(NamedTuple):
    """A setting where it keeps the least, and the nodes that have it so if others have not."""

    value: str
    nodes: tuple[str, ...]


def _weakest(nodes: Mapping[str, Mapping[str, str]], setting: str, order: Sequence[str]) -> Weakest:
    """Return the weakest of a setting's values; `order` lists those that are worst, worst first."""

    def rank(value: str) -> int:
        return next((n for n, begin in enumerate(order) if value.startswith(begin)), len(order))

    values = {name: _value(info, setting) for name, info in nodes.items()}
    worst = min(values.values(), key=rank)
    those = tuple(name for name, value in values.items() if rank(value) == rank(worst))
    return Weakest(worst, () if len(those) == len(nodes) else those)


def _value(info: Mapping[str, str], setting: str) -> str:
    if setting == "appendonly":
        return info.get(setting) or ("yes" if info.get("aof_enabled") == "1" else "no")
    return info.get(setting, "unknown")


def _fewest(infos: Sequence[Mapping[str, str]]) -> int | str:
    """Return the most connections that the server, or the least one of a cluster, accepts."""
    limits = [int(each["maxclients"]) for each in infos if each.get("maxclients")]
    return min(limits) if limits else "unknown"


def _replicas_of(info: Mapping[str, str]) -> list[dict[str, str]]:
    lines = [info.get(f"slave{n}", "") for n in range(int(info.get("connected_slaves", 0)))]
    return [dict(part.partition("=")[::2] for part in line.split(",")) for line in lines if line]


def _replicas(info: Mapping[str, str]) -> int:
    """Count the replicas that take part: they are in step, and have answered of late."""
    replicas = _replicas_of(info)
    return sum(r.get("state") == "online" and int(r.get("lag", 0)) <= SILENT for r in replicas)


def _lag(info: Mapping[str, str]) -> int:
    """Return by how many bytes the slowest replica is behind."""
    offset = int(info.get("master_repl_offset", 0))
    return max((offset - int(r.get("offset", offset)) for r in _replicas_of(info)), default=0)


def _durability(settings: Mapping[str, Any]) -> str:
    if settings["appendonly"] == "yes":
        who = settings.get("appendfsync_nodes", "the server")
        disk = {
            "always": "an acknowledged write is on the server's disk",
            "everysec": f"a crash of {who} loses about the last second (appendfsync everysec)",
            "no": f"a crash of {who} loses what was not yet written to disk (appendfsync no)",
        }.get(
            settings["appendfsync"],
            f"{who} keeps an append-only file; it does not tell how often it is flushed, so a "
            "crash may lose the last second",
        )
    else:
        who = settings.get("appendonly_nodes", "the server")
        disk = f"a crash of {who} loses everything since its last snapshot (appendonly no)"
    wanted = settings["wait_replicas"]
    if wanted:
        replicas = f"{wanted} replicas have" if wanted > 1 else "1 replica has"
        copies = f"{replicas} it too before it is acknowledged (now {settings['replicas']} working)"
    else:
        copies = "a failover may lose the last writes (set wait_replicas=1 to prevent that)"
    sentence = f"{disk}; {copies}"
    policy = str(settings["maxmemory_policy"])
    if policy.startswith("allkeys"):
        who = settings.get("maxmemory_policy_nodes", "the server")
        sentence += f"; under memory pressure {who} DELETES state (maxmemory-policy {policy})"
    return sentence
