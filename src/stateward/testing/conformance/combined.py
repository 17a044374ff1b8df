"""Commits of every kind, made by combining the writes of `ops.py`, and what each leaves behind.

They are combined and not picked by hand because engines treat some commits apart to be fast: an
append alone, an append with a check, a commit that creates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import NamedTuple

from msgspec.structs import replace

from stateward.engine import MINUTE
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Check,
    Commit,
    CommitsAt,
    Delete,
    DocumentAt,
    Entity,
    Entry,
    Fence,
    Fetched,
    Head,
    Lease,
    LogAt,
    NotDroppedSince,
    Put,
    Release,
    Renew,
    Replace,
    Restore,
    SetHead,
    StatusIn,
    Trim,
    Unheld,
    Value,
    Write,
    check_shape,
)
from stateward.testing.conformance.harness import bodies

LONG_AGO = 1_000_000 * MINUTE
OWNER, NONCE, TTL = "u", "n", 1e6
# The ops of the entries that `ready` makes. A new op is greater than all of the first and smaller
# than the last of the others, so that no engine can tell by the order alone whether it is new.
EARLIER, LATER = ("!1", "!2", "!3"), ("~1", "~2", "~3")

# Writes by name, with a lease to be renewed or given back where one is needed.
APPENDS: dict[str, Write] = {
    "append": Append(bodies(4)),
    "append two": Append(bodies(4, 5)),
    "append three": Append(bodies(4, 5, 6)),
    "append by a key": Append(bodies(4), key="k"),
    "append with a note": Append(bodies(4), note='"n"'),
    "append two with a note": Append(bodies(4, 5), note='"n"'),
    "append two by a key with a note": Append(bodies(4, 5), key="k", note='"n"'),
}
OTHERS: dict[str, Write] = {
    "put": Put("doc", "2"),
    "put new": Put("new", "1"),
    "delete": Delete("gone"),
    "delete nothing": Delete("never"),
    "trim": Trim(2),
    "trim nothing": Trim(0),
    "rewrite": Replace({2: "9"}),
    "remove": Replace({1: None, 3: None}),
    "rewrite nothing": Replace({99: "9"}),
    "acquire": Acquire(NONCE, TTL),
    "renew": Renew(0, NONCE, TTL),
    "release": Release(0, NONCE),
    "release by the nonce": Release(None, NONCE),
    "set status": SetHead(status="busy"),
    "set label": SetHead(label="blue"),
    "set owner": SetHead(owner="v"),
    "set due": SetHead(due=5.0),
    "set due in": SetHead(due_in=5.0),
    "set retain": SetHead(retain=1e6),
    "keep for ever": SetHead(retain=0),
    "set nothing": SetHead(),
}
SINGLE: dict[str, Write] = {**APPENDS, **OTHERS}
PAIRED = (
    *("append", "append by a key", "put", "put new", "delete", "trim", "rewrite", "acquire"),
    *("renew", "release", "set status"),
)
CHECKS: dict[str, tuple[Check, ...]] = {
    "": (),
    "version": (LogAt(3),),
    "history": (LogAt(3, EARLIER[-1]),),
    "document": (DocumentAt("doc", 1, EARLIER[0]),),
    "missing document": (DocumentAt("never", 0),),
    "status": (StatusIn(("", "idle")),),
    "commits": (CommitsAt(7),),
    "not dropped": (NotDroppedSince(1.0),),
    "unheld": (Unheld(),),
    "fence": (Fence(0, NONCE),),
    "version and fence": (LogAt(3), Fence(0, NONCE)),
    "all": (
        *(StatusIn(("idle",)), DocumentAt("doc", 1), LogAt(3), CommitsAt(7), Unheld()),
        NotDroppedSince(1.0),
    ),
}
ABSENT: dict[str, tuple[Check, ...]] = {
    "": (),
    "absent": (Absent(),),
    "version": (LogAt(0),),
    "document": (DocumentAt("doc", 0),),
}


class CommitShape(NamedTuple):
    """A commit but for its entity and its op."""

    name: str
    writes: tuple[Write, ...]
    checks: tuple[Check, ...] = ()
    owner: str | None = None
    reading: tuple[str, ...] = ()
    history: tuple[str, ...] = EARLIER  # of the entity that it is for

    @property
    def leased(self) -> bool:
        """Whether the commit is made for the holder of a lease."""
        return any(type(part) in (Fence, Renew, Release) for part in (*self.checks, *self.writes))

    def commit(self, entity: Entity, op: str, lease: Lease | None = None) -> Commit:
        """The commit on this entity, whose lease this is."""
        token = 0 if lease is None else lease.token
        checks = tuple(
            Fence(token, NONCE) if type(check) is Fence else check for check in self.checks
        )
        writes = tuple(
            replace(write, token=token)
            if isinstance(write, Renew | Release) and write.token is not None
            else write
            for write in self.writes
        )
        return Commit(entity, op, writes, checks, self.owner, None, self.reading)


def of_what_exists() -> Iterator[CommitShape]:
    """Shapes of commits for an entity as `ready` makes it."""
    for name, write in APPENDS.items():
        for (what, checks), owner in product(CHECKS.items(), (None, OWNER)):
            yield CommitShape(f"{name}, {what}, {owner}", (write,), checks, owner)
        yield CommitShape(f"{name}, reading", (write,), reading=("doc", "never"))
        yield CommitShape(f"{name}, by an earlier op", (write,), history=LATER)
        yield CommitShape(
            f"{name}, by an earlier op, version", (write,), CHECKS["version"], None, (), LATER
        )
    for name, write in OTHERS.items():
        yield CommitShape(name, (write,))
        yield CommitShape(f"{name}, all", (write,), CHECKS["document"], OWNER, ("doc",))
    for first, second in permutations(PAIRED, 2):
        shape = CommitShape(f"{first} and {second}", (SINGLE[first], SINGLE[second]))
        if has_shape(shape):
            yield shape
    everything = ("append by a key", "put", "put new", "delete", "rewrite", "acquire", "set status")
    for names in (everything, everything[::-1], ("acquire", "set status", "put", "trim")):
        yield CommitShape(f"all of {names[0]} …", tuple(SINGLE[name] for name in names))


def of_what_is_absent() -> Iterator[CommitShape]:
    """Shapes of commits that create an entity."""
    for name, write in APPENDS.items():
        for (what, checks), owner in product(ABSENT.items(), (None, OWNER)):
            yield CommitShape(f"{name}, {what}, {owner}", (write,), checks, owner)
    for name, write in OTHERS.items():
        yield CommitShape(name, (write,), owner=OWNER)
    for first, second in permutations(PAIRED, 2):
        shape = CommitShape(f"{first} and {second}", (SINGLE[first], SINGLE[second]))
        if has_shape(shape):
            yield shape


def has_shape(shape: CommitShape) -> bool:
    """Whether its writes may stand together."""
    try:
        check_shape(shape.commit(Entity("n", "k", "i"), "op"))
    except ValueError:
        return False
    return True


EXISTING = tuple(of_what_exists())
CREATING = tuple(shape for shape in of_what_is_absent() if not shape.leased)


def ready(entity: Entity, owner: str = OWNER, history: Sequence[str] = EARLIER) -> Commit:
    """Make an entity with three entries and two documents that was last touched long ago."""
    times = {"created": LONG_AGO, "updated": LONG_AGO}
    head = Head(True, owner, "idle", **times, version=3, stamp=history[-1], commits=7)  # type: ignore[arg-type]
    entries = tuple(
        Entry(seq, LONG_AGO, body, name)
        for (seq, name), body in zip(enumerate(history, 1), bodies(1, 2, 3), strict=True)
    )
    documents = {name: Value("1", 1, history[0], LONG_AGO, 1) for name in ("doc", "gone")}
    return Commit(entity, f"ready {entity.id}", (Restore(head, entries, documents),))


# --- what a commit leaves behind --------------------------------------------------------


def left_by(commit: Commit, before: Fetched, outcome: Applied) -> Fetched:
    """Return a fetch of everything after this commit, but for the lease and the expiry."""
    head, entries, documents = before.head, list(before.entries), dict(before.documents)
    at, op = outcome.at, commit.op
    if not head.exists:
        owner = commit.owner or ""
        head = replace(head, exists=True, owner=owner, created=at, retain=commit.retain)
    head = replace(head, updated=at, commits=head.commits + 1)
    for write in commit.writes:
        if type(write) is Append:
            last = head.version + len(write.bodies)
            for seq, body in enumerate(write.bodies, head.version + 1):
                entries.append(Entry(seq, at, body, op, write.key if seq == last else None))
            head = replace(head, version=last, stamp=op)
        elif type(write) is Put:
            old = documents.get(write.name)
            version = 1 if old is None else old.version + 1
            documents[write.name] = Value(write.value, version, op, at, head.version)
        elif type(write) is Delete:
            documents.pop(write.name, None)
        elif type(write) is Trim:
            base = max(head.base, min(write.upto, head.version))
            head = replace(head, base=base)
            entries = [entry for entry in entries if entry.seq > base]
        elif type(write) is Replace:
            entries = list(rewritten(entries, write))
        elif type(write) is SetHead:
            head = with_fields(head, write, at)
    head = replace(head, live=len(entries), expires=None, lease=None)
    return Fetched(
        head,
        count=len(entries),
        first=entries[0].seq if entries else 0,
        entries=tuple(entries),
        documents=documents,
        truncated=head.base > 0,
    )


def rewritten(entries: Sequence[Entry], write: Replace) -> Iterator[Entry]:
    """The entries that are left, with their bodies."""
    for entry in entries:
        body = write.entries.get(entry.seq, entry.body)
        if body is not None:
            yield replace(entry, body=body)


def with_fields(head: Head, write: SetHead, at: float) -> Head:
    """The head with the fields that this write sets."""
    named = {name: getattr(write, name) for name in ("status", "label", "owner", "due", "retain")}
    fields = {name: value for name, value in named.items() if value is not None}
    if write.due_in is not None:
        fields["due"] = at + write.due_in
    if write.retain == 0:
        fields["retain"] = None
    return replace(head, **fields)


def comparable(seen: Fetched) -> Fetched:
    """Return the part of a fetch that `left_by` states."""
    return replace(seen, head=replace(seen.head, expires=None, lease=None))


def answer(commit: Commit, before: Fetched, after: Fetched, outcome: Applied) -> Applied:
    """Return the outcome of the commit, but for the lease and the time."""
    documents = {
        write.name: after.documents[write.name].version if type(write) is Put else 0
        for write in commit.writes
        if isinstance(write, Put | Delete)
    }
    values = {n: before.documents[n] for n in commit.reading if n in before.documents}
    return Applied(
        after.head.version,
        after.head.stamp,
        outcome.at,
        documents,
        outcome.lease,
        not before.head.exists,
        values,
    )


def takes_lease(commit: Commit) -> bool:
    """Whether the answer has the lease in it."""
    return any(isinstance(write, Acquire | Renew) for write in commit.writes)
