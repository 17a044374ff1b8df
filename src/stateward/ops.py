"""Everything is an entity, and a change to an entity is a value.

This file holds those values: what can be asked of an engine (four operations), what a
commit may check and write, and every outcome an engine can answer. They are plain frozen
data, so the same few structs can be batched, coalesced, wrapped, recorded, replayed, made
to fail by a test, or sent over a wire. What they mean exactly is law in `engine.py`.

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
    """The address of a thing: any non-empty strings, compared byte for byte."""

    namespace: str
    kind: str
    id: str


# --- what a commit may check ------------------------------------------------------------


class LogAt(Struct, frozen=True, tag=True):
    """The log has this version; with a stamp, it is also the very same history."""

    version: int
    stamp: str | None = None


class DocumentAt(Struct, frozen=True, tag=True):
    """The document has this version (0: it is missing); with a stamp, the very same one."""

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
    """Nothing at all was committed to the entity since `Head.commits` had this value."""

    commits: int


class NotDroppedSince(Struct, frozen=True, tag=True):
    """The entity was not dropped at or after this time of the engine's clock.

    For writes that were delayed on their way: they must not bring back what was deleted.
    """

    at: float


class Unheld(Struct, frozen=True, tag=True):
    """The lease is free; otherwise the commit is refused with `Held`."""


NOWHERE = LogAt(-1)  # no log is there: a commit that checks this asks whether its key is known

Check = Unheld | LogAt | DocumentAt | Absent | StatusIn | Fence | CommitsAt | NotDroppedSince


# --- what a commit may write ------------------------------------------------------------


class Append(Struct, frozen=True, tag=True):
    """Add entries to the log, adjacent and in this order.

    `key` is the caller's own name for this append: a second append with the same key is a
    `Duplicate` if it has the same bodies and `KeyReused` if it has not. `takes_first` says that the
    caller is content with what was stored first under the key: for layers that keep an append for
    later. To an engine it means nothing.

    `note` is JSON text that stays with the last entry: what else there is to say of this append.
    Only `Log.whole` tells it. It is no part of what a key is compared by, outlives that the entry
    is rewritten, and goes with it.
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

    With None for the token the nonce alone decides: for a lease whose grant was never heard of.
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
    """Remove the entity: log, documents, head and lease, also of one that has expired.

    A tombstone keeps the time, the remembered ops and the last lease token for `GRACE`, so that
    a write delayed past the drop cannot bring back what was deleted. Of the outcomes of those ops
    the documents' names go too: `Duplicate.first.documents` is empty. Dropping what does not exist
    leaves a tombstone as well.
    """


class Restore(Struct, frozen=True, tag=True):
    """Make the entity be exactly this, as a backup has it; the sole write of its commit.

    `head` is taken word for word (owner, times, version, stamp, base, commits …), but for what the
    engine knows better: `live` is counted, the life is a new one of the engine's own numbering,
    `dropped` and the last lease token (`Head.token`) never become less than they were, and no one
    holds the lease. `entries` keep their own numbers, times, stamps, keys, digests and notes, as
    `Log.whole` gives them (a body of "" is an entry that was removed); `documents` their own
    versions, stamps, times and log versions. All that was there before goes, also the
    remembered ops.

    A long log, or many documents, come in several commits. Each has the head as it is to be after
    it; those after the first are `continued`: they replace the entries from their first to their
    last number and the documents they name, and leave everything else. Where a part ends, an append
    is taken to end. The same part twice is the same as once, so this op is not remembered, nor is
    it counted in `Head.commits`. Checks and owner are asked as for any commit. `Applied` has the
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
    """All of `writes`, in order, or none of them, on one entity.

    Writes have a shape that `check_shape` checks: at least one; at most one `Append`, one
    `SetHead` and one of `Acquire`, `Renew` and `Release`; no document twice; `Drop` and `Restore`
    alone.

    `op` names this logical call: drawn once before the first send, kept through every
    retry. An entity that has already applied it answers `Duplicate` with the first outcome.

    `owner` is whom the caller takes the entity to belong to ("" is no one): an existing
    entity of someone else answers `NotYours`; a new one is created as theirs. None does
    not check, and creates for no one.

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
    """Which entries to fetch: those after `after` and up to `upto`.

    At most one of `first` and `last` bounds how many, from that end; entries always come
    oldest first. `stamp` is the stamp the caller saw at version `after`: if the log no
    longer agrees, nothing is returned and `Fetched.reset` is set. With `details` the
    entries come one by one with number, time, stamp and key; without, only their text.

    `whole` is for backups, and never comes with `last` or `Fetch.known`: as `details`, and
    `Head.token` and `Head.base_stamp` are set, entries have their `note` and, with a key, its
    `digest`, and what is left of entries that are gone comes too, with the body "": after the base
    those that ended an append, up to the base those whose key is still remembered. `first` counts
    them like any other.
    """

    after: int = 0
    upto: int | None = None
    first: int | None = None
    last: int | None = None
    stamp: str | None = None
    details: bool = False
    whole: bool = False


class Fetch(Struct, frozen=True, tag=True):
    """Any parts of one entity, as of one moment.

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
    """A page of entities, or of one entity's documents (`within`).

    Ordered by the bytes of the id (entities of one kind), by kind and id (`kind=None`: all
    that an owner has or, without an owner, all there is), or by name (`within`). `due=True` gives
    what is due by the engine's own clock, soonest first. `recent=True`, for one kind, gives what
    was touched last first: by the minute of `Head.updated`, which is what engines index, then by
    id, both from the greatest down; each page in itself is in the exact order of `Head.updated`.
    Its cursors are JSON text, [minute, kind, id], so that a feed of changes can begin at a minute.
    An `after` that is no cursor raises `InvalidInput`: see `codec.listing_mark`.
    `reverse` turns any order round. `expired=True` also gives what has expired but is still stored.
    `documents` names documents to bring along with each entity; `values=False` leaves the values
    of a `within` listing out.

    `tally` counts instead, and gives no entities: "kind" how many there are of each kind, "owner"
    how many each owner has, by the bytes of the owner and page by page; no one's are not told. It
    heeds `kind` and `owner` alone, and counts what has expired until it is swept.
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
    """Physically remove at most about `limit` rows of what is gone for good."""

    limit: int = 1000


Op = Commit | Fetch | List | Sweep


# --- what comes back --------------------------------------------------------------------


class Lease(Struct, frozen=True, tag=True):
    """A lease as the engine stores it; times are the engine's clock.

    Only its holder is told the nonce: elsewhere it is "".
    """

    token: int
    nonce: str
    holder: str
    granted: float
    until: float


class Head(Struct, frozen=True, tag=True):
    """What an entity says of itself. An absent one has version 0 and `exists=False`.

    `version` is the number of entries ever appended; `base` the number below which entries
    were trimmed; `live` how many entries are there. `stamp` is the op that made `version`.
    `commits` counts every commit, over all lives; `life` tells one life from another. `lease`
    is the last one granted and not released, expired or not. `dropped` is when it was last
    dropped (0: never), exists or not.

    `base_stamp` (the stamp at `base`) and `token` (the last one ever granted) are for backups:
    only a fetch with `Log.whole` tells them.
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
    that append's key, on its last entry. `digest` is `digest_of` that append's bodies: only
    `Log.whole` tells it, where there is a key. `note` is that append's, on its last entry while
    that is there: only `Log.whole` tells it too.
    """

    seq: int
    at: float
    body: str
    stamp: str
    key: str | None = None
    digest: int | None = None
    note: str | None = None


class Applied(Struct, frozen=True, tag=True, omit_defaults=True):
    """The commit was stored `at` that time. `documents` has the new versions of those written.

    `values` has what `reading` asked for, as it was *before* this commit.
    """

    version: int
    stamp: str
    at: float
    documents: Mapping[str, int] = {}
    lease: Lease | None = None
    created: bool = False
    values: Mapping[str, Value] = {}


class Duplicate(Struct, frozen=True, tag=True):
    """This op or key was applied before; `first` is what was answered then.

    `own` says that it was the op: this very call was stored at an earlier try. `head` is what
    is there now: a lease granted then may be another's by now.
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
    """A check did not hold; here is what is there now. Nothing was written."""

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
    """What `Fetch` asked for.

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

    `settled` is told of what is recent, upwards (`reverse`): the engine's clock as it read the page
    or, where a commit can be in progress for longer than others, the time of the oldest that was.
    """

    entities: tuple[Found, ...] = ()
    documents: tuple[tuple[str, Value], ...] = ()
    next: str | None = None
    tally: Mapping[str, int] = {}
    settled: float = 0.0


class Swept(Struct, frozen=True, tag=True):
    """What a sweep removed, and whether there is more to remove.

    `locked`: messages or documents of what was dropped are still there, because someone outside
    has locked what they belonged to.
    """

    entities: int = 0
    rows: int = 0
    more: bool = False
    locked: bool = False


CommitOutcome = Applied | Duplicate | KeyReused | Conflict | Held | Fenced | NotYours
Outcome = CommitOutcome | Fetched | Listed | Swept

WRITES = (Commit, Sweep)  # operations that change the store; the others only read
# The same for the way that every call takes: `READS.issuperset(map(type, ops))`. `isinstance` costs
# many times as much, because structs have a metaclass.
READS = frozenset((Fetch, List))


# Of those that stand for the same a commit has one; of documents one each, of the last none.
_TOGETHER = {Acquire: Lease, Renew: Lease, Release: Lease, Delete: Put, Restore: Drop}


# Those of tasks that begin and end, which are fine whatever they hold.
_EVERYDAY = frozenset({(Acquire, SetHead, Put), (Put, SetHead, Release)})


def check_shape(commit: Commit) -> None:
    """Refuse a commit that no engine could give a clear meaning: a mistake in the caller."""
    if len(commit.writes) == 1:
        only = commit.writes[0]
        if type(only) is not Append or only.bodies:
            return
    elif tuple(map(type, commit.writes)) in _EVERYDAY:
        return
    seen: set[object] = set()
    for write in commit.writes:
        kind = type(write)
        what: object = _TOGETHER.get(kind, kind)
        if what is Put:
            what = write.name  # type: ignore[union-attr]
        if what in seen or what is Drop:
            raise ValueError(f"a commit cannot hold these writes together: {commit.writes!r}")
        seen.add(what)
        if kind is Append and not write.bodies:  # type: ignore[union-attr]
            raise ValueError("an append needs at least one body")
    if not commit.writes:
        raise ValueError("a commit needs at least one write")


def digest_of(bodies: Iterable[str]) -> int:
    """64 bits, signed, that tell one append's bodies from another's (no body holds a newline).

    Every engine remembers a key with this very number, so that a key is known again after a restore
    into another engine.
    """
    data = "\n".join(bodies).encode()
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big", signed=True)
