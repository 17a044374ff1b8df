"""The description of a database, in words."""

from __future__ import annotations

from typing import Any

from stateward.engine import Description


def describe(row: tuple[Any, ...], about: dict[str, str]) -> Description:
    """Describe the server from the row of the query `describe`."""
    version, fsync, commit, pages, standbys, connections, standby, *more, size, rows = row
    reserved, used, lag = more
    return Description(
        engine="postgresql",
        version=version,
        schema=int(about.get("schema", "0")),
        durability=_durability(fsync, commit, standbys),
        bytes=size,
        rows=rows,
        settings={
            "fsync": fsync,
            "synchronous_commit": commit,
            "full_page_writes": pages,
            "synchronous_standby_names": standbys,
            "max_connections": connections,
            "reserved_connections": reserved,
            "used_connections": used,
            "replication_lag_bytes": lag,  # of the standby that is furthest behind, if any
            "in_recovery": standby,
        },
    )


def _durability(fsync: str, commit: str, standbys: str) -> str:
    if fsync != "on":
        return "fsync is off: a crash of the server's machine may lose or damage everything"
    if commit == "off":
        return (
            "synchronous_commit is off: a crash of the server may lose the acknowledged writes of "
            "the last moments"
        )
    if standbys and commit != "local":
        return "an acknowledged write survives a crash, and the loss of the primary"
    return "an acknowledged write survives a crash and a power failure of the server"
