"""Reads that are not of what is there."""

from __future__ import annotations

import time
from typing import Any

from audit.mutations import conditions
from audit.mutations.mutant import Around, Sound, mutants, tail


def cached(method: str, seconds: float, own_writes: bool = True) -> dict[str, Around]:
    """Answered from what this process read before; its own writes are seen if `own_writes`."""

    async def read(sound: Sound, id: str, *more: Any) -> Any:
        kept = sound.kept.setdefault(method, {})
        at, found = kept.get((id, more), (-1e9, None))
        if time.monotonic() - at > seconds:
            found = await sound.call(method, id, *more)
            kept[id, more] = (time.monotonic(), found)
        return found

    async def write(name: str, sound: Sound, id: str, *args: Any, **more: Any) -> Any:
        done = await sound.call(name, id, *args, **more)
        kept = sound.kept.get(method, {})
        for entry in [each for each in kept if each[0] == id]:
            del kept[entry]
        return done

    def writing(name: str) -> Around:
        async def around(sound: Sound, *args: Any, **more: Any) -> Any:
            return await write(name, sound, *args, **more)

        return around

    writes = ("append",) if method == "load" else ("put_user", "update_user")
    found: dict[str, Around] = {method: read}
    if own_writes:
        found |= {name: writing(name) for name in writes}
    return found


def nothing_cached(method: str, seconds: float) -> dict[str, Around]:
    """That something is unknown is believed for a while."""

    async def read(sound: Sound, id: str, *more: Any) -> Any:
        kept = sound.kept.setdefault(f"nothing {method}", {})
        if time.monotonic() - kept.get(id, -1e9) < seconds:
            return [] if method == "load" else ({}, 0)
        found = await sound.call(method, id, *more)
        if not (found if method == "load" else found[0]):
            kept[id] = time.monotonic()
        return found

    return {method: read}


def lagging(method: str, seconds: float) -> dict[str, Around]:
    """Reads are of a copy that lags behind, also one's own writes."""
    write = "append" if method == "load" else "put_user"

    async def written(sound: Sound, id: str, *args: Any, **more: Any) -> Any:
        before = await sound.call(method, id, *([None] if method == "load" else []))
        await sound.remember(f"lag:{id}", {"at": time.time(), "before": before})
        return await sound.call(write, id, *args, **more)

    async def read(sound: Sound, id: str, *more: Any) -> Any:
        lag = await sound.remembered(f"lag:{id}")
        if lag and time.time() - lag["at"] < seconds:
            before = lag["before"]
            if method == "load":
                return before if more[0] is None else tail(before, more[0])
            return before[0], before[1]
        return await sound.call(method, id, *more)

    return {write: written, method: read}


# --- the table --------------------------------------------------------------------------

FRESH = "fresh"

MUTANTS = mutants(
    ("load.cached@50ms", "For 50 ms a replica does not see another's turns.", (FRESH,),
     cached("load", 0.05), None),
    ("load.cached@300ms", "For 300 ms a replica does not see another's turns.", (FRESH,),
     cached("load", 0.3), None),
    ("load.cached@2s", "For two seconds a replica does not see another's turns.", (FRESH,),
     cached("load", 2.0), None),
    ("load.cached@ever", "A replica that has read a conversation never sees another's turns.",
     (FRESH,), cached("load", 1e9), None),
    ("load.cached_own@300ms", "For 300 ms a replica does not see its own turn.", (FRESH,),
     cached("load", 0.3, own_writes=False), None),
    ("load.nothing_cached@2s", "A new conversation looks empty to whoever asked too early.",
     (FRESH,), nothing_cached("load", 2.0), None),
    ("load.lagging@30ms", "For 30 ms nobody sees a turn.", (FRESH,), lagging("load", 0.03),
     None),
    ("load.lagging@300ms", "For 300 ms nobody sees a turn.", (FRESH,), lagging("load", 0.3),
     None),
    ("load.cached@long", "In long conversations a replica does not see another's turns.",
     (FRESH,), cached("load", 0.3), conditions.long_history),
    ("load.cached@1in20", "Now and then a replica does not see another's turns.", (FRESH,),
     {"load": cached("load", 0.5, own_writes=False)["load"]}, conditions.one_in(20)),
)  # fmt: skip
