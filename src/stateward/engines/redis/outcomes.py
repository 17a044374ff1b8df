"""Conversion of the server's answers into outcomes of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

import msgspec

from stateward.engine import MINUTE
from stateward.errors import SchemaError
from stateward.ops import Applied, Entry, Head, Lease, Value

_decode_parts = msgspec.json.Decoder(list[str]).decode


TIP = Struct("<7dI")  # the stamp follows: see `commit.lua`
UNUSUAL = frozenset((b"status", b"label", b"due", b"base", b"holes", b"dropped", b"nonce"))
TOUCH = ("tip", "owner", "created")  # fields of a head that `touch_of` reads


def head_of(flat: Sequence[bytes], now: float) -> tuple[Head, bool]:
    """The head of a flat list of fields and values as `HGETALL` gives it, and if it exists."""
    return head_from(fields_in(flat), now)


def fields_in(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the answer to `HGETALL` by field."""
    parts = iter(flat)
    return dict(zip(parts, parts, strict=True))


def head_from(fields: dict[bytes, bytes], now: float) -> tuple[Head, bool]:
    """Return the head of these fields, and if it exists."""
    get = fields.get
    tip = get(b"tip")
    if tip is None:
        if b"created" in fields:
            raise other_format()
        return gone_head(fields), False
    number, commits, updated, expires, retain, _, _, size = TIP.unpack_from(tip)
    if 0 < expires <= now:
        return gone_head(fields, int(commits)), False
    version, stamp = int(number), tip[TIP.size : TIP.size + size].decode()
    owner = get(b"owner", b"").decode()
    created, life = float(fields[b"created"]), int(fields[b"life"])
    status, label, base, live, dropped = "", "", 0, version, 0.0
    due: float | None = None
    lease: Lease | None = None
    if not UNUSUAL.isdisjoint(fields):  # disjoint for most conversations and users
        status, label = get(b"status", b"").decode(), get(b"label", b"").decode()
        due = float(fields[b"due"]) if get(b"due") else None
        base = int(get(b"base") or 0)
        live = version - base - int(get(b"holes") or 0)
        dropped = float(get(b"dropped") or 0)
        lease = _lease(fields) if get(b"nonce") else None
    head = Head(
        True,
        owner,
        status,
        label,
        due,
        retain or None,
        expires or None,
        created,
        updated,
        version,
        stamp,
        base,
        live,
        int(commits),
        life,
        dropped,
        lease,
    )
    return head, True


def gone_head(fields: dict[bytes, bytes], commits: int | None = None) -> Head:
    """Return the head of an entity that does not exist."""
    return Head(
        commits=int(fields.get(b"commits", b"0")) if commits is None else commits,
        life=int(fields.get(b"life", b"0")),
        dropped=float(fields.get(b"dropped") or 0),
    )


def other_format() -> SchemaError:
    """Return the error for a head that has no tip."""
    return SchemaError(
        "this store has data in a format that this release cannot read. With the version that "
        "wrote it, run 'stateward backup', and restore the backup into a new store"
    )


def times_of(tip: bytes) -> tuple[float, float]:
    """Return when an entity was touched last, and when it expires; 0: never."""
    _, _, updated, expires, *_ = TIP.unpack_from(tip)
    return updated, expires


def touch_of(fields: Sequence[bytes | None]) -> tuple[int, str] | None:
    """Return the minute of an entity's last touch, and its owner; None if it is absent."""
    tip, owner, created = fields
    if tip is None:
        if created is not None:
            raise other_format()
        return None
    return int(times_of(tip)[0] // MINUTE), (owner or b"").decode()


def _lease(fields: dict[bytes, bytes]) -> Lease:
    """Return a lease without its nonce, as the nonce would let others pass for the holder."""
    return Lease(
        int(fields[b"token"]),
        "",
        fields.get(b"holder", b"").decode(),
        float(fields[b"granted"]),
        float(fields[b"until"]),
    )


def seen_head(flat: Sequence[bytes], exists: int) -> Head:
    """The head that a script has shown; it has already decided if the entity exists."""
    if exists:
        return head_of(flat, -1.0)[0]
    return gone_head(fields_in(flat))


def applied_of(record: bytes, op: str) -> Applied:
    """Return an outcome from its remembered form; see `outcome` in `commit.lua`."""
    if record.startswith(b"["):
        return _applied_with_parts(_decode_parts(record))
    version, at, created, *stamp = record.split(b" ", 3)
    return Applied(
        int(version), stamp[0].decode() if stamp else op, float(at), created=created == b"1"
    )


def _applied_with_parts(parts: list[str]) -> Applied:
    version, at, created, stamp, token, nonce, holder, granted, until, *documents = parts
    lease = Lease(int(token), nonce, holder, float(granted), float(until)) if token else None
    return Applied(
        int(version),
        stamp,
        float(at),
        {documents[i]: int(documents[i + 1]) for i in range(0, len(documents), 2)},
        lease,
        created == "1",
    )


def value_of(json: bytes, meta: bytes) -> Value:
    version, updated, log, stamp = meta.split(b" ", 3)
    return Value(json.decode(), int(version), stamp.decode(), float(updated), int(log))


def values_of(flat: Sequence[bytes]) -> dict[str, Value]:
    """Documents from name, value and meta in turn."""
    return {flat[i].decode(): value_of(flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)}


def named_values(names: Sequence[str], flat: Sequence[bytes | None]) -> dict[str, Value]:
    """Documents from the answer of `HMGET =name @name …`; those that are missing are left out."""
    values: dict[str, Value] = {}
    for index, name in enumerate(names):
        json, meta = flat[2 * index : 2 * index + 2]
        if json is not None and meta is not None:
            values[name] = value_of(json, meta)
    return values


def all_values(flat: Sequence[bytes]) -> dict[str, Value]:
    """Documents from the answer of `HGETALL`, by name."""
    fields = fields_in(flat)
    names = sorted(field[1:] for field in fields if field.startswith(b"="))
    return {name.decode(): value_of(fields[b"=" + name], fields[b"@" + name]) for name in names}


def head_for_backup(head: Head, flat: Sequence[bytes]) -> Head:
    """Return the head with fields that only a backup needs."""
    fields = fields_in(flat)
    stamp, token = fields.get(b"base_stamp", b"").decode(), int(fields.get(b"token") or 0)
    return msgspec.structs.replace(head, base_stamp=stamp, token=token)


def entries_of(
    numbers: Sequence[int],
    bodies: Sequence[bytes],
    marks: Sequence[bytes],
    digests: Sequence[bytes] = (),
    notes: Sequence[bytes] = (),
) -> tuple[Entry, ...]:
    """Entries with their details, from what `fetch.lua` answers."""
    parts = zip(numbers, bodies, marks, strict=True)
    entries = tuple(_entry(number, body, mark) for number, body, mark in parts)
    if not digests:
        return entries
    return tuple(
        msgspec.structs.replace(entry, digest=_signed(digest), note=note.decode() or None)
        if digest or note
        else entry
        for entry, digest, note in zip(entries, digests, notes, strict=True)
    )


def _signed(digest: bytes) -> int | None:
    if not digest:
        return None
    return int.from_bytes(bytes.fromhex(digest.decode()), "big", signed=True)


def _entry(number: int, body: bytes, mark: bytes) -> Entry:
    at, size, rest = mark[1:].split(b" ", 2)
    if size == b"-":
        return Entry(number, float(at), body.decode(), rest.decode())
    stamp, key = rest[: int(size)].decode(), rest[int(size) :].decode()
    return Entry(number, float(at), body.decode(), stamp, key if mark.startswith(b"1") else None)


def time_of(reply: Sequence[Any]) -> float:
    """The answer of `TIME`."""
    return int(reply[0]) + int(reply[1]) * 1e-6
