"""A file is written whole and read strictly: anything that is not as it was written is refused."""

from __future__ import annotations

import gzip
import json
import os
import stat
import tracemalloc
import zlib
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stateward
from backup.conftest import NewStore
from backup.states import everything, fill
from stateward import sync
from stateward.kinds import SERVICE_NAMESPACE
from stateward.server.asker import OWN_NAMESPACE
from stateward.transfer.backup import backup, restore, verify
from stateward.transfer.format import _stored


@pytest.fixture
def small(new_store: NewStore, tmp_path: Path) -> Path:
    """A backup of a few hundred bytes."""
    url = new_store("memory")
    with sync.open(url) as store:
        store.thread("s-1").append({"n": 1}, key="k")
        store.user("u").put({"n": 2})
    path = tmp_path / "small.backup"
    backup(url, str(path))
    return path


def refused(path: Path, word: str, into: str) -> None:
    """By all who read it, before anything is written."""
    for read in (lambda: verify(str(path)), lambda: restore(str(path), into)):
        with pytest.raises(stateward.BackupDamaged, match=word):
            read()
    assert everything(into) == []


def test_it_is_json_lines_that_gzip_shows(small: Path) -> None:
    lines = [json.loads(line) for line in gzip.decompress(small.read_bytes()).splitlines()]
    kinds = [line["is"] for line in lines]
    assert kinds == ["backup", "entity", "entry", "entity", "document", "entry", "end"]
    assert lines[0] == {
        "is": "backup",
        "format": 1,
        "namespace": "default",
        "moment": "store",
        "engine": "memory",
        "engine_version": "1",
        "release": stateward.__version__,
        "taken_at": lines[0]["taken_at"],
    }
    assert lines[2]["body"] == '{"n":1}'
    end = lines[-1]
    assert (end["entities"], end["messages"], end["documents"]) == (2, 1, 1)


def test_the_sum_of_its_last_line_is_over_all_bytes_before(small: Path) -> None:
    data = small.read_bytes()
    at = data.rindex(b"\x1f\x8b\x08")
    end = json.loads(gzip.decompress(data[at:]))
    assert end["sha256"] == sha256(data[:at]).hexdigest() == verify(str(small)).sha256


def test_only_its_owner_can_read_it(small: Path) -> None:
    assert stat.S_IMODE(small.stat().st_mode) == 0o600


def test_every_byte_that_is_missing_at_the_end_is_noticed(small: Path, new_store: NewStore) -> None:
    data = small.read_bytes()
    into = new_store("memory")
    for size in range(len(data)):
        small.write_bytes(data[:size])
        with pytest.raises(stateward.BackupDamaged):
            verify(str(small))
    refused(small, "cut off", into)


def test_every_flipped_bit_is_noticed(small: Path, new_store: NewStore) -> None:
    data = small.read_bytes()
    for at in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[at] ^= 1 << bit
            small.write_bytes(broken)
            with pytest.raises(stateward.BackupDamaged):
                verify(str(small))
    refused(small, "not a complete backup", new_store("memory"))


def test_damage_anywhere_in_a_large_one_is_noticed(new_store: NewStore, tmp_path: Path) -> None:
    url, into = new_store("memory"), new_store("memory")
    noise = Random(7)
    with sync.open(url) as store:
        for number in range(20):
            texts = ({"t": noise.randbytes(3000).hex()} for _ in range(20))
            store.thread(f"s-{number}").append(*texts)
    path = tmp_path / "large.backup"
    backup(url, str(path))
    data = path.read_bytes()
    assert len(data) > 1_000_000
    for at in [noise.randrange(len(data)) for _ in range(60)]:
        change = noise.choice(("flip", "cut", "drop", "double"))
        if change == "flip":
            broken = data[:at] + bytes([data[at] ^ (1 << noise.randrange(8))]) + data[at + 1 :]
        elif change == "cut":
            broken = data[:at]
        elif change == "drop":
            broken = data[:at] + data[at + 4096 :]
        else:
            broken = data[: at + 100] + data[at:]
        path.write_bytes(broken)
        refused(path, "not a complete backup", into)


def test_members_that_change_places_are_noticed(new_store: NewStore, tmp_path: Path) -> None:
    url = new_store("memory")
    with sync.open(url) as store:
        for number in range(20):
            store.thread(f"s-{number}").append(*({"t": f"{n}" * 900} for n in range(50)))
    path = tmp_path / "a.backup"
    backup(url, str(path))
    data = path.read_bytes()
    members = split(data)
    assert len(members) > 4
    for broken in (
        [members[0], members[2], members[1], *members[3:]],
        [members[0], *members[2:]],
        [*members, members[-1]],
        [members[0], *members],
        members[1:],
        [*members[:-1], gzip.compress(gzip.decompress(members[-1]))],
    ):
        path.write_bytes(b"".join(broken))
        with pytest.raises(stateward.BackupDamaged, match="not a complete backup"):
            verify(str(path))
    path.write_bytes(b"".join(members))
    verify(str(path))


def split(data: bytes) -> list[bytes]:
    members = []
    while data:
        unpacker = zlib.decompressobj(31)
        unpacker.decompress(data)
        size = len(data) - len(unpacker.unused_data)
        members.append(data[:size])
        data = data[size:]
    return members


def written(*lines: Any) -> bytes:
    """A file with these lines and a right sum."""
    first = gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    counts = {
        "entities": sum(line["is"] == "entity" for line in lines),
        "messages": sum(line["is"] == "entry" for line in lines),
        "documents": sum(line["is"] == "document" for line in lines),
    }
    end = {"is": "end", **counts, "sha256": sha256(first).hexdigest()}
    return first + _stored(json.dumps(end).encode() + b"\n")


HEADER: dict[str, Any] = {
    "is": "backup",
    "format": 1,
    "namespace": "n",
    "moment": "store",
    "engine": "e",
    "engine_version": "1",
    "release": "0",
    "taken_at": "",
}
ENTITY = {
    "is": "entity",
    "kind": "k",
    "id": "i",
    "created": 1,
    "updated": 1,
    "commits": 1,
    "version": 2,
}
ENTRY = {"is": "entry", "seq": 1, "at": 1, "stamp": "s", "body": "1"}


def test_another_program_can_write_one(tmp_path: Path, new_store: NewStore) -> None:
    path, into = tmp_path / "a.backup", new_store("sqlite")
    path.write_bytes(written(HEADER, ENTITY, ENTRY, {**ENTRY, "seq": 2, "more": "is ignored"}))
    assert restore(str(path), into).messages == 2
    assert len(everything(into, "n")) == 3


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        ((HEADER, ENTRY), "belongs to nothing"),
        ((HEADER, ENTITY, ENTRY, ENTRY), "out of order"),
        ((HEADER, ENTITY, {**ENTRY, "seq": 3}), "out of order"),
        ((HEADER, HEADER), "begins twice"),
        ((HEADER, {"is": "unheard of"}), "cannot be read"),
        ((HEADER, {**ENTITY, "id": None}), "cannot be read"),
        ((ENTITY,), "does not start"),
        ((), "not complete"),
        (({**HEADER, "format": 2},), "newer release"),
    ],
)
def test_what_makes_no_sense_is_refused_though_its_sum_is_right(
    lines: tuple[Any, ...], word: str, tmp_path: Path, new_store: NewStore
) -> None:
    path = tmp_path / "a.backup"
    path.write_bytes(written(*lines))
    refused(path, word, new_store("memory"))


@pytest.mark.parametrize(
    "data",
    [b"", b"SQLite format 3\x00" * 99, gzip.compress(b"hello\n" * 9)],
    ids=["empty", "a database", "compressed"],  # gzip writes the time: no two runs agree on it
)
def test_what_is_no_backup_is_refused(data: bytes, tmp_path: Path, new_store: NewStore) -> None:
    path = tmp_path / "a.backup"
    path.write_bytes(data)
    refused(path, "not a complete backup", new_store("memory"))


def test_a_bomb_is_refused_before_memory_is_full(tmp_path: Path, new_store: NewStore) -> None:
    path = tmp_path / "a.backup"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(b" " * (1 << 20)) for _ in range(300)]
    path.write_bytes(b"".join(parts) + packer.flush())
    refused(path, "too large", new_store("memory"))


@pytest.mark.parametrize("megabytes", [20, 100])
@pytest.mark.parametrize("ends", [True, False], ids=["whole", "cut"])
def test_a_small_file_takes_little_memory_to_refuse(
    megabytes: int, ends: bool, tmp_path: Path
) -> None:
    """Whatever it unpacks to: one line that ends, or a line that does not."""
    path = tmp_path / "a.backup"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(b'{"is":"entity","kind":"thread","id":"')]
    parts += (packer.compress(b" " * (1 << 20)) for _ in range(megabytes))
    parts.append(packer.compress(b'"}\n' if ends else b""))
    path.write_bytes(b"".join(parts) + packer.flush())
    tracemalloc.start()
    try:
        with pytest.raises(stateward.BackupDamaged):
            verify(str(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80_000_000


def test_a_line_of_many_levels_is_refused(tmp_path: Path, new_store: NewStore) -> None:
    path = tmp_path / "a.backup"
    line = b'{"is":"entity","x":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n"
    path.write_bytes(gzip.compress(line))
    refused(path, "cannot be read", new_store("memory"))


def test_keys_of_the_service_are_restored_only_where_they_are_asked_for(
    tmp_path: Path, new_store: NewStore
) -> None:
    own = OWN_NAMESPACE
    assert own == SERVICE_NAMESPACE
    url, into = new_store("memory"), new_store("memory")
    with sync.open(url, namespace=own) as store:
        store.shared("x").put({"n": 1})
    path = str(tmp_path / "a.backup")
    backup(url, path, namespace=own)
    with pytest.raises(stateward.InvalidInput, match="--namespace stateward"):
        restore(path, into)
    with sync.open(into, namespace=own) as store:
        assert not store.shared("x").get().exists
    restore(path, into, namespace=own)
    with sync.open(into, namespace=own) as store:
        assert store.shared("x").get().value == {"n": 1}


@pytest.mark.parametrize("text", ["x", "random"])
def test_a_line_that_is_longer_than_any_trap_is_read_back(
    new_store: NewStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """The limit is lowered here: a document of 24 MiB would take long to wait for."""
    monkeypatch.setattr("stateward.transfer.format.LARGEST_MEMBER", 1 << 18)
    url, into = new_store("memory"), new_store("memory")
    with sync.open(url) as store:
        blob = text * (1 << 19) if text == "x" else Random(1).randbytes(1 << 18).hex()
        store.shared("x").put({"blob": blob})
    path = str(tmp_path / "a.backup")
    made = backup(url, path)
    assert verify(path) == made
    restore(path, into)
    assert everything(into) == everything(url)


def test_a_file_that_exists_is_not_overwritten(small: Path, new_store: NewStore) -> None:
    before = small.read_bytes()
    with pytest.raises(stateward.InvalidInput, match="exists already"):
        backup(new_store("memory"), str(small))
    assert small.read_bytes() == before


def test_a_backup_that_fails_leaves_nothing_behind(new_store: NewStore, tmp_path: Path) -> None:
    url = new_store("memory")
    fill(url)
    folder = tmp_path / "empty"
    folder.mkdir()

    def stop(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup(url, str(folder / "a.backup"), progress=stop)
    assert os.listdir(folder) == []
    with pytest.raises(stateward.InvalidInput, match="cannot write"):
        backup(url, str(tmp_path / "no folder" / "a.backup"))
    with pytest.raises(stateward.InvalidInput, match="cannot be read"):
        verify(str(folder / "a.backup"))


def test_a_store_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(stateward.StoreUnavailable, match="no store"):
        backup(f"sqlite:///{tmp_path}/typo.db", str(tmp_path / "a.backup"))
    assert os.listdir(tmp_path) == []
