"""What a server says of itself, in words. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stateward.engine import Description

SCHEMA = 2


def info_of(reply: bytes) -> dict[str, str]:
    """The answer of INFO as fields."""
    fields: dict[str, str] = {}
    for line in reply.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            fields[name] = value.strip()
    return fields


def description_of(
    infos: Sequence[Mapping[str, str]], config: Mapping[str, str], wait_replicas: int
) -> Description:
    """Of one server, or of the primaries of a cluster.

    `config` has what CONFIG GET told; managed servers tell nothing.
    """
    info = infos[0]
    name = "valkey" if "valkey_version" in info else "redis"
    appendonly = config.get("appendonly") or ("yes" if info.get("aof_enabled") == "1" else "no")
    settings: dict[str, Any] = {
        "server": name,
        "mode": info.get("redis_mode", info.get("server_mode", "standalone")),
        "role": info.get("role", "unknown"),
        "primaries": len(infos),
        "replicas": min(int(each.get("connected_slaves", 0)) for each in infos),
        "wait_replicas": wait_replicas,
        "appendonly": appendonly,
        "appendfsync": config.get("appendfsync", "unknown"),
        "maxmemory": int(info.get("maxmemory", 0)),
        "maxmemory_policy": info.get("maxmemory_policy", "unknown"),
        "used_memory": sum(int(each.get("used_memory", 0)) for each in infos),
        "maxclients": _fewest(infos, config),
        "connected_clients": max(int(each.get("connected_clients", 0)) for each in infos),
        "replication_lag_bytes": max((_lag(each) for each in infos), default=0),
        "evicted_keys": sum(int(each.get("evicted_keys", 0)) for each in infos),
    }
    return Description(
        engine="redis",
        version=info.get("valkey_version") or info.get("redis_version", "unknown"),
        schema=SCHEMA,
        durability=_durability(settings),
        bytes=settings["used_memory"],
        settings=settings,
        capacity=sum(int(each.get("maxmemory", 0)) for each in infos) or None,
    )


def _fewest(infos: Sequence[Mapping[str, str]], config: Mapping[str, str]) -> int | str:
    """Connections that the server takes, or that of a cluster which takes the fewest."""
    told = [int(each["maxclients"]) for each in infos if each.get("maxclients")]
    if not told and config.get("maxclients"):
        told = [int(config["maxclients"])]
    return min(told) if told else "unknown"


def _lag(info: Mapping[str, str]) -> int:
    """Bytes by which the replica that is furthest behind is."""
    offset = int(info.get("master_repl_offset", 0))
    replicas = [
        info[f"slave{n}"]
        for n in range(int(info.get("connected_slaves", 0)))
        if f"slave{n}" in info
    ]
    fields = [dict(part.partition("=")[::2] for part in told.split(",")) for told in replicas]
    return max((offset - int(each.get("offset", offset)) for each in fields), default=0)


def _durability(settings: Mapping[str, Any]) -> str:
    if settings["appendonly"] == "yes":
        disk = {
            "always": "an acknowledged write is on the server's disk",
            "everysec": "a crash of the server loses about the last second (appendfsync everysec)",
            "no": "a crash of the server loses what was not yet written to disk (appendfsync no)",
        }.get(
            settings["appendfsync"],
            "the server keeps an append-only file; it does not tell how often it is flushed, so a "
            "crash may lose the last second",
        )
    else:
        disk = "a crash of the server loses everything since its last snapshot (appendonly no)"
    wanted = settings["wait_replicas"]
    if wanted:
        replicas = f"{wanted} replicas have" if wanted > 1 else "1 replica has"
        copies = f"{replicas} it too before it is acknowledged"
    else:
        copies = "a failover may lose the last writes (set wait_replicas=1 to prevent that)"
    said = f"{disk}; {copies}"
    policy = str(settings["maxmemory_policy"])
    if policy.startswith("allkeys"):
        said += f"; under memory pressure the server DELETES state (maxmemory-policy {policy})"
    return said
