"""Everything is an entity, and a change to an entity is a value.

This file holds those values: the four operations of an engine, the checks and writes of a
commit, and every outcome an engine can answer. They are plain frozen data, so the same few
structs can be batched, coalesced, wrapped, recorded, replayed, made to fail by a test, or
sent over a wire. `engine.py` defines their exact meaning.

An entity is `(namespace, kind, id)` and has

- a head: owner, status, due, retention, versions;
- one log of entries, numbered 1, 2, 3 … by the engine;
- named documents, each with its own version;
- one lease.

Bodies and values are JSON text. Engines store them byte for byte and never look inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Literal, NamedTuple

from msgspec import Struct


class Entity(NamedTuple):
    """The address of an entity: any non-empty strings, compared byte for byte."""

    namespace: str
    kind: str
    id: str


# --- what a commit may check ------------------------------------------------------------


class LogAt(Struct, frozen=True, tag=True):
    """The log has this version; with a stamp, it also has the same history."""

    version: int
    stamp: str | None = None


class DocumentAt(Struct, frozen=True, tag=True):
    """The document has this version (0: it is missing); with a stamp, put by that op."""

    name: str
    version: int
    stamp: str | None = None


class Absent(Struct, frozen=True, tag=True):
    """The entity does not exist (never did, was dropped, or has expired)."""


class StatusIn(Struct, frozen=True, tag=True):
    """The head's status is one of these; an absent entity has the status ""."""

    statuses: tuple[str, ...]


class Fence(Struct, frozen=True, tag=True):
    """The entity's lease is still the one granted with this token and nonce."""

    token: int
    nonce: str


class CommitsAt(Struct, frozen=True, tag=True):
    """Nothing was committed to the entity since `Head.commits` had this value."""

    commits: int


class NotDroppedSince(Struct, frozen=True, tag=True):
    """The entity was not dropped at or after this time of the engine's clock.

    For delayed writes, which must not bring back what was deleted.
    """

    at: float


class Unheld(Struct, frozen=True, tag=True):
    """The lease is free; otherwise the commit is refused with `Held`."""


NOWHERE = LogAt(-1)  # never holds: a commit with this check only searches for its key

Check = Unheld | LogAt | DocumentAt | Absent | StatusIn | Fence | CommitsAt | NotDroppedSince


# --- what a commit may write ------------------------------------------------------------


class Append(Struct, frozen=True, tag=True):
    """Add entries to the log, adjacent and in this order.

    `key` is the caller's own name for this append: a second append with the same key is a
    `Duplicate` if it has the same bodies and `KeyReused` if it has not. `takes_first` says that the
    caller accepts the bodies stored first under the key; it is for layers that spill appends, and
    engines ignore it.

    `note` is JSON text about this append that is stored with its last entry. Only `Log.whole`
    returns it. It is not compared with the key, survives a rewrite of the entry, and is removed
    with it.
    """

    bodies: tuple[str, ...]
    key: str | None = None
    takes_first: bool = False
    note: str | None = None


class Put(Struct, frozen=True, tag=True):
    """Create or replace a document."""

    name: str
    value: str


class Delete(Struct, frozen=True, tag=True):
    """Remove a document; nothing happens if it is missing."""

    name: str


class Trim(Struct, frozen=True, tag=True):
    """Remove all entries up to and including this number. The version stays."""

    upto: int


class Replace(Struct, frozen=True, tag=True):
    """Rewrite single entries in place (a body) or remove them (None). The version stays.

    Numbers that the log does not hold are ignored.
    """

    entries: Mapping[int, str | None]


class Acquire(Struct, frozen=True, tag=True):
    """Take the lease, or refuse the whole commit with `Held`.

    The same nonce gets the same lease (and token) again, extended to a full `ttl`.
    """

    nonce: str
    ttl: float
    holder: str = ""


class Renew(Struct, frozen=True, tag=True):
    """Extend the lease to a full `ttl` from now, or refuse the whole commit with `Fenced`."""

    token: int
    nonce: str
    ttl: float


class Release(Struct, frozen=True, tag=True):
    """Give the lease back, or refuse the whole commit with `Fenced`.

    With None for the token the nonce alone decides: for a lease whose grant was never answered.
    """

    token: int | None
    nonce: str


class SetHead(Struct, frozen=True, tag=True):
    """Change head fields; None leaves a field as it is.

    `due` is an absolute time by the engine's clock, `due_in` is counted by the engine from
    now; `due=0` clears it. `retain` is in seconds and restarts the retention from now;
    `retain=0` means for ever.
    """

    status: str | None = None
    label: str | None = None
    owner: str | None = None
    due: float | None = None
    due_in: float | None = None
    retain: float | None = None


class Drop(Struct, frozen=True, tag=True):
    """Remove the entity with log, documents, head and lease, even if it has expired.

    A tombstone keeps the time, the remembered ops and the last lease token for `GRACE`, so that
    a write delayed past the drop cannot bring back what was deleted. It does not keep the names of
    documents: `Duplicate.first.documents` is empty then. Dropping an absent entity leaves a
    tombstone as well.
    """


class Restore(Struct, frozen=True, tag=True):
    """Replace the entity by the one in a backup; the sole write of its commit.

    `head` is stored unchanged (owner, times, version, stamp, base, commits …) with these
    exceptions: `live` is counted, the life is a new one of the engine's own numbering, `dropped`
    and the last lease token (`Head.token`) never decrease, and the lease is free. `entries` keep
    their numbers, times, stamps, keys, digests and notes, as `Log.whole` returns them (a body of ""
    is an entry that was removed); `documents` keep their versions, stamps, times and log versions.
    Everything the entity had before is removed, also the remembered ops.

    A long log, or many documents, come in several commits. Each has the head as it is to be after
    that commit. All but the first are `continued`: they replace the entries from their first to
    their last number and the documents they name, and leave everything else. An append never spans
    two parts. Restoring a part twice has the same effect as once, so this op is neither remembered
    nor counted in `Head.commits`. Checks and owner are checked as for any commit. `Applied` has the
    version and stamp of the head, and `created` if the entity did not exist.
    """

    head: Head
    entries: tuple[Entry, ...] = ()
    documents: Mapping[str, Value] = {}
    continued: bool = False


Write = (
    Append | Put | Delete | Trim | Replace | Acquire | Renew | Release | SetHead | Drop | Restore
)


# --- the four operations ----------------------------------------------------------------


class Commit(Struct, frozen=True, tag=True):
    """Apply all of `writes` to one entity, in order, or none of them.

    `check_shape` checks the combination of writes: at least one; at most one `Append`, one
    `SetHead` and one of `Acquire`, `Renew` and `Release`; no document twice; `Drop` and `Restore`
    alone.

    `op` identifies this logical call: drawn once before the first send, the same in every
    retry. An entity that has already applied it answers `Duplicate` with the first outcome.

    `owner` is the expected owner of the entity ("" is no one): an existing entity of another
    owner answers `NotYours`; a new one is created with this owner. None skips the check, and
    creates an entity without an owner.

    `retain` (seconds, None for ever) applies when this commit creates the entity.
    `reading` names documents whose current values come back with any outcome, so that a
    refused claim can answer with the stored result in the same round trip.
    """

    entity: Entity
    op: str
    writes: tuple[Write, ...]
    checks: tuple[Check, ...] = ()
    owner: str | None = None
    retain: float | None = None
    reading: tuple[str, ...] = ()


class Log(Struct, frozen=True, tag=True):
    """The range of entries to fetch: after `after`, up to and including `upto`.

    At most one of `first` and `last` limits their number, from that end; entries always come
    oldest first. `stamp` is the stamp the caller saw at version `after`: if the log no
    longer agrees, nothing is returned and `Fetched.reset` is set. With `details` the
    entries come one by one with number, time, stamp and key; without, only their text.

    `whole` is for backups, and excludes `last` and `Fetch.known`. It implies `details`; also,
    `Head.token` and `Head.base_stamp` are set, and entries have their `note` and, with a key, its
    `digest`. Traces of removed entries are included with the body "": after the base, of entries
    that ended an append; up to the base, of those whose key is still remembered. `first` counts
    them too.
    """

    after: int = 0
    upto: int | None = None
    first: int | None = None
    last: int | None = None
    stamp: str | None = None
    details: bool = False
    whole: bool = False


class Fetch(Struct, frozen=True, tag=True):
    """Read any parts of one entity, as of one moment.

    `known` gives, by document name, the version and stamp that the caller already has:
    such a document is not sent again but named in `Fetched.unchanged`.
    """

    entity: Entity
    owner: str | None = None
    log: Log | None = None
    documents: tuple[str, ...] = ()
    all_documents: bool = False
    known: Mapping[str, tuple[int, str]] | None = None


class List(Struct, frozen=True, tag=True):
    """List a page of entities, or of one entity's documents (`within`).

    Ordered by the bytes of the id (entities of one kind), by kind and id (`kind=None`: everything
    of an owner or, without an owner, everything), or by name (`within`). `due=True` lists entities
    that are due by the engine's own clock, soonest first. `recent=True`, for one kind, lists the
    last updated first: by the minute of `Head.updated`, which is what engines index, then by id,
    both descending; each page in itself is in the exact order of `Head.updated`. Its cursors are
    JSON text, [minute, kind, id], so that a feed of changes can begin at a minute. An `after` that
    is not a cursor raises `InvalidInput`: see `codec.listing_mark`. `reverse` reverses any order.
    `expired=True` includes entities that have expired but are still stored. `documents` names
    documents to return with each entity; `values=False` leaves the values of a `within` listing
    out.

    `tally` returns counts instead of entities: "kind" by kind; "owner" by owner, ordered by the
    bytes of the owner and page by page, without entities that have no owner. It honours `kind` and
    `owner` alone, and counts expired entities until they are swept.
    """

    namespace: str
    kind: str | None = None
    owner: str | None = None
    prefix: str = ""
    status: str | None = None
    label: str | None = None
    due: bool = False
    recent: bool = False
    expired: bool = False
    within: Entity | None = None
    values: bool = True
    documents: tuple[str, ...] = ()
    reverse: bool = False
    limit: int = 100
    after: str | None = None
    tally: Literal["kind", "owner"] | None = None


class Sweep(Struct, frozen=True, tag=True):
    """Physically remove about `limit` rows at most, of entities that are gone for good."""

    limit: int = 1000


Op = Commit | Fetch | List | Sweep


# --- what comes back --------------------------------------------------------------------


class Lease(Struct, frozen=True, tag=True):
    """A lease as the engine stores it; times are the engine's clock.

    The nonce is returned to the holder alone; elsewhere it is "".
    """

    token: int
    nonce: str
    holder: str
    granted: float
    until: float


class Head(Struct, frozen=True, tag=True):
    """The state of an entity. An absent one has version 0 and `exists=False`.

    `version` is the number of entries ever appended; `base` the number below which entries
    were trimmed; `live` the number of entries stored. `stamp` is the op that made `version`.
    `commits` counts every commit, over all lives; `life` tells one life from another. `lease`
    is the last one granted and not released, expired or not. `dropped` is the time of the last
    drop (0: never), even if the entity exists again.

    `base_stamp` (the stamp at `base`) and `token` (the last one ever granted) are for backups:
    only a fetch with `Log.whole` returns them.
    """

    exists: bool = False
    owner: str = ""
    status: str = ""
    label: str = ""
    due: float | None = None
    retain: float | None = None
    expires: float | None = None
    created: float = 0.0
    updated: float = 0.0
    version: int = 0
    stamp: str = ""
    base: int = 0
    live: int = 0
    commits: int = 0
    life: int = 0
    dropped: float = 0.0
    lease: Lease | None = None
    base_stamp: str = ""
    token: int = 0


class Value(Struct, frozen=True, tag=True):
    """A document as stored. `log` is the version the log had when it was put."""

    json: str
    version: int
    stamp: str
    updated: float
    log: int


class Entry(Struct, frozen=True, tag=True):
    """One log entry with its details.

    `stamp` is the op of the append it came with: entries of one append share it. `key` is
    that append's key, on its last entry. `digest` is `digest_of` that append's bodies, if it
    has a key. `note` is that append's note, on its last entry unless that was removed. Only
    `Log.whole` returns digests and notes.
    """

    seq: int
    at: float
    body: str
    stamp: str
    key: str | None = None
    digest: int | None = None
    note: str | None = None


class Applied(Struct, frozen=True, tag=True, omit_defaults=True):
    """The commit was stored `at` that time. `documents` has the new versions of written documents.

    `values` has the documents of `reading` as they were *before* this commit. With `replicated`
    False it is stored on the primary, but too few replicas have confirmed it in time.
    """

    version: int
    stamp: str
    at: float
    documents: Mapping[str, int] = {}
    lease: Lease | None = None
    created: bool = False
    values: Mapping[str, Value] = {}
    replicated: bool = True


class Duplicate(Struct, frozen=True, tag=True):
    """This op or key was applied before; `first` is the outcome of then.

    `own`: the op was known, so an earlier try of this call was stored. `head` is the current
    one: a lease granted then may have another holder by now.
    """

    first: Applied
    own: bool
    head: Head
    values: Mapping[str, Value] = {}


class KeyReused(Struct, frozen=True, tag=True):
    """The key was used before with other bodies. Nothing was written."""

    key: str
    version: int
    head: Head
    values: Mapping[str, Value] = {}


class Conflict(Struct, frozen=True, tag=True):
    """A check did not hold; `head` and `values` are the current ones. Nothing was written."""

    failed: Check
    head: Head
    values: Mapping[str, Value] = {}


class Held(Struct, frozen=True, tag=True):
    """Another holder has the lease for another `remaining` seconds. Nothing was written."""

    remaining: float
    head: Head
    values: Mapping[str, Value] = {}


class Fenced(Struct, frozen=True, tag=True):
    """The lease was released or taken over. Nothing was written."""

    head: Head
    values: Mapping[str, Value] = {}


class NotYours(Struct, frozen=True, tag=True):
    """The entity belongs to someone else. Nothing was written, nothing is shown."""


class Fetched(Struct, frozen=True, tag=True):
    """The parts of an entity that `Fetch` requested.

    `lines` holds the bodies joined by newlines (no body contains one), `count` their
    number, `first` the number of the first of them (0: there are none); with `Log.details`
    the `entries` are set instead of `lines`. `truncated` says that entries after `Log.after`
    were trimmed away and are missing here. An absent entity has no parts at all.
    """

    head: Head
    lines: str = ""
    count: int = 0
    first: int = 0
    entries: tuple[Entry, ...] = ()
    documents: Mapping[str, Value] = {}
    unchanged: tuple[str, ...] = ()
    reset: bool = False
    truncated: bool = False


class Found(Struct, frozen=True, tag=True):
    """One entity of a listing."""

    entity: Entity
    head: Head
    documents: Mapping[str, Value] = {}


class Listed(Struct, frozen=True, tag=True):
    """One page. `next` goes into `List.after` for the following page; None: this is the last.

    `settled` is set if `List.recent` and `reverse` are: commits before this time are visible. It
    is the engine's clock as it read the page or, where commits can be in progress meanwhile, the
    time of the oldest such commit.
    """

    entities: tuple[Found, ...] = ()
    documents: tuple[tuple[str, Value], ...] = ()
    next: str | None = None
    tally: Mapping[str, int] = {}
    settled: float = 0.0


class Swept(Struct, frozen=True, tag=True):
    """The number of entities and rows that a sweep removed; `more`: it left some for the next one.

    `locked`: messages or documents of dropped entities are still there, because a foreign
    transaction has locked the entities.
    """

    entities: int = 0
    rows: int = 0
    more: bool = False
    locked: bool = False


CommitOutcome = Applied | Duplicate | KeyReused | Conflict | Held | Fenced | NotYours
Outcome = CommitOutcome | Fetched | Listed | Swept

WRITES = (Commit, Sweep)  # operations that change the store; the others only read
# For the hot path: `READS.issuperset(map(type, ops))`. `isinstance` costs many times as much,
# because structs have a metaclass.
READS = frozenset((Fetch, List))


# A commit has at most one write of each group, e.g. one for the lease; `Put` groups by document.
_TOGETHER = {Acquire: Lease, Renew: Lease, Release: Lease, Delete: Put, Restore: Drop}


# Combinations that every task writes, which are valid whatever they contain.
_EVERYDAY = frozenset({(Acquire, SetHead, Put), (Put, SetHead, Release)})


def check_shape(commit: Commit) -> None:
    """Raise `ValueError` for a combination of writes that has no clear meaning."""
    if len(commit.writes) == 1:
        only = commit.writes[0]
        if type(only) is not Append or only.bodies:
            return
    elif tuple(map(type, commit.writes)) in _EVERYDAY:
        return
    groups: set[object] = set()
    for write in commit.writes:
        kind = type(write)
        group: object = _TOGETHER.get(kind, kind)
        if group is Put:
            group = write.name  # type: ignore[union-attr]
        if group in groups or group is Drop:
            raise ValueError(f"a commit cannot hold these writes together: {commit.writes!r}")
        groups.add(group)
        if kind is Append and not write.bodies:  # type: ignore[union-attr]
            raise ValueError("an append needs at least one body")
    if not commit.writes:
        raise ValueError("a commit needs at least one write")


def digest_of(bodies: Iterable[str]) -> int:
    """Return 64 bits, signed, that identify an append's bodies (no body contains a newline).

    Every engine stores keys with this number, so that a key is recognised after a restore into
    another engine.
    """
    data = "\n".join(bodies).encode()
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)
