"""Names of keys and members of the index: any id is data, none ever becomes syntax.

The key space is described at the head of `lua/commit.lua`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote
from zlib import crc32

from stateward.engines.redis.client.slots import absent
from stateward.ops import Entity

ROOT = "stateward:"
SHARDS = 16  # of the sweep index, so that no single slot of a cluster holds it all


class EntityKeys(NamedTuple):
    """Where one entity lives."""

    tag: str
    head: str
    own: tuple[str, ...]  # head, log, marks, docs, names, ops, ops2, keys, keys2
    none: str  # which never exists: see the head of `lua/commit.lua`
    kinds: str
    ids: str
    statuses: str
    due: str
    sweep: str
    kind: bytes  # the kind as members of an index begin with it
    touched: str
    owners: str


@lru_cache(maxsize=4096)
def keys_of(entity: Entity) -> EntityKeys:
    """All names that follow from an entity's address."""
    tag = ":".join(map(_quoted, entity))
    head = f"{ROOT}{{{tag}}}"
    ids = kind_index(entity.namespace, entity.kind)
    return EntityKeys(
        tag,
        head,
        (
            head,
            f"{head}:log",
            f"{head}:marks",
            f"{head}:docs",
            f"{head}:names",
            f"{head}:ops",
            f"{head}:ops2",
            f"{head}:keys",
            f"{head}:keys2",
        ),
        absent(head),
        kinds_index(entity.namespace),
        ids,
        f"{ids}:status",
        f"{ids}:due",
        sweep_index(crc32(tag.encode()) % SHARDS),
        sortable(entity.kind),
        f"{ids}:touched",
        owners_index(entity.namespace),
    )


def heads_of(namespace: str, kind: str) -> str:
    """What the heads of a kind begin with; the id and a brace follow."""
    return f"{ROOT}{{{_quoted(namespace)}:{_quoted(kind)}:"


def entity_of(tag: str) -> Entity:
    """The entity of a tag."""
    namespace, kind, id = tag.split(":")
    return Entity(unquote(namespace), unquote(kind), unquote(id))


def kinds_index(namespace: str) -> str:
    return f"{ROOT}kinds:{{{_quoted(namespace)}}}"


def kind_index(namespace: str, kind: str) -> str:
    return f"{ROOT}kind:{{{_quoted(namespace)}:{_quoted(kind)}}}"


def owner_index(namespace: str, owner: str) -> str:
    return f"{ROOT}owner:{{{_quoted(namespace)}:{_quoted(owner)}}}"


@lru_cache(maxsize=4096)
def touched_index(namespace: str, kind: str, owner: str) -> str:
    """Where what an owner has of one kind stands by the minute it was last touched in."""
    return f"{owner_index(namespace, owner)}:touched:{_quoted(kind)}"


def touched_frame(namespace: str, kind: str) -> tuple[str, str]:
    """What stands before the owner, and after it, in the names of `touched_index`."""
    return f"{ROOT}owner:{{{_quoted(namespace)}:", f"}}:touched:{_quoted(kind)}"


def owners_index(namespace: str) -> str:
    return f"{ROOT}owners:{{{_quoted(namespace)}}}"


def format_mark(namespace: str) -> str:
    """Where it says whether all that a namespace has is in every index: see `backfill.py`."""
    return f"{ROOT}format:{{{_quoted(namespace)}}}"


def namespace_of(index: str) -> str:
    """The namespace whose index of kinds has this name."""
    return unquote(index[index.index("{") + 1 : -1])


def sweep_index(shard: int) -> str:
    return f"{ROOT}sweep:{{{shard}}}"


def sortable(word: str) -> bytes:
    """The word as the beginning of a member, so that members sort by it and then by the rest.

    NUL ends it; a NUL inside is followed by FF, which no text in UTF-8 contains.
    """
    return word.encode().replace(b"\x00", b"\x00\xff") + b"\x00"


def split_member(member: bytes) -> tuple[str, bytes]:
    """The first word of a member, and the rest."""
    end = member.index(b"\x00")
    if not member.startswith(b"\xff", end + 1):
        return member[:end].decode(), member[end + 1 :]
    while member[end + 1 : end + 2] == b"\xff":
        end = member.index(b"\x00", end + 1)
    return member[:end].replace(b"\x00\xff", b"\x00").decode(), member[end + 1 :]


def _quoted(word: str) -> str:
    return quote(word, safe="")
