"""What `stateward inspect` can show: each section reads one page and gives rows of plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from stateward.codec import decode
from stateward.engine import SyncEngine
from stateward.errors import InvalidInput
from stateward.kinds import KINDS, LANGGRAPH_THREAD, THREAD
from stateward.ops import Entity, Entry, Fetch, Fetched, Found, Head, List, Listed, Log, Op, Outcome
from stateward.records import ReplicaInfo, moment
from stateward.state.replica_record import listings, replicas_in

SAMPLED = 20  # entities of a kind that are read to estimate the size of all
COUNTED = 100_000  # entities of a kind that are counted

Row = dict[str, Any]


class SectionRequest(Struct, frozen=True):
    """Where to look, and how much to show."""

    engine: SyncEngine
    namespace: str
    limit: int
    after: str | None = None
    user: str | None = None
    status: str | None = None

    def ask(self, *ops: Op) -> list[Outcome]:
        return self.engine.execute(ops)

    def page(self, kind: str, *documents: str) -> Listed:
        op = List(
            self.namespace,
            kind=kind,
            owner=self.user,
            status=self.status,
            documents=documents,
            limit=self.limit,
            after=self.after,
        )
        (listed,) = self.ask(op)
        assert isinstance(listed, Listed)
        return listed


class SectionPage(Struct, frozen=True):
    """Rows of one section; `next` goes into `--after` for the following ones."""

    columns: tuple[str, ...]
    rows: list[Row]
    next: str | None = None
    about: Row = {}


def threads(asked: SectionRequest) -> SectionPage:
    """Those of Stateward, then those of LangGraph, whose messages are within checkpoints."""

    def row(found: Found) -> Row:
        head, ours = found.head, found.entity.kind == THREAD
        return {
            "kind": found.entity.kind,
            "messages": head.live if ours else None,
            "version": head.version if ours else None,
            "expires": _moment(head.expires),
            "leader": _holder(head),
        }

    columns = ("id", "user", "messages", "version", "created", "updated", "expires", "leader")
    return _page((*columns, "kind"), _conversations(asked), row)


def _conversations(asked: SectionRequest) -> Listed:
    """A page of all kinds of threads, one kind after the other; `next` says of which kind it is."""
    entities: list[Found] = []
    kinds = [THREAD, LANGGRAPH_THREAD]
    kind, _, after = (asked.after or "").partition("/")
    if kind not in kinds:
        kind, after = THREAD, asked.after or ""
    for each in kinds[kinds.index(kind) :]:
        left = asked.limit - len(entities)
        request = replace(asked, after=(after or None) if each == kind else None, limit=left or 1)
        listed = request.page(each)
        if not left:  # the page is full: is there more?
            following = f"{each}/" if listed.entities else None
            return Listed(tuple(entities), next=following)
        entities += listed.entities
        if listed.next is not None:
            return Listed(tuple(entities), next=f"{each}/{listed.next}")
    return Listed(tuple(entities))


def users(asked: SectionRequest) -> SectionPage:
    listed = asked.page("user")
    within = [
        List(asked.namespace, within=found.entity, values=False, limit=100)
        for found in listed.entities
    ]
    kept = iter(asked.ask(*within) if within else [])

    def row(_: Found) -> Row:
        names = next(kept)
        assert isinstance(names, Listed)
        return {"documents": [name for name, _ in names.documents]}

    return _page(("id", "documents", "created", "updated"), listed, row)


def workflows(asked: SectionRequest) -> SectionPage:
    def row(found: Found) -> Row:
        step = _document(found, "step")
        return {
            "kind": found.head.label,
            "status": found.head.status,
            "step": step["at"] if step else None,
            "steps": found.head.version,
            "driver": _holder(found.head),
            "due": _moment(found.head.due),
            "error": _error(_document(found, "error")),
        }

    columns = ("id", "kind", "user", "status", "step", "steps", "driver", "due", "updated", "error")
    return _page(columns, asked.page("workflow", "step", "error"), row)


def tasks(asked: SectionRequest) -> SectionPage:
    def row(found: Found) -> Row:
        error = _document(found, "error")
        return {
            "function": found.head.label,
            "status": found.head.status,
            "failures": error["failures"] if error else 0,
            "runner": _holder(found.head),
            "due": _moment(found.head.due),
            "error": _error(error),
        }

    columns = ("id", "function", "user", "status", "failures", "runner", "due", "updated", "error")
    return _page(columns, asked.page("task", "error"), row)


def locks(asked: SectionRequest) -> SectionPage:
    """Locks first, then leaders; a page holds one or the other."""
    kind, _, after = (asked.after or "lock/").partition("/")
    if kind not in ("lock", "leader"):
        raise InvalidInput('--after is what the page before said: "lock/…" or "leader/…"')
    op = List(asked.namespace, kind=kind, limit=asked.limit, after=after or None)
    (listed,) = asked.ask(op)
    assert isinstance(listed, Listed)
    rows = [_lock(found) for found in listed.entities]
    following = None if listed.next is None else f"{kind}/{listed.next}"
    if following is None and kind == "lock":
        following = "leader/"
        if len(rows) < asked.limit:
            rest = SectionRequest(asked.engine, asked.namespace, asked.limit - len(rows), following)
            more = locks(rest)
            rows, following = rows + more.rows, more.next
    return SectionPage(("id", "what", "holder", "token", "granted", "until"), rows, following)


def _lock(found: Found) -> Row:
    lease = found.head.lease
    return {
        "id": found.entity.id,
        "what": found.entity.kind,
        "holder": lease.holder if lease else None,
        "token": lease.token if lease else None,
        "granted": _moment(lease.granted) if lease else None,
        "until": _moment(lease.until) if lease else None,
    }


def storage(asked: SectionRequest) -> SectionPage:
    """By kind: how many entities and entries, and their bytes as estimated from some of them."""
    kinds = [kind for kind, how in KINDS.items() if not how.internal]
    rows = [row for kind in kinds if (row := _stored(asked, kind))["entities"]]
    said = asked.engine.describe()
    about = {
        "engine": f"{said.engine} {said.version}",
        "bytes": said.bytes,
        "capacity": said.capacity,
        "durability": said.durability,
    }
    return SectionPage(("kind", "entities", "entries", "bytes_estimated"), rows, about=about)


def _stored(asked: SectionRequest, kind: str) -> Row:
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


def one(asked: SectionRequest, kind: str, id: str) -> SectionPage:
    """Its entries with versions and times, a page of them, and its documents."""
    after = _number(asked.after)
    log = Log(after=after, first=asked.limit, details=True)
    kinds = (kind, LANGGRAPH_THREAD) if kind == THREAD else (kind,)
    entities = [Entity(asked.namespace, each, id) for each in kinds]
    outcomes = asked.ask(*(Fetch(entity, log=log, all_documents=True) for entity in entities))
    found = [outcome for outcome in outcomes if isinstance(outcome, Fetched)]
    fetched = next((each for each in found if each.head.exists), found[0])
    head = fetched.head
    if not head.exists:
        raise InvalidInput(f"there is no {kind} {id!r} in the namespace {asked.namespace!r}")
    about = {
        "id": id,
        "user": head.owner or None,
        "status": head.status or None,
        "version": head.version,
        "entries": head.live,
        "created": _moment(head.created),
        "updated": _moment(head.updated),
        "expires": _moment(head.expires),
        "leader": _holder(head),
        "documents": {
            name: {
                "version": value.version,
                "stamp": value.stamp,
                "updated": _moment(value.updated),
                "value": decode(value.json),
            }
            for name, value in fetched.documents.items()
        },
    }
    rows = [_entry(entry) for entry in fetched.entries]
    more = bool(fetched.entries) and fetched.entries[-1].seq < head.version
    following = str(fetched.entries[-1].seq) if more else None
    return SectionPage(("version", "at", "stamp", "key", "entry"), rows, following, about)


def _entry(entry: Entry) -> Row:
    return {
        "version": entry.seq,
        "at": _moment(entry.at),
        "stamp": entry.stamp,
        "key": entry.key,
        "entry": decode(entry.body),
    }


def _number(after: str | None) -> int:
    if after is None:
        return 0
    if not (after.isascii() and after.isdigit() and len(after) < 16):
        raise InvalidInput(f"--after is the version of the last entry seen, not {after!r}")
    return int(after)


def replicas(asked: SectionRequest) -> SectionPage:
    """Processes that have the store open, or had it within the last hour."""
    rows = [_replica(info) for info in replicas_in(asked.ask(*listings(asked.namespace)))]
    columns = ("id", "status", "version", "started", "last_beat", "reads", "writes", "failures")
    return SectionPage((*columns, "kept", "read_p99_ms"), rows[: asked.limit])


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


LISTS: dict[str, Callable[[SectionRequest], SectionPage]] = {
    "threads": threads,
    "users": users,
    "workflows": workflows,
    "tasks": tasks,
    "locks": locks,
    "replicas": replicas,
    "storage": storage,
}
SINGLES: Sequence[str] = ("thread", "user", "shared", "workflow", "task", "journal")


def _page(columns: tuple[str, ...], listed: Listed, more: Callable[[Found], Row]) -> SectionPage:
    """What every entity has, and what is shown besides of this kind."""
    rows = []
    for found in listed.entities:
        head = found.head
        row: Row = {"id": found.entity.id, "user": head.owner or None}
        times = {"created": _moment(head.created), "updated": _moment(head.updated)}
        rows.append(row | times | more(found))
    return SectionPage(columns, rows, listed.next)


def _document(found: Found, name: str) -> Row | None:
    kept = found.documents.get(name)
    return decode(kept.json) if kept else None


def _error(error: Row | None) -> str | None:
    return f"{error.get('type')}: {error.get('message')}" if error else None


def _holder(head: Head) -> str | None:
    return head.lease.holder if head.lease is not None else None


def _moment(seconds: float | None) -> datetime | None:
    return moment(seconds) if seconds else None


def plain(rows: Iterable[Row]) -> list[Row]:
    """With times as text, for JSON."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value.isoformat() if isinstance(value, datetime) else value
