"""What is known of users: lost updates, merged puts, versions that mean nothing, mixed-up users."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from audit.mutations import conditions
from audit.mutations.ids import IDS, with_id
from audit.mutations.mutant import Around, Condition, Json, Mutant, Sound, counted
from audit.mutations.slowness import slow
from audit.mutations.staleness import cached, lagging, nothing_cached
from stateward.audit.targets.memory import VersionConflict

# --- put --------------------------------------------------------------------------------


def merged(old: Any, new: Any) -> Any:
    """Deeply."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{name: merged(old.get(name), each) for name, each in new.items()}}


def put_of(change: Callable[[Json, Json], Json]) -> dict[str, Around]:
    """Of what is there and what is put."""

    async def put_user(sound: Sound, user: str, value: Json, **more: Any) -> Any:
        old, _ = await sound.get_user(user)
        return await sound.put_user(user, change(old, value), **more)

    return {"put_user": put_user}


async def put_dropped(sound: Sound, user: str, value: Json, **more: Any) -> Any:
    return (await sound.get_user(user))[1] + 1


async def put_if_new(sound: Sound, user: str, value: Json, **more: Any) -> Any:
    old, version = await sound.get_user(user)
    return version if old else await sound.put_user(user, value, **more)


def later(seconds: float) -> dict[str, Around]:
    """Acknowledged, and written by a task in the background; this process sees it at once."""

    async def put_user(sound: Sound, user: str, value: Json, **more: Any) -> Any:
        if more:
            return await sound.put_user(user, value, **more)
        _, version = await sound.get_user(user)
        kept = sound.kept.setdefault("put", {})
        kept[user] = (value, version + 1)

        async def write() -> None:
            await asyncio.sleep(seconds)
            if user in kept:
                await sound.put_user(user, kept.pop(user)[0])

        sound.kept.setdefault("tasks", set()).add(asyncio.create_task(write()))
        return version + 1

    async def get_user(sound: Sound, user: str) -> Any:
        return sound.kept.get("put", {}).get(user) or await sound.get_user(user)

    async def update_user(sound: Sound, user: str, change: Any) -> Any:
        waiting = sound.kept.get("put", {}).pop(user, None)
        if waiting is not None:
            await sound.put_user(user, waiting[0])
        return await sound.update_user(user, change)

    return {"put_user": put_user, "get_user": get_user, "update_user": update_user}


# --- update -----------------------------------------------------------------------------


def read_change_write(pause: float) -> Around:
    async def update_user(sound: Sound, user: str, change: Any) -> None:
        value, _ = await sound.get_user(user)
        await asyncio.sleep(pause)
        changed = change(value)
        await sound.put_user(user, value if changed is None else changed)

    return update_user


async def update_twice(sound: Sound, user: str, change: Any) -> None:
    await sound.update_user(user, change)
    await sound.update_user(user, change)


async def update_dropped(sound: Sound, user: str, change: Any) -> None:
    return None


async def update_adds(sound: Sound, user: str, change: Any) -> None:
    """What the change removed is still there."""

    def adding(value: Json) -> Json:
        before = dict(value)
        changed = change(value)
        return {**before, **(value if changed is None else changed)}

    await sound.update_user(user, adding)


async def update_known(sound: Sound, user: str, change: Any) -> None:
    if (await sound.get_user(user))[0]:
        await sound.update_user(user, change)


async def update_swallows(sound: Sound, user: str, change: Any) -> None:
    def careless(value: Json) -> Any:
        try:
            return change(value)
        except Exception:
            return value

    await sound.update_user(user, careless)


async def update_in_steps(sound: Sound, user: str, change: Any) -> None:
    """Field by field: others see half of it."""
    value, _ = await sound.get_user(user)
    before = dict(value)
    changed = change(value)
    changed = value if changed is None else changed
    for name in [*changed, *(name for name in before if name not in changed)]:
        one = {name: changed[name]} if name in changed else {}
        gone = name if name not in changed else None

        def step(there: Json, one: Json = one, gone: str | None = gone) -> Json:
            return {n: v for n, v in {**there, **one}.items() if n != gone}

        await sound.update_user(user, step)
        await asyncio.sleep(0.002)


async def update_of_cached(sound: Sound, user: str, change: Any) -> None:
    """Changes what this process read first, not what is there."""
    kept = sound.kept.setdefault("first read", {})
    if user not in kept:
        kept[user] = (await sound.get_user(user))[0]
    changed = change(dict(kept[user]))
    kept[user] = changed if changed is not None else kept[user]
    await sound.put_user(user, kept[user])


# --- versions ---------------------------------------------------------------------------


def put_checked(refuses: Callable[[int, int], bool]) -> dict[str, Around]:
    """Of the expected version and the current one."""

    async def put_user(sound: Sound, user: str, value: Json, expect: int | None = None) -> Any:
        if expect is None:
            return await sound.put_user(user, value)
        _, current = await sound.get_user(user)
        if expect == current:
            return await sound.put_user(user, value, expect=expect)
        if refuses(expect, current):
            said = f"user {user!r} is at version {current}, not {expect}"
            raise VersionConflict(said, expect, current)
        return await sound.put_user(user, value)

    return {"put_user": put_user}


async def put_checked_apart(sound: Sound, user: str, value: Json, expect: int | None = None) -> Any:
    if expect is None:
        return await sound.put_user(user, value)
    _, current = await sound.get_user(user)
    if expect != current:
        raise VersionConflict(f"{user!r} is at {current}, not {expect}", expect, current)
    await asyncio.sleep(0.02)
    return await sound.put_user(user, value)


async def put_conflict_swallowed(sound: Sound, user: str, value: Json, **more: Any) -> Any:
    try:
        return await sound.put_user(user, value, **more)
    except VersionConflict as error:
        return error.current


async def put_conflict_written(sound: Sound, user: str, value: Json, **more: Any) -> Any:
    try:
        return await sound.put_user(user, value, **more)
    except VersionConflict:
        await sound.put_user(user, value)
        raise


async def put_conflict_mute(sound: Sound, user: str, value: Json, **more: Any) -> Any:
    try:
        return await sound.put_user(user, value, **more)
    except VersionConflict as error:
        raise VersionConflict("conflict") from error


async def put_conflict_other(sound: Sound, user: str, value: Json, **more: Any) -> Any:
    """Tells the expected version as the current one."""
    try:
        return await sound.put_user(user, value, **more)
    except VersionConflict as error:
        raise VersionConflict(str(error), error.expected, error.expected) from error


async def put_always_refused(
    sound: Sound, user: str, value: Json, expect: int | None = None
) -> Any:
    if expect is None:
        return await sound.put_user(user, value)
    raise VersionConflict("a conflict, whatever is expected", expect, expect)


def versions(shown: Callable[[Sound, str, int], Any]) -> dict[str, Around]:
    """Another number is shown than counts; an expectation is of the shown one."""

    async def get_user(sound: Sound, user: str) -> Any:
        value, version = await sound.get_user(user)
        return value, shown(sound, user, version)

    async def put_user(sound: Sound, user: str, value: Json, expect: int | None = None) -> Any:
        if expect is not None:
            current = (await sound.get_user(user))[1]
            if shown(sound, user, current) != expect:
                said = f"user {user!r} is not at {expect}"
                raise VersionConflict(said, expect, shown(sound, user, current))
            return shown(sound, user, await sound.put_user(user, value, expect=current))
        return shown(sound, user, await sound.put_user(user, value))

    return {"get_user": get_user, "put_user": put_user}


def not_raised(method: str) -> dict[str, Around]:
    """Writes by this method do not count."""

    async def hidden(sound: Sound, user: str) -> int:
        return int((await sound.remembered(f"hidden:{user}")).get("count", 0))

    async def write(sound: Sound, user: str, argument: Any, **more: Any) -> Any:
        if "expect" in more:
            more["expect"] += await hidden(sound, user)
        version = await sound.call(method, user, argument, **more)
        await sound.change(f"hidden:{user}", counted)
        return None if version is None else version - await hidden(sound, user)

    async def get_user(sound: Sound, user: str) -> Any:
        value, version = await sound.get_user(user)
        return value, version - await hidden(sound, user)

    async def put_user(sound: Sound, user: str, value: Json, expect: int | None = None) -> Any:
        more = {} if expect is None else {"expect": expect + await hidden(sound, user)}
        return await sound.put_user(user, value, **more) - await hidden(sound, user)

    found: dict[str, Around] = {"get_user": get_user, "put_user": put_user}
    return found | {method: write}


def by_seconds() -> dict[str, Around]:
    """The version is the second of the last write: two writes within one have the same."""

    async def put_user(sound: Sound, user: str, value: Json, expect: int | None = None) -> Any:
        name = f"second:{user}"
        at = (await sound.remembered(name)).get("at", 0)
        if expect is not None and expect != at:
            raise VersionConflict(f"user {user!r} is at {at}, not {expect}", expect, at)
        await sound.put_user(user, value)
        await sound.remember(name, {"at": int(time.time())})
        return int(time.time())

    async def get_user(sound: Sound, user: str) -> Any:
        value, _ = await sound.get_user(user)
        return value, (await sound.remembered(f"second:{user}")).get("at", 0)

    async def update_user(sound: Sound, user: str, change: Any) -> None:
        await sound.update_user(user, change)
        await sound.remember(f"second:{user}", {"at": int(time.time())})

    return {"put_user": put_user, "get_user": get_user, "update_user": update_user}


def in_process(sound: Sound, user: str, version: int) -> int:
    """Counted from the first that this process has seen."""
    first = sound.kept.setdefault("versions", {}).setdefault(user, version)
    return max(1, version - int(first) + 1)


# --- leaks ------------------------------------------------------------------------------


async def unknown_is_last(sound: Sound, user: str) -> Any:
    value, version = await sound.get_user(user)
    if value:
        sound.kept["last user"] = value
        return value, version
    return sound.kept.get("last user", {}), version


def shared_default() -> dict[str, Around]:
    """`def get_user(user, found={})`: changes in place of an unknown user's stay in there."""

    async def get_user(sound: Sound, user: str) -> Any:
        value, version = await sound.get_user(user)
        return (value, version) if version else (dict(sound.kept.get("default", {})), 0)

    async def update_user(sound: Sound, user: str, change: Any) -> None:
        default = sound.kept.setdefault("default", {})

        def changed(value: Json) -> Any:
            if value:
                said = change(value)
                return value if said is None else said
            said = change(dict(default))
            default.update(said if isinstance(said, dict) else {})
            return dict(default)

        await sound.update_user(user, changed)

    return {"get_user": get_user, "update_user": update_user}


def dated(value: Json) -> Json:
    return {**value, "updated_at": time.time()}


# --- slow and large ---------------------------------------------------------------------


async def update_with_history(sound: Sound, user: str, change: Any) -> None:
    """Every former state is kept beside the present one."""
    before = (await sound.get_user(user))[0]
    await sound.update_user(user, change)
    await sound.change(f"former:{user}", lambda value: value.setdefault("all", []).append(before))


# --- the table --------------------------------------------------------------------------

KEPT, UPDATES, VERSIONS, FRESH = "users kept", "updates", "versions", "users fresh"
MIXED = "users apart"


def _table() -> list[Mutant]:
    rows: list[tuple[str, str, tuple[str, ...], dict[str, Around], Condition | None]] = [
        ("put_user.merges", "What was removed from a user's state is still there.", (KEPT,),
         put_of(lambda old, new: {**old, **new}), None),
        ("put_user.merges_deeply", "What was removed within a user's state is still there.",
         (KEPT,), put_of(merged), None),
        ("put_user.first_wins", "A preference that was set once cannot be changed.", (KEPT,),
         {"put_user": put_if_new}, None),
        ("put_user.known_fields", "A user's state takes no new field.", (KEPT,),
         put_of(lambda old, new: {n: v for n, v in new.items() if not old or n in old}), None),
        ("put_user.dated", "A field that nobody wrote is in a user's state.", (KEPT,),
         put_of(lambda old, new: dated(new)), None),
        ("put_user.empty_ignored", "A user's state cannot be emptied.", (KEPT,),
         put_of(lambda old, new: new or old), None),
        ("put_user.drop@1in20", "One write in twenty of a user's state is lost.", (KEPT,),
         {"put_user": put_dropped}, conditions.one_in(20)),
        ("put_user.drop@large", "A large user's state is not stored.", (KEPT,),
         {"put_user": put_dropped}, conditions.large_value),
        ("put_user.drop@second", "What every other replica puts is lost.", (KEPT, FRESH),
         {"put_user": put_dropped}, conditions.second_replica),
        ("put_user.later@50ms", "A kill loses what was just learned of a user.",
         ("users acknowledged",), later(0.05), None),
        ("put_user.later@500ms", "A kill loses the last half second learned of users.",
         ("users acknowledged",), later(0.5), None),
        ("update_user.read_change_write", "Of two agents' updates at once one is lost.",
         (UPDATES,), {"update_user": read_change_write(0.002)}, None),
        ("update_user.read_change_write@large", "Of two updates at once of a large state one is "
         "lost.", (UPDATES,), {"update_user": read_change_write(0.002)}, _large_state),
        ("update_user.read_change_write@second", "An update of every other replica may undo "
         "another.", (UPDATES,), {"update_user": read_change_write(0.002)},
         conditions.second_replica),
        ("update_user.read_change_write@1in10", "Now and then, of two updates at once one is "
         "lost.", (UPDATES,), {"update_user": read_change_write(0.002)}, _one_update_in(10)),
        ("update_user.of_cached", "A replica's update undoes what others have learned.",
         (UPDATES,), {"update_user": update_of_cached}, None),
        ("update_user.twice@1in10", "One update in ten counts twice.", (UPDATES,),
         {"update_user": update_twice}, _one_update_in(10)),
        ("update_user.drop@1in50", "One update in fifty is lost.", (UPDATES,),
         {"update_user": update_dropped}, _one_update_in(50)),
        ("update_user.adds_only", "What an update removes is still there.", (KEPT,),
         {"update_user": update_adds}, None),
        ("update_user.known_only", "The first update of a new user is lost.", (KEPT, UPDATES),
         {"update_user": update_known}, None),
        ("update_user.swallows", "An update that failed looks as if it had been made.", (UPDATES,),
         {"update_user": update_swallows}, None),
        ("update_user.in_steps", "Another replica sees half of an update, or a kill leaves it.",
         (UPDATES, KEPT), {"update_user": update_in_steps}, None),
        ("update_user.former_kept", "A user's state grows with every update.", ("growth",),
         {"update_user": update_with_history}, None),
        # versions
        ("versions.not_checked", "A write for an old version overwrites a newer one.", (VERSIONS,),
         put_checked(lambda expect, current: False), None),
        ("versions.only_older", "A write for a version that never was is taken.", (VERSIONS,),
         put_checked(lambda expect, current: expect < current), None),
        ("versions.zero", "A write that expects no state yet overwrites one.", (VERSIONS,),
         put_checked(lambda expect, current: bool(expect) and expect != current), None),
        ("versions.one_off", "A write for the version before the last is taken.", (VERSIONS,),
         put_checked(lambda expect, current: abs(expect - current) > 1), None),
        ("versions.checked_apart", "Of two writes for the same version at once both are taken.",
         (VERSIONS,), {"put_user": put_checked_apart}, None),
        ("versions.swallowed", "A refused write looks as if it had been made.", (VERSIONS,),
         {"put_user": put_conflict_swallowed}, None),
        ("versions.written_anyway", "A refused write was made.", (VERSIONS,),
         {"put_user": put_conflict_written}, None),
        ("versions.other_told", "A conflict tells the wrong current version.", (VERSIONS,),
         {"put_user": put_conflict_other}, None),
        ("versions.always_refused", "No write that expects a version is ever taken.", (VERSIONS,),
         {"put_user": put_always_refused}, None),
        ("versions.not_raised_by_update", "An update is overwritten by a write for before it.",
         (VERSIONS,), not_raised("update_user"), None),
        ("versions.not_raised_by_put", "A put is overwritten by a write for before it.",
         (VERSIONS,), not_raised("put_user"), None),
        ("versions.by_seconds", "Of two writes within a second one overwrites the other.",
         (VERSIONS,), by_seconds(), None),
        ("versions.wrap@2", "A write for two versions ago overwrites.", (VERSIONS,),
         versions(lambda sound, user, version: version % 2 + 1 if version else 0), None),
        ("versions.in_process", "Another process does not know a document's version.",
         (VERSIONS, KEPT), versions(in_process), None),
        ("versions.constant", "The version is always the same.", (VERSIONS,),
         versions(lambda sound, user, version: 1 if version else 0), None),
        ("versions.not_checked@large", "A large state is overwritten by a write for an old "
         "version.", (VERSIONS,), put_checked(lambda expect, current: False),
         conditions.large_value),
        ("versions.not_checked@second", "Every other replica overwrites newer versions.",
         (VERSIONS,), put_checked(lambda expect, current: False), conditions.second_replica),
        # stale
        ("get_user.cached@50ms", "For 50 ms a replica does not see what another learned.",
         (FRESH,), cached("get_user", 0.05), None),
        ("get_user.cached@500ms", "For half a second a replica does not see what another learned.",
         (FRESH,), cached("get_user", 0.5), None),
        ("get_user.cached@ever", "A replica that knows a user never learns from another.",
         (FRESH,), cached("get_user", 1e9), None),
        ("get_user.cached_own@300ms", "For 300 ms a replica does not see its own change.",
         (FRESH,), cached("get_user", 0.3, own_writes=False), None),
        ("get_user.nothing_cached@2s", "A new user stays unknown to whoever asked too early.",
         (FRESH,), nothing_cached("get_user", 2.0), None),
        ("get_user.lagging@50ms", "For 50 ms nobody sees a change of a user.", (FRESH,),
         lagging("get_user", 0.05), None),
        # mixed up
        ("users.unknown_is_last", "A new user is greeted as another.", (MIXED,),
         {"get_user": unknown_is_last}, None),
        ("users.shared_default", "A new user has what others began with.", (MIXED,),
         shared_default(), None),
        ("get_user.slow@200ms", "What is known of a user takes 200 ms to find.", ("speed",),
         slow("get_user", 0.2), None),
    ]  # fmt: skip
    found = [Mutant(id, says, by, around, when=when) for id, says, by, around, when in rows]
    found.append(
        Mutant(
            "versions.untold",
            "A conflict does not tell which versions met.",
            (VERSIONS,),
            {"put_user": put_conflict_mute},
            least="warn",
        )
    )
    for name, (change, alike) in IDS.items():
        found.append(
            Mutant(
                f"users.ids_{name}",
                f"Users are mixed {alike}.",
                (MIXED,),
                with_id(change, "get_user", "put_user", "update_user"),
            )
        )
    return found


async def _large_state(sound: Sound, name: str, args: tuple[Any, ...]) -> bool:
    value, _ = await sound.get_user(args[0])
    return await conditions.large_value(sound, name, (value,))


def _one_update_in(count: int) -> Condition:
    async def condition(sound: Sound, name: str, args: tuple[Any, ...]) -> bool:
        sound.kept["updates"] = sound.kept.get("updates", 0) + 1
        return bool(sound.kept["updates"] % count == count - 1)

    return condition


MUTANTS = _table()
