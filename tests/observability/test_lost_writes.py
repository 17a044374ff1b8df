"""A turn that was kept and is lost after all is counted, logged and told, in both colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from servers import until

import stateward
from observability.colours import Open, enter, ok
from stateward import Alarm, AlarmEvent, Policy, Spill, sync
from stateward.testing.clock import SteppableWorld

IMPATIENT = Policy(read_timeout=0.4, write_timeout=0.4, breaker_seconds=0.05)
LOST = "stateward_lost_writes_total"
REASONS = ("expired", "refused", "damaged")


def say(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


class Place:
    """A store of one file, and what its hook has heard."""

    def __init__(self, open_store: Open, folder: Path) -> None:
        self._open = open_store
        self.url = f"sqlite:///{folder}/agents.db"
        self.spill = folder / "spill"
        self.heard: list[AlarmEvent] = []

    def open(self, **options: Any) -> Any:
        chosen: dict[str, Any] = {
            "policy": IMPATIENT,
            "spill": Spill(str(self.spill)),
            "alarm": Alarm(self.heard.append, seconds=1.0),
        }
        return self._open(self.url, identity=self.url, **(chosen | options))

    async def told(self, store: Any, reason: str, count: int) -> None:
        """It is counted and told, and so is its end."""
        await until(lambda: bool(self.heard))
        value = store.metrics().value
        assert [value(LOST, reason=of) for of in REASONS] == [
            count if of == reason else 0 for of in REASONS
        ]
        assert store.counters.lost == getattr(store.counters, reason) == count
        await until(lambda: len(self.heard) == 2)
        assert [(event.name, event.raised) for event in self.heard] == [
            ("memory_write_lost", True),
            ("memory_write_lost", False),
        ]
        assert self.heard[0].count == count
        assert value("stateward_alarms_raised_total") == 1


@pytest.fixture
def place(open_store: Open, tmp_path: Path) -> Place:
    return Place(open_store, tmp_path)


async def test_a_turn_that_grew_too_old(place: Place) -> None:
    world = SteppableWorld()
    store = place.open(world=world)
    with store.faults.unavailable():
        assert (await ok(store.thread("s-1").append(say("old")))).status == "spilled"
        assert (await ok(store.health())).alarms == ()
        world.advance(hours=24, seconds=1)
        await until(lambda: store.counters.expired == 1)  # that it is too old needs no store
    await place.told(store, "expired", 1)
    await ok(store.close())


async def test_a_turn_that_the_store_refuses(place: Place) -> None:
    store = place.open()
    with store.faults.unavailable():
        assert (await ok(store.thread("s-1", user="u-1").append(say("mine")))).status == "spilled"
        with sync.open(place.url, spill=False) as other:
            other.thread("s-1", user="u-2").append(say("theirs"))
    await place.told(store, "refused", 1)
    await ok(store.close())


async def test_a_turn_whose_line_is_damaged(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for colour in ("stateward", "stateward.sync"):
        monkeypatch.setattr(f"{colour}.layers.outage.suppression.CLOSING_SECONDS", 0.1)
    before = place.open(alarm=None)
    before.faults.unavailable()
    for text in ("one", "two", "three"):
        assert (await ok(before.thread("s-1").append(say(text)))).status == "spilled"
    await ok(before.close())
    (file,) = place.spill.glob("*.spill")
    file.write_bytes(file.read_bytes().replace(b"two", b"TWO"))
    store = await enter(place.open())
    window = await ok(store.thread("s-1").load())
    assert [message["content"] for message in window.messages] == ["one", "three"]
    await place.told(store, "damaged", 1)
    await ok(store.close())


async def test_what_shows_to_be_lost_when_the_store_is_closed_is_told_too(place: Place) -> None:
    world = SteppableWorld()
    store = place.open(world=world, alarm=place.heard.append)
    store.faults.unavailable()
    await ok(store.thread("s-1").append(say("old")))
    world.advance(hours=24, seconds=1)
    await ok(store.close())
    assert [(event.name, event.raised, event.count) for event in place.heard] == [
        ("memory_write_lost", True, 1)
    ]


async def test_a_layered_store_tells_of_it_once(tmp_path: Path) -> None:
    heard: list[AlarmEvent] = []
    async with stateward.open(
        threads=f"sqlite:///{tmp_path}/a.db",
        users=f"sqlite:///{tmp_path}/b.db",
        workflows=f"sqlite:///{tmp_path}/b.db",
        alarm=Alarm(heard.append, seconds=1.0),
        spill=str(tmp_path / "spill"),
    ) as store:
        await store.thread("s-1").append(say("one"))
        await store.user("u-1").put({"a": 1})
        store.counters.expired += 1  # whichever engine's it was
        await until(lambda: len(heard) >= 2)
    assert [(event.name, event.raised) for event in heard] == [
        ("memory_write_lost", True),
        ("memory_write_lost", False),
    ]
