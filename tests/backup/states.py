"""A namespace with something of everything, and what can be seen of one."""

from __future__ import annotations

from typing import Any

import pytest

from stateward import sync
from stateward.engines.registry import create_sync_engine, parse
from stateward.errors import EffectUnknown
from stateward.ops import Append, Commit, Entity, Replace, SetHead, Trim
from stateward.transfer.lines import Content
from stateward.transfer.source import Source
from stateward.world import World


def everything(url: str, namespace: str = "default") -> list[Content]:
    """All that a restore must bring back, read from the store itself."""
    engine = create_sync_engine(parse(url), World())
    engine.open()
    try:
        return list(Source(engine, namespace, one_moment=False).lines())
    finally:
        engine.close()


def fill(url: str, namespace: str = "default") -> None:
    """Every kind of state, as agents make it."""
    with sync.open(url, namespace=namespace) as store:
        talk(store)
        work(store)
    odd_entity(url, namespace)


def talk(store: Any) -> None:
    for number in range(12):
        thread = store.thread(f"s-{number}", user=f"u-{number % 4}" if number % 5 else None)
        for turn in range(number):
            question = {"role": "user", "content": f"{turn}? é \x00 😀"}
            answer = {"role": "assistant", "content": "!" * turn}
            saw = thread.load(last=4) if turn % 2 else None
            thread.append(question, answer, key=f"turn-{turn}", saw=saw)
        thread.vars.put({"topic": number})
    store.thread("s-5").claim(user="u-2")
    store.thread("s-4", user="u-0").delete()
    store.thread("s-7", user="u-3").fork(to="s-7-fork", at=4)
    store.user("u-1").put({"name": "Noor", "n": 1.5})
    store.user("u-1").update(lambda value: {**value, "more": [1, None]})
    store.user("u-1").put({"k": 1}, "a\x00 name/é")
    store.user("u-2").put({"gone": True})
    store.user("u-2").delete()
    store.shared("plan").put({"step": 1})


def work(store: Any) -> None:
    store.once("charge-1", lambda: {"paid": 7})
    with pytest.raises(ValueError, match="card"):
        store.once("charge-2", fails, attempts=1)
    with store.workflow("refund-1", kind="refund", user="u-1", input={"order": 7}) as run:
        run.step("fetch", lambda: {"order": 7})
    with store.workflow("refund-2", kind="refund", user="u-2") as run:
        run.step("fetch", lambda: 1)
        run.wait("approval", timeout=1e6)
    assert run.parked
    act(store)
    journal = store.journal("events")
    for number in range(30):
        journal.append({"n": number}, key=f"e-{number}")
    journal.snapshot(lambda total, event: total + event["n"], 0)
    journal.trim(10)
    with store.lock("inventory", ttl=30):
        pass


def act(store: Any) -> None:
    """Effects of a conversation and of a workflow: one is done, one failed, one nobody knows."""
    thread = store.thread("s-6", user="u-2")
    assert thread.effect("call/1", lambda order: {"paid": order}, 7, name="charge") == {"paid": 7}
    with pytest.raises(ValueError, match="card"):
        thread.effect("call-2", fails, name="charge")
    with pytest.raises(EffectUnknown):
        thread.effect("call-3", hangs_up, name="charge")
    with store.workflow("refund-3", kind="refund", user="u-2") as run:
        run.effect("pay", lambda: 5)
        run.wait("approval")


def hangs_up() -> None:
    raise EffectUnknown("the other side did not answer")


def fails() -> None:
    raise ValueError("no such card")


def odd_entity(url: str, namespace: str) -> None:
    """What the layers above seldom do, but engines keep."""
    engine = create_sync_engine(parse(url), World())
    engine.open()
    it = Entity(namespace, "odd\x00kind", "\x00\x01é")
    writes: list[tuple[Any, ...]] = [
        (Append(tuple(f'{{"n": {n}}}' for n in range(5)), key="k\x00"),),
        (Append(("1", "2"), key="trimmed"), Trim(2)),
        (Append(("3", "4"), key="removed"), Replace({5: '"edited"', 7: None, 9: None})),
        (Append(("[ ]",)), SetHead(status="s\x00", label="l", due=5.5, retain=1e6), Trim(6)),
    ]
    for number, some in enumerate(writes):
        engine.execute([Commit(it, f"op\x00{number}", some, owner="u-1")])
    engine.close()
