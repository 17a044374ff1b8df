"""Random writes to documents beside a past kept in plain Python: every look back agrees with it."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from conformance.state.cases import clock_case
from conformance.state.harness import StoreHarness
from stateward.errors import NotKept, StateConflictError
from stateward.records import Document
from stateward.state.past import Keep
from stateward.state.users import User
from stateward.store import Store

VERSIONS, WITHIN = 12, 3600.0
NAMES = ("default", "busy", "rare")
BUSY = ("busy", "busy", "busy", "busy", "default", "default", "rare")

Json = dict[str, Any]


class State(NamedTuple):
    """What a document was from a moment on; None: it was missing."""

    at: float
    value: Json | None
    version: int


class PlainPast:
    """All that one document ever was."""

    def __init__(self) -> None:
        self.states: list[State] = []

    @property
    def now(self) -> State:
        return self.states[-1] if self.states else State(0.0, None, 0)

    def put(self, at: float, value: Json) -> None:
        self.states.append(State(at, value, self.now.version + 1))

    def delete(self, at: float) -> None:
        if self.now.value is not None:
            self.states.append(State(at, None, 0))

    def kept(self, now: float) -> list[State]:
        """The newest first."""
        found: list[State] = []
        for state in reversed(self.states):
            if len(found) == VERSIONS or (found and found[-1].at < now - WITHIN):
                break
            found.append(state)
        return found

    def at(self, time: float) -> State | None:
        return next((state for state in reversed(self.states) if state.at <= time), None)


def agrees(found: Document, state: State) -> bool:
    if state.value is None:
        return found == Document({})
    return (found.value, found.updated) == (state.value, state.at) and found.version in (
        state.version,
        -1,  # of an earlier life, whose beginning is not kept
    )


async def write(store: Store, name: str, past: PlainPast, chance: Random, number: int) -> None:
    """One random write, to the store and to the plain past."""
    user = store.user("u")
    value = {"n": number, "text": "x" * chance.randrange(50)}
    written: Document | None
    match chance.randrange(8):
        case 0 | 1:
            written = await user.put(value, name)
        case 2:
            written = await user.put(value, name, expect=await user.get(name))
        case 3:
            written = await user.update(lambda _: value, name)
        case 4:
            before = past.now.value or {}
            written = await user.patch({"p": number}, name)
            value = before | {"p": number}
        case 5 if chance.random() < 0.4:
            await user.delete(name)
            past.delete((await user.handle.fetch()).head.updated)
            return
        case 6:
            kept = [s for s in past.kept(store._scope.world.now())[:4] if s.at]
            if len(kept) < 2:
                return
            state = chance.choice(kept)
            same = past.at(state.at)
            assert same is not None
            try:
                written = await user.undo(name, at=state.at)
            except StateConflictError:
                raise AssertionError("nobody else has written") from None
            if same.value is None:
                past.delete((await user.handle.fetch()).head.updated)
                return
            value = same.value
        case _:
            return
    assert written.value == value
    past.put(written.updated, value)
    assert written.version == past.now.version


async def look(store: Store, name: str, past: PlainPast, chance: Random) -> int:
    """Look back at a random time and version; returns how many looks were answered."""
    user, now = store.user("u"), store._scope.world.now()
    kept = past.kept(now)
    answered = 0
    times = [state.at + chance.choice((0.0, 0.0, -0.01, 5.0)) for state in past.states[-40:]]
    for time in chance.sample(times, min(2, len(times))):
        state = past.at(time)
        try:
            found = await user.get(name, at=time)
        except NotKept:
            assert state is None or state not in kept, (name, time, state)
            continue
        answered += 1
        if state is None or state.value is None:
            assert found == Document({}), (name, time, found)
        else:
            assert state in kept, (name, time, state)
            assert agrees(found, state), (name, time, state, found)
    version = chance.randint(1, past.now.version + 1)
    life = kept[: next((n for n, s in enumerate(kept) if s.value is None), len(kept))]
    wanted = next((state for state in life if state.version == version), None)
    try:
        found = await user.get(name, version=version)
    except NotKept:
        assert wanted is None, (name, version)
    else:
        answered += 1
        assert wanted is not None, (name, version, found)
        assert agrees(found, wanted), (name, version, found)
    if chance.random() < 0.1:
        listed = [each async for each in user.history(name)]
        if kept and kept[0].value is None and kept[0].at < now - WITHIN:
            listed, kept = [], []  # that it was removed so long ago need not be known any more
        assert [(each.updated, each.value) for each in listed] == [(s.at, s.value) for s in kept]
    return answered


async def look_back(h: StoreHarness, operations: int, seed: int) -> int:
    """That many random writes by two replicas, with a look back after each."""
    chance = Random(seed)
    pasts = {name: PlainPast() for name in NAMES}
    keep = Keep(VERSIONS, WITHIN)
    answered = 0
    async with h.store(keep=keep) as store, h.store(keep=keep) as other:
        for number in range(operations):
            await h.pass_time(chance.choice((0.25, 1.0, 30.0, 400.0)))
            name = chance.choice(BUSY)
            await write(chance.choice((store, other)), name, pasts[name], chance, number)
            name = chance.choice(NAMES)
            answered += await look(chance.choice((store, other)), name, pasts[name], chance)
        head = (await store.user("u").handle.fetch()).head
        assert head.live <= 4 * len(NAMES) * VERSIONS
    return answered


@clock_case
async def every_look_back_agrees_with_what_was_written(h: StoreHarness) -> None:
    assert await look_back(h, 150, seed=17) > 100


async def settings_one_after_the_other(h: StoreHarness, operations: int, seed: int) -> int:
    """Write and look back under settings that change; returns how many looks were answered.

    Whatever is answered is what was; and what is there now is answered.
    """
    chance = Random(seed)
    settings = (Keep(3, 100.0), Keep(VERSIONS, WITHIN), Keep(), Keep(2, None))
    pasts = {name: PlainPast() for name in NAMES}
    answered = 0
    for _ in range(6):
        async with h.store(keep=chance.choice(settings)) as store:
            for number in range(operations // 6):
                await h.pass_time(chance.choice((0.25, 1.0, 30.0, 400.0)))
                name = chance.choice(BUSY)
                user, past = store.user("u"), pasts[name]
                if chance.random() < 0.25:
                    await user.delete(name)
                    past.delete((await user.handle.fetch()).head.updated)
                else:
                    put = await user.put({"n": number}, name)
                    past.put(put.updated, put.value)
                answered += await look_truthfully(user, pasts, chance)
    return answered


async def look_truthfully(user: User, pasts: dict[str, PlainPast], chance: Random) -> int:
    name = chance.choice(NAMES)
    past = pasts[name]
    if not past.states:
        return 0
    time = chance.choice(past.states).at + chance.choice((0.0, -0.01, 5.0))
    state = past.at(time)
    try:
        document = await user.get(name, at=time)
    except NotKept:
        assert state is None or state is not past.now or state.value is None, (name, time)
        return 0
    if state is None or state.value is None:
        assert document == Document({}), (name, time, document)
    else:
        assert agrees(document, state), (name, time, state, document)
    return 1


@clock_case
async def no_look_back_is_wrong_after_the_setting_was_changed(h: StoreHarness) -> None:
    for seed in range(3):
        assert await settings_one_after_the_other(h, 120, seed) > 10
        await h.store().user("u").erase()
