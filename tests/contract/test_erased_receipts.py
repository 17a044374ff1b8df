"""Erasing a user leaves no byte of what their agents were given."""

from __future__ import annotations

from pathlib import Path

from stateward import sync

CANARY = "canary-6f1d"


def found_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if CANARY.encode() in file.read_bytes()]


def test_erasing_a_user_leaves_no_byte_of_their_receipts(tmp_path: Path) -> None:
    with sync.open(f"sqlite:///{tmp_path / 'agents.db'}", spill=False) as store:
        for user, secret in (("u", CANARY), ("v", "plain")):
            store.user(user).put({"likes": secret}, secret)
            thread = store.thread(f"of-{user}", user=user)
            for number in range(3):
                context = store.context(user=user, thread=f"of-{user}")
                said = thread.append({"role": "user", "content": str(number)}, saw=context)
            assert list((store.knew(f"of-{user}", said.version) or context).user) == [secret]
        assert found_in(tmp_path)
        store.user("u").erase()
        assert store.knew("of-v", 3, user="v") is not None
    assert found_in(tmp_path) == []
