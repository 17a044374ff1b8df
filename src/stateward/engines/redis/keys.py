"""Names of keys and members of the index: any id is data, none ever becomes syntax.

The key space is described at the head of `lua/commit.lua`. Names are made when they are needed:
those of one entity would take more memory than all else that a process keeps of it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote
from zlib import crc32

from stateward.engines.redis.client.slots import SLOTS, absent, slot_of
from stateward.ops import Entity

ROOT = "stateward:"
SHARDS = 16  # of the sweep index on one server
# The index of a cluster has as many parts as there are tags here. The nth has the entities of the
# nth of as many equal ranges of slots, and its tag is of a slot in the middle of that range: so a
# node mostly has the index of what it has itself. 24 is shared evenly by 2, 3, 4, 6, 8 or 12.
TAGS = (
    *("p60", "p51", "p131", "p11", "p157", "p3", "p61", "p50", "p130", "p10", "p29", "p2"),
    *("p62", "p53", "p40", "p160", "p155", "p1", "p63", "p52", "p41", "p161", "p154", "p4"),
)
PARTS = range(len(TAGS))
OWN = ("log", "marks", "docs", "names", "ops", "ops2", "keys", "keys2")  # beside the head


_is_plain = re.compile("[A-Za-z0-9_.~-]*").fullmatch  # characters that need no quoting


class EntityKeys(NamedTuple):
    """Names of the keys of one entity."""

    tag: str
    head: str
    own: tuple[str, ...]  # the head, and beside it what `OWN` names
    none: str  # a key that never exists: see `lua/commit.lua`
    kinds: str
    ids: str
    statuses: str
    due: str
    sweep: str
    kind: bytes  # the kind as members of an index begin with it
    touched: str
    owners: str


def head_key(entity: Entity) -> str:
    """Return the name of the entity's head, which begins all of its keys. The name is ASCII."""
    namespace, kind, id = entity
    return f"{heads_of(namespace, kind)}{id if _is_plain(id) else quote(id, safe='')}}}"


@lru_cache(maxsize=64)  # more than one batch has
def keys_of(entity: Entity) -> EntityKeys:
    """Return all names that follow from an entity's address."""
    head = head_key(entity)
    tag = head[len(ROOT) + 1 : -1]
    ids = kind_index(entity.namespace, entity.kind)
    return EntityKeys(
        tag,
        head,
        (head, *[f"{head}:{part}" for part in OWN]),
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


@lru_cache(maxsize=64)
def spread_keys(entity: Entity) -> EntityKeys:
    """Return the names on a cluster, where most indexes have a part for the entity's slot."""
    keys, part = keys_of(entity), part_of(entity)
    ids = kind_index(entity.namespace, entity.kind, part)
    return keys._replace(
        kinds=kinds_index(entity.namespace, part),
        ids=ids,
        statuses=f"{ids}:status",
        due=f"{ids}:due",
        sweep=f"{ROOT}sweep:{{{TAGS[part]}}}",
        touched=f"{ids}:touched",
        owners=owners_index(entity.namespace, part),
    )


def part_of(entity: Entity) -> int:
    """The part of a cluster's index that an entity is in."""
    return slot_of(head_key(entity)) * len(PARTS) // SLOTS


@lru_cache(maxsize=256)
def heads_of(namespace: str, kind: str) -> str:
    """Return the beginning of the names of a kind's heads; the id and a brace follow."""
    return f"{ROOT}{{{_quoted(namespace)}:{_quoted(kind)}:"


def entity_of(tag: str) -> Entity:
    """The entity of a tag."""
    namespace, kind, id = tag.split(":")
    return Entity(unquote(namespace), unquote(kind), unquote(id))


def kinds_index(namespace: str, part: int | None = None) -> str:
    return _index("kinds", part, namespace)


@lru_cache(maxsize=1024)  # of each kind, as many as a cluster's index has parts
def kind_index(namespace: str, kind: str, part: int | None = None) -> str:
    return _index("kind", part, namespace, kind)


def owner_index(namespace: str, owner: str) -> str:
    return _index("owner", None, namespace, owner)


def touched_index(namespace: str, kind: str, owner: str, part: int | None = None) -> str:
    """Return the name of an owner's index of one kind by the minute of the last touch."""
    return f"{_index('owner', part, namespace, owner)}:touched:{_quoted(kind)}"


def owners_index(namespace: str, part: int | None = None) -> str:
    return _index("owners", part, namespace)


def _index(what: str, part: int | None, *words: str) -> str:
    """Return the name of an index, or of its part on a cluster."""
    text = ":".join(map(_quoted, words))
    return (
        f"{ROOT}{what}:{{{text}}}" if part is None else f"{ROOT}part:{{{TAGS[part]}}}:{what}:{text}"
    )


WHOLE_KINDS = f"{ROOT}kinds:{{*}}"  # pattern of the names of indexes of kinds
PARTS_OF_KINDS = f"{ROOT}part:{{*}}:kinds:*"


def namespace_of(index: str) -> str:
    """The namespace whose index of kinds has this name."""
    return unquote(index[index.index("{") + 1 : -1] if index[-1] == "}" else index.split(":")[-1])


def sweep_index(shard: int) -> str:
    return f"{ROOT}sweep:{{{shard}}}"


SWEPT = tuple(map(sweep_index, range(SHARDS)))
SWEPT_PARTS = tuple(f"{ROOT}sweep:{{{tag}}}" for tag in TAGS)


def sortable(word: str) -> bytes:
    """Return the word as the beginning of a member, for members sorted by word, then the rest.

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
    return word if _is_plain(word) else quote(word, safe="")
