"""What a memory does while its store is away, and what it says of itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from audit.mutations import conditions
from audit.mutations.keys import with_key
from audit.mutations.mutant import Around, Broken, Condition, Json, Mutant, Sound, fresh, tail
from stateward.audit.targets.memory import KeptLocally

# --- while the store is away (on Redis: the audit's proxy takes it away) ------------------


def on_error(method: str, answer: Callable[..., Any]) -> dict[str, Around]:
    """What is returned where the store does not answer."""

    async def around(sound: Sound, *args: Any, **more: Any) -> Any:
        try:
            return await sound.call(method, *args, **more)
        except sound.unavailable:
            return answer(sound, *args)

    return {method: around}


async def last_good(sound: Sound, thread: str, last: int | None) -> Any:
    kept = sound.kept.setdefault("good", {})
    try:
        kept[thread, last] = await sound.load(thread, last)
    except sound.unavailable:
        if (thread, last) not in kept:
            raise
    return kept[thread, last]


def for_ever(method: str) -> dict[str, Around]:
    """Tried again until it succeeds."""

    async def around(sound: Sound, *args: Any, **more: Any) -> Any:
        while True:
            with contextlib.suppress(*sound.unavailable):
                return await sound.call(method, *args, **more)
            await asyncio.sleep(0.5)
            if time.monotonic() - sound.began > 3600:
                raise Broken("an hour has passed")

    return {method: around}


def never_answered(method: str) -> dict[str, Around]:
    """A call that met an outage waits for an answer that does not come."""

    async def around(sound: Sound, *args: Any, **more: Any) -> Any:
        try:
            return await sound.call(method, *args, **more)
        except sound.unavailable:
            await asyncio.sleep(3600)

    return {method: around}


def late_error(method: str, seconds: float) -> dict[str, Around]:
    async def around(sound: Sound, *args: Any, **more: Any) -> Any:
        try:
            return await sound.call(method, *args, **more)
        except sound.unavailable:
            await asyncio.sleep(seconds)
            raise

    return {method: around}


def other_error(method: str) -> dict[str, Around]:
    async def around(sound: Sound, *args: Any, **more: Any) -> Any:
        try:
            return await sound.call(method, *args, **more)
        except sound.unavailable as error:
            raise ValueError("something went wrong") from error

    return {method: around}


def stays_broken() -> dict[str, Around]:
    """After one failure nothing succeeds any more in this process."""

    def around(method: str) -> Around:
        async def call(sound: Sound, *args: Any, **more: Any) -> Any:
            if sound.failed:
                raise Broken("the connection was closed")
            return await sound.call(method, *args, **more)

        return call

    return {name: around(name) for name in ("append", "load", "get_user", "put_user")}


async def doubled_by_retry(
    sound: Sound, thread: str, messages: list[Json], key: str, **more: Any
) -> Any:
    """Tried again without its key."""
    try:
        return await sound.append(thread, messages, fresh(), **more)
    except sound.unavailable:
        await asyncio.sleep(0.05)
        return await sound.append(thread, messages, fresh(), **more)


def kept_in_memory(*, told: bool, lost: bool = False, reversed_: bool = False) -> dict[str, Around]:
    """What the store does not take is kept in the process and brought later."""

    async def bring(sound: Sound) -> None:
        waiting: list[Any] = sound.kept.get("kept", [])
        if lost:
            waiting.clear()
        while waiting:
            thread, messages, key = waiting[-1 if reversed_ else 0]
            await sound.append(thread, messages, key)
            waiting.remove((thread, messages, key))

    async def append(sound: Sound, thread: str, messages: list[Json], key: str, **more: Any) -> Any:
        if more:
            return await sound.append(thread, messages, key, **more)
        try:
            await bring(sound)
            return await sound.append(thread, messages, key)
        except sound.unavailable:
            sound.kept.setdefault("kept", []).append((thread, messages, key))
            return KeptLocally("kept") if told else None

    async def load(sound: Sound, thread: str, last: int | None) -> Any:
        await bring(sound)
        return await sound.load(thread, last)

    return {"append": append, "load": load}


def local_from_then_on() -> dict[str, Around]:
    """After one failure this process goes on with a dictionary of its own."""

    async def append(sound: Sound, thread: str, messages: list[Json], key: str, **more: Any) -> Any:
        local = sound.kept.setdefault("local", {})
        if not sound.failed:
            try:
                await sound.append(thread, messages, key, **more)
                local.setdefault(thread, []).extend(messages)
                return None
            except sound.unavailable:
                pass
        local.setdefault(thread, []).extend(messages)
        return None

    async def load(sound: Sound, thread: str, last: int | None) -> Any:
        if not sound.failed:
            with contextlib.suppress(*sound.unavailable):
                return await sound.load(thread, last)
        found = sound.kept.setdefault("local", {}).get(thread, [])
        return found if last is None else tail(found, last)

    return {"append": append, "load": load}


async def halved_by_error(
    sound: Sound, thread: str, messages: list[Json], key: str, **more: Any
) -> Any:
    """The write was made and its answer is taken for a failure: undone for the last message."""
    for number, each in enumerate(messages):
        await sound.append(thread, [each], f"{key}#{number}", **more)


def empty_for(seconds: float) -> dict[str, Around]:
    """After an outage, reads are empty for a while: the cache is being filled."""

    async def load(sound: Sound, thread: str, last: int | None) -> Any:
        try:
            found = await sound.load(thread, last)
        except sound.unavailable:
            sound.kept["away"] = time.monotonic()
            raise
        return [] if time.monotonic() - sound.kept.get("away", -1e9) < seconds else found

    return {"load": load}


async def dropped(sound: Sound, thread: str, messages: list[Json], key: str, **more: Any) -> None:
    return None


# --- what it says of itself -------------------------------------------------------------


def metrics(change: Callable[[Json], Json]) -> dict[str, Around]:
    async def around(sound: Sound) -> Json:
        return change(await sound.metrics())

    return {"metrics": around}


def alarms(change: Callable[[Sound, Json], Json]) -> dict[str, Around]:
    async def around(sound: Sound) -> Json:
        return change(sound, await sound.alarms())

    return {"alarms": around}


def slow_and_says_fast() -> dict[str, Around]:
    async def load(sound: Sound, *args: Any) -> Any:
        await asyncio.sleep(0.05)
        return await sound.load(*args)

    return {"load": load}


def describing(change: Callable[[Json], Json]) -> dict[str, Around]:
    async def around(sound: Sound) -> Json:
        return change(await sound.describe())

    return {"describe": around}


def synchronous(value: str) -> Callable[[Any], None]:
    def inside(memory: Any) -> None:
        memory.synchronous = value

    return inside


# --- the table --------------------------------------------------------------------------

AWAY, METRICS, ALARM = "outage", "metrics", "alarm"
# The disturbance that shows it soonest; survivors meet all of them.
REFUSED = {"faults": ("refuse",)}
FAULTS = {"outage.doubled": {"faults": ("unanswered",)}}


def _table() -> list[Mutant]:
    rows: list[tuple[str, str, dict[str, Around], Condition | None]] = [
        ("outage.load_empty", "While the store is away, every conversation looks new.",
         on_error("load", lambda sound, *args: []), None),
        ("outage.load_last_good", "While the store is away, an old answer is given as fresh.",
         {"load": last_good}, None),
        ("outage.user_empty", "While the store is away, every user looks new.",
         on_error("get_user", lambda sound, *args: ({}, 0)), None),
        ("outage.append_swallowed", "Turns said while the store is away are lost, and look "
         "stored.", on_error("append", lambda sound, *args: None), None),
        ("outage.put_swallowed", "What is learned while the store is away is lost, and looks "
         "stored.", on_error("put_user", lambda sound, *args: 1), None),
        ("outage.update_swallowed", "An update made while the store is away is lost, and looks "
         "made.", on_error("update_user", lambda sound, *args: None), None),
        ("outage.load_hangs", "A read that meets an outage never comes back.",
         never_answered("load"), None),
        ("outage.append_hangs", "A turn that meets an outage never comes back.",
         never_answered("append"), None),
        ("outage.user_hangs", "A lookup of a user that meets an outage never comes back.",
         never_answered("get_user"), None),
        ("outage.load_late@10s", "A read takes ten seconds more to fail.",
         late_error("load", 10.0), None),
        ("outage.append_late@12s", "A turn takes twelve seconds more to fail.",
         late_error("append", 12.0), None),
        ("outage.stays_broken", "After an outage a replica must be restarted.", stays_broken(),
         None),
        ("outage.doubled", "A turn whose answer was lost is there twice.",
         {"append": doubled_by_retry}, None),
        ("outage.kept_untold", "Turns kept in a replica's memory look stored; a kill loses them.",
         kept_in_memory(told=False), None),
        ("outage.kept_lost", "Turns that were promised for later never come.",
         kept_in_memory(told=True, lost=True), None),
        ("outage.kept_in_process", "Turns that were promised for later are lost by a kill.",
         kept_in_memory(told=True), None),
        ("outage.kept_reversed", "Turns kept for later come in the wrong order.",
         kept_in_memory(told=True, reversed_=True), None),
        ("outage.local", "After an outage a replica goes on by itself, and others see nothing.",
         local_from_then_on(), None),
        ("outage.empty_afterwards@1s", "For a second after an outage conversations are empty.",
         empty_for(1.0), None),
        ("outage.drops_afterwards", "After an outage a replica stores no turn, and says it did.",
         {"append": dropped}, conditions.after_outage),
        ("outage.keys_forgotten", "After an outage a second delivery is there twice.",
         with_key(lambda _: fresh()), conditions.after_outage),
    ]  # fmt: skip
    found = [
        Mutant(id, says, (AWAY,), around, when=when, base="redis", options=FAULTS.get(id, REFUSED))
        for id, says, around, when in rows
    ]
    found += [
        Mutant(
            "outage.load_for_ever",
            "Reads wait until the store is back, however long.",
            (AWAY,),
            for_ever("load"),
            base="redis",
            options=REFUSED,
            least="warn",
            found="took",
        ),
        Mutant(
            "outage.untyped",
            "While the store is away, errors do not say so.",
            (AWAY,),
            {**other_error("load"), **other_error("append")},
            base="redis",
            options=REFUSED,
            least="warn",
            found="not say",
        ),
        Mutant(
            "metrics.zero",
            "The lookups on the dashboard are always 0.",
            (METRICS,),
            metrics(lambda said: {"lookups": 0, "percentiles": {}}),
        ),
        Mutant(
            "metrics.no_p99",
            "The dashboard has no 99th percentile.",
            (METRICS,),
            metrics(
                lambda said: {
                    **said,
                    "percentiles": {n: v for n, v in said["percentiles"].items() if n != "p99"},
                }
            ),
        ),
        Mutant(
            "metrics.tenth",
            "The dashboard counts one lookup in ten.",
            (METRICS,),
            metrics(lambda said: {**said, "lookups": said["lookups"] // 10}),
        ),
        Mutant(
            "metrics.double",
            "The dashboard counts every lookup twice.",
            (METRICS,),
            metrics(lambda said: {**said, "lookups": 2 * said["lookups"]}),
        ),
        Mutant(
            "metrics.of_the_store_only",
            "The dashboard shows a millisecond where a lookup takes fifty.",
            (METRICS,),
            slow_and_says_fast(),
        ),
        Mutant(
            "metrics.mean",
            "The 95th percentile on the dashboard is the mean.",
            (METRICS,),
            metrics(
                lambda said: {
                    **said,
                    "percentiles": dict.fromkeys(
                        said["percentiles"], said["percentiles"].get("p50")
                    ),
                }
            ),
            when=None,
            inside=_one_in_ten_slow,
        ),
        Mutant(
            "settings.synchronous_off",
            "A power failure loses or damages what was acknowledged.",
            ("settings",),
            inside=synchronous("off"),
        ),
        Mutant(
            "settings.synchronous_normal",
            "A power failure loses the last turns.",
            ("settings",),
            inside=synchronous("normal"),
            least="warn",
        ),
        Mutant(
            "settings.untold",
            "Nobody can tell whether acknowledged turns survive a power failure.",
            ("settings",),
            describing(lambda said: {**said, "settings": {}}),
            least="unknown",
        ),
        Mutant(
            "settings.not_durable",
            "A restart of the server loses everything since its last snapshot.",
            ("settings",),
            describing(lambda said: {**said, "settings": {**said["settings"], "appendonly": "no"}}),
            base="redis",
        ),
        Mutant(
            "settings.evicts",
            "Under memory pressure conversations vanish.",
            ("settings",),
            describing(
                lambda said: {
                    **said,
                    "settings": {**said["settings"], "maxmemory_policy": "allkeys-lru"},
                }
            ),
            base="redis",
        ),
        Mutant(
            "alarm.never",
            "Turns are suppressed all night and nobody is woken.",
            (ALARM,),
            alarms(lambda sound, said: {**said, "fired": []}),
            base="store-redis",
        ),
        Mutant(
            "alarm.late@90s",
            "Somebody is woken a minute and a half late.",
            (ALARM,),
            alarms(
                lambda sound, said: {
                    **said,
                    "fired": [
                        {**each, "after": (each["after"] or 0.0) + 90.0} for each in said["fired"]
                    ],
                }
            ),
            base="store-redis",
        ),
        Mutant(
            "alarm.always",
            "The alarm is always on, so nobody looks at it.",
            (ALARM,),
            alarms(lambda sound, said: {**said, "fired": [{"name": "always", "after": 0.0}]}),
            base="store-redis",
        ),
    ]
    return found


def _one_in_ten_slow(memory: Any) -> None:
    load, calls = memory.load, [0]

    def slow(thread: str, last: int | None) -> Any:
        calls[0] += 1
        if calls[0] % 10 == 0:
            start = time.monotonic()
            time.sleep(0.06)
            memory.lookups.add(time.monotonic() - start)
        return load(thread, last)

    memory.load = slow


MUTANTS = _table()
