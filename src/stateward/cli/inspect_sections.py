"""The sections of `stateward inspect`: each reads one page and returns rows of plain data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import asdict

from stateward.cli.listings import PageRequest, Row, RowPage, holder_of, moment_of, page_of
from stateward.codec import decode
from stateward.errors import InvalidInput
from stateward.integrations.kept import KeptState, kept_state, langgraph
from stateward.kinds import BLOB, KINDS, LANGGRAPH_ITEM, LANGGRAPH_THREAD, THREAD
from stateward.ops import Entity, Entry, Fetch, Fetched, Found, List, Listed, Log
from stateward.records import ReplicaInfo
from stateward.state.replica_record import listings, replicas_in

SAMPLED = 20  # entities of a kind that are read to estimate the size of all
COUNTED = 100_000  # entities of a kind that are counted
ENTRY = ("version", "at", "what", "stamp", "key", "entry")
CHECKPOINT = ("checkpoint", "ns", "parent", "step", "source", "channels", "writes", "at")
NOUNS = ("thread", "user", "workflow", "task", "effect")  # that have their own commands


def storage(asked: PageRequest) -> RowPage:
    """By kind: how many entities and entries, and their bytes as estimated from some of them."""
    kinds = [kind for kind, how in KINDS.items() if not how.internal]
    rows = [row for kind in kinds if (row := _stored(asked, kind))["entities"]]
    facts = asked.engine.describe()
    about = {
        "engine": f"{facts.engine} {facts.version}",
        "bytes": facts.bytes,
        "capacity": facts.capacity,
        "durability": facts.durability,
    }
    return RowPage(("kind", "entities", "entries", "bytes_estimated"), rows, about=about)


def _stored(asked: PageRequest, kind: str) -> Row:
    entities = entries = 0
    sampled: list[Entity] = []
    after: str | None = None
    while entities < COUNTED:
        page = asked.engine.capabilities.page
        (listed,) = asked.ask(List(asked.namespace, kind=kind, limit=page, after=after))
        assert isinstance(listed, Listed)
        entities += len(listed.entities)
        entries += sum(found.head.live for found in listed.entities)
        sampled += [found.entity for found in listed.entities][: SAMPLED - len(sampled)]
        after = listed.next
        if after is None:
            break
    read = asked.ask(*(_whole(entity) for entity in sampled)) if sampled else []
    size = sum(_bytes(fetched) for fetched in read if isinstance(fetched, Fetched))
    estimate = round(size / len(sampled) * entities) if sampled else 0
    return {
        "kind": kind,
        "entities": entities,
        "entries": entries,
        "bytes_estimated": estimate,
        "counted_all": after is None,
    }


def _whole(entity: Entity) -> Fetch:
    return Fetch(entity, log=Log(last=200), all_documents=True)


def _bytes(fetched: Fetched) -> int:
    entries = len(fetched.lines.encode())
    if fetched.count and fetched.head.live > fetched.count:
        entries = round(entries * fetched.head.live / fetched.count)
    return entries + sum(len(value.json.encode()) for value in fetched.documents.values())


# --- one thing in full ------------------------------------------------------------------


def one(asked: PageRequest, kind: str, id: str) -> RowPage:
    """Its entries with versions and times, a page of them, and its documents."""
    after = _number(asked.after)
    log = Log(after=after, first=asked.limit, details=True)
    kinds = (kind, LANGGRAPH_THREAD) if kind == THREAD else (kind,)
    entities = [Entity(asked.namespace, each, id) for each in kinds]
    outcomes = asked.ask(*(Fetch(entity, log=log, all_documents=True) for entity in entities))
    pairs = [(entity, each) for entity, each in zip(entities, outcomes, strict=True)]
    there = [(entity, each) for entity, each in pairs if isinstance(each, Fetched)]
    entity, fetched = next((each for each in there if each[1].head.exists), there[0])
    head = fetched.head
    if not head.exists:
        raise InvalidInput(
            f"there is no {kind} {id!r} in the namespace {asked.namespace!r}: {_find(kind)} shows "
            "those that there are"
        )
    says = kept_state(entity, head) or KeptState(lambda entity, _: f"{entity.kind} {entity.id}")
    about = {
        "id": id,
        "what": says.entity(entity, head),
        "user": head.owner or None,
        "status": head.status or None,
        "version": head.version,
        "entries": head.live,
        "created": moment_of(head.created),
        "updated": moment_of(head.updated),
        "expires": moment_of(head.expires),
        "leader": holder_of(head),
        "documents": {
            name: {
                "what": says.document(name),
                "version": value.version,
                "stamp": value.stamp,
                "updated": moment_of(value.updated),
                "value": decode(value.json),
            }
            for name, value in fetched.documents.items()
        },
    }
    if entity.kind == LANGGRAPH_THREAD:
        return RowPage(CHECKPOINT, [*_checkpoints(fetched)], about=about)
    rows = [_entry(entry, says) for entry in fetched.entries]
    more = bool(fetched.entries) and fetched.entries[-1].seq < head.version
    following = str(fetched.entries[-1].seq) if more else None
    columns = [name for name in ENTRY if name != "what" or any(row["what"] for row in rows)]
    return RowPage(tuple(columns), rows, following, about)


def _entry(entry: Entry, says: KeptState) -> Row:
    body = decode(entry.body)
    return {
        "version": entry.seq,
        "at": moment_of(entry.at),
        "what": says.entry(body) if isinstance(body, dict) else None,
        "stamp": entry.stamp,
        "key": entry.key,
        "entry": body,
    }


def _checkpoints(fetched: Fetched) -> Iterator[Row]:
    """Yield the checkpoints of a thread as LangGraph lists them."""
    for row in langgraph.checkpoints(fetched.documents):
        yield row | {"at": moment_of(row["at"])}


def _find(kind: str) -> str:
    """Return the command that lists the ids of a kind."""
    if kind in SINGLES_OF_ADAPTERS:
        return f"stateward inspect URL {kind}s"
    return f"stateward {kind} list URL" if kind in NOUNS else "stateward inspect URL"


def _kept(kind: str) -> Callable[[PageRequest], RowPage]:
    """Return a reader of what an adapter stores under its own ids, one row for each id."""

    def listed(asked: PageRequest) -> RowPage:
        def row(found: Found) -> Row:
            says = kept_state(found.entity, found.head)
            return {"what": None if says is None else says.entity(found.entity, found.head)}

        return page_of(("id", "what", "user", "created", "updated"), asked.page(kind), row)

    return listed


def _number(after: str | None) -> int:
    if after is None:
        return 0
    if not (after.isascii() and after.isdigit() and len(after) < 16):
        raise InvalidInput(f"--after must be the version of the last entry seen, not {after!r}")
    return int(after)


def replicas(asked: PageRequest) -> RowPage:
    """Processes that have the store open, or had it within the last hour."""
    beats = replicas_in(asked.ask(*listings(asked.namespace)), time.time())
    rows = [_replica(info) for info in beats]
    columns = ("id", "status", "version", "started", "last_beat", "reads", "writes", "failures")
    return RowPage((*columns, "kept", "read_p99_ms"), rows[: asked.limit])


def _replica(info: ReplicaInfo) -> Row:
    about = {name: getattr(info, name) for name in ("id", "status", "version", "host", "pid")}
    more = {name: getattr(info, name) for name in ("engine", "replica", "every")}
    took = info.counts.read_p99
    return {
        **about,
        **more,
        "started": info.started_at,
        "last_beat": info.beat_at,
        **asdict(info.counts),
        "read_p99_ms": None if took is None else 1000 * took,
    }


SINGLES_OF_ADAPTERS = (LANGGRAPH_ITEM, BLOB)
LISTS: dict[str, Callable[[PageRequest], RowPage]] = {
    "replicas": replicas,
    "storage": storage,
    **{f"{kind}s": _kept(kind) for kind in SINGLES_OF_ADAPTERS},
}
SINGLES: Sequence[str] = (*NOUNS, "schedule", "shared", "journal", *SINGLES_OF_ADAPTERS)
