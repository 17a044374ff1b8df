"""From every engine into every other: the same state, and the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import stateward
from backup.conftest import PAIRS, NewStore
from backup.states import everything, fill
from stateward import sync
from stateward.engines.registry import create_sync_engine, parse
from stateward.ops import Commit, Entity, Release
from stateward.transfer.backup import backup, copy, restore, verify
from stateward.transfer.lines import EntityLine
from stateward.world import World


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_what_is_restored_is_what_was_there(
    source: str, target: str, new_store: NewStore, tmp_path: Path
) -> None:
    old, new = new_store(source), new_store(target)
    fill(old)
    path = str(tmp_path / "a.backup")
    made = backup(old, path)
    there = everything(old)
    assert made.entities == sum(isinstance(line, EntityLine) for line in there) > 20
    assert verify(path) == made
    assert restore(path, new) == made
    assert everything(new) == there
    assert verify(path) == made
    again = new_store(source)
    copied = copy(new, again)
    assert (copied.entities, copied.messages) == (made.entities, made.messages)
    assert everything(again) == there


def never(*_: object) -> object:
    pytest.fail("it has happened")


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_agents_go_on_with_what_was_restored(
    source: str, target: str, new_store: NewStore, tmp_path: Path
) -> None:
    old, new = new_store(source), new_store(target)
    fill(old)
    with sync.open(old) as store:
        feed = store.thread("s-9", user="u-1")
        seen = list(feed.changes(follow=False))[-1].cursor
    backup(old, str(tmp_path / "a.backup"))
    restore(str(tmp_path / "a.backup"), new)
    with sync.open(new) as store:
        thread = store.thread("s-9", user="u-1")
        turn = (
            {"role": "user", "content": "8? é \x00 😀"},
            {"role": "assistant", "content": "!" * 8},
        )
        assert thread.append(*turn, key="turn-8").status == "duplicate"
        with pytest.raises(stateward.KeyReusedError):
            thread.append({"role": "user", "content": "other"}, key="turn-8")
        with pytest.raises(stateward.NotYoursError):
            store.thread("s-9", user="u-2").load()
        thread.append({"role": "user", "content": "new"})
        assert [c.message["content"] for c in thread.changes(after=seen, follow=False)] == ["new"]
        assert store.once("charge-1", lambda: pytest.fail("it has run")) == {"paid": 7}
        store.workflow("refund-2").signal("approval", {"granted": True})
        with store.workflow("refund-2", kind="refund", user="u-2") as run:
            assert run.step("fetch", lambda: pytest.fail("it was recorded")) == 1
            assert run.wait("approval", timeout=1e6) == {"granted": True}
        acted = store.thread("s-6", user="u-2")
        assert acted.effect("call/1", never, 7, name="charge") == {"paid": 7}
        with pytest.raises(ValueError, match="no such card"):
            acted.effect("call-2", never, name="charge")
        with pytest.raises(stateward.EffectUnknown) as caught:
            acted.effect("call-3", never, name="charge")
        assert [info.id for info in store.effects("unknown")] == [caught.value.effect]
        with store.workflow("refund-3") as run:
            assert run.effect("pay", never) == 5
            run.wait("approval")
        events = store.journal("events")
        assert events.append({"n": 3}, key="e-3").status == "duplicate", "though it was trimmed"
        assert events.fold(lambda total, event: total + event["n"], 0).state == sum(range(30))
        assert {t.id for t in store.threads(user="u-2")} == {"s-2", "s-5", "s-6"}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_lease_is_nobodys_after_a_restore_and_its_token_is_too_old(
    source: str, target: str, new_store: NewStore, tmp_path: Path
) -> None:
    old, new = new_store(source), new_store(target)
    with sync.open(old) as store, store.lock("inventory", ttl=30) as lease:
        backup(old, str(tmp_path / "a.backup"))
        token = lease.token
        restore(str(tmp_path / "a.backup"), new)
        with sync.open(new) as other, other.lock("inventory", ttl=30) as taken:
            assert taken.token > token
        engine = create_sync_engine(parse(new), World())
        engine.open()
        late = Commit(Entity("default", "lock", "inventory"), "late", (Release(token, "any"),))
        assert type(engine.execute([late])[0]).__name__ == "Fenced"
        engine.close()


def test_a_namespace_is_backed_up_alone_and_restored_under_any_name(
    new_store: NewStore, tmp_path: Path
) -> None:
    url = new_store("sqlite")
    for name in ("one", "two", "one\x00"):
        with sync.open(url, namespace=name) as store:
            store.thread("s").append({"in": name})
    path = str(tmp_path / "a.backup")
    assert backup(url, path, namespace="two").messages == 1
    assert restore(path, url, namespace="three").namespace == "three"
    assert everything(url, "three") == everything(url, "two")
    copy(url, url, namespace="one\x00", to="four")
    assert everything(url, "four") == everything(url, "one\x00")
    with sync.open(url, namespace="four") as store:
        assert store.thread("s").load().messages == [{"in": "one\x00"}]
    assert backup(url, str(tmp_path / "none"), namespace="none").entities == 0
    assert restore(str(tmp_path / "none"), url, namespace="nothing").entities == 0


def test_long_logs_and_large_messages_come_in_parts(new_store: NewStore, tmp_path: Path) -> None:
    old, new = new_store("sqlite"), new_store("sqlite")
    with sync.open(old) as store:
        for start in range(0, 5000, 500):
            store.thread("long").append(
                *({"n": n} for n in range(start, start + 500)), key=f"{start}"
            )
        for number in range(10):
            store.thread("large").append({"text": f"{number}" * 900_000})
        for number in range(30):
            store.user("u").put({"text": "é" * 100_000}, f"{number}")
    made = backup(old, str(tmp_path / "a.backup"))
    assert (made.messages, made.documents) == (5010, 30)
    restore(str(tmp_path / "a.backup"), new)
    assert everything(new) == everything(old)
    with sync.open(new) as store:
        assert store.thread("long").append(*({"n": n} for n in range(500)), key="0").version == 500


def test_what_expires_meanwhile_does_no_harm(new_store: NewStore, tmp_path: Path) -> None:
    old, new = new_store("sqlite"), new_store("sqlite")
    fill(old)
    path = str(tmp_path / "a.backup")
    backup(old, path)

    class Tomorrow(World):
        def now(self) -> float:
            return super().now() + 40 * 86_400

    restore(path, new)
    with sync.open(new, world=Tomorrow()) as store:
        assert list(store.threads()) == []
        assert store.user("u-1").get().value["name"] == "Noor"
    assert everything(new) == everything(old)


def test_an_effect_that_is_tried_again_in_a_copy_has_the_key_of_its_first_try(
    new_store: NewStore,
) -> None:
    url, keys = new_store("sqlite"), []

    def pay() -> str:
        keys.append(stateward.idempotency_key())
        if len(keys) == 1:
            raise TimeoutError("no reply")
        return "paid"

    with sync.open(url) as store, pytest.raises(stateward.EffectUnknown) as caught:
        store.thread("t", user="u").effect("c", pay, keyed=True)
    copy(url, url, to="elsewhere")
    with sync.open(url, namespace="elsewhere") as store:
        (info,) = store.effects("unknown")
        assert store.thread("t", user="u").effect("c", pay, keyed=True) == "paid"
    assert {caught.value.key, info.key, *keys} == {keys[0]}
    assert len(keys) == 2
