"""Lists of what a store holds, a page at a time: rows of plain data, for tables and for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from stateward.engine import SyncEngine
from stateward.errors import InvalidInput
from stateward.integrations.kept import kept_state
from stateward.kinds import LANGGRAPH_THREAD, TASK, THREAD, USER, WORKFLOW
from stateward.ops import Found, Head, List, Listed, Op, Outcome
from stateward.records import TaskInfo, WorkflowInfo, moment
from stateward.state.task_record import READING as TASK_READING
from stateward.state.task_record import task_info
from stateward.state.workflow_record import TELLING, workflow_info
from stateward.world import World

Row = dict[str, Any]


class PageRequest(Struct, frozen=True):
    """Where to look, and how much to show."""

    engine: SyncEngine
    namespace: str
    limit: int
    after: str | None = None
    user: str | None = None
    status: str | None = None
    label: str | None = None

    def ask(self, *ops: Op) -> list[Outcome]:
        return self.engine.execute(ops)

    def page(self, kind: str, *documents: str) -> Listed:
        op = List(
            self.namespace,
            kind=kind,
            owner=self.user,
            status=self.status,
            label=self.label,
            documents=documents,
            limit=self.limit,
            after=self.after,
        )
        (listed,) = self.ask(op)
        assert isinstance(listed, Listed)
        return listed


class RowPage(Struct, frozen=True):
    """Rows of one list; `next` goes into `--after` for the following ones."""

    columns: tuple[str, ...]
    rows: list[Row]
    next: str | None = None
    about: Row = {}


def threads(asked: PageRequest) -> RowPage:
    """List Stateward's threads, then LangGraph's, whose messages are within checkpoints."""

    def row(found: Found) -> Row:
        head, ours = found.head, found.entity.kind == THREAD
        says = kept_state(found.entity, head)
        return {
            "kind": found.entity.kind,
            "what": None if says is None else says.entity(found.entity, head),
            "messages": head.live if ours else None,
            "version": head.version if ours else None,
            "expires": moment_of(head.expires),
            "leader": holder_of(head),
        }

    columns = ("id", "user", "messages", "version", "created", "updated", "expires", "leader")
    page = page_of((*columns, "what"), _conversations(asked), row)
    if any(row["what"] for row in page.rows):
        return page
    return replace(page, columns=columns)


def _conversations(asked: PageRequest) -> Listed:
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


def users(asked: PageRequest) -> RowPage:
    listed = asked.page(USER)
    within = [
        List(asked.namespace, within=found.entity, values=False, limit=100)
        for found in listed.entities
    ]
    kept = iter(asked.ask(*within) if within else [])

    def row(_: Found) -> Row:
        names = next(kept)
        assert isinstance(names, Listed)
        return {"documents": [name for name, _ in names.documents]}

    return page_of(("id", "documents", "created", "updated"), listed, row)


def workflows(asked: PageRequest) -> RowPage:
    now = World().now()

    def row(found: Found) -> Row:
        info = workflow_info(found, now=now)
        waits = [f"{each.what} {each.name}".rstrip() for each in info.waits]
        facts = {"steps": found.head.version, "due": moment_of(found.head.due)}
        return told_of(info) | facts | {"waits_for": ", ".join(waits) or None}

    columns = ("id", "kind", "user", "status", "step", "steps", "driver", "waits_for", "due")
    return page_of((*columns, "updated", "error"), asked.page(WORKFLOW, *TELLING), row)


def tasks(asked: PageRequest) -> RowPage:
    def row(found: Found) -> Row:
        info = told_of(task_info(found))
        function, runner = info.pop("name"), holder_of(found.head)
        return {"function": function, "runner": runner, "due": moment_of(found.head.due)} | info

    columns = ("id", "function", "user", "status", "failures", "runner", "due", "updated", "error")
    return page_of(columns, asked.page(TASK, *TASK_READING), row)


def told_of(info: WorkflowInfo | TaskInfo) -> Row:
    """Return the columns of a listing, without the content of the work: it may be personal data."""
    unsaid = ("cursor", "state", "updated_at", "due_at")
    return {name: value for name, value in asdict(info).items() if name not in unsaid}


def locks(asked: PageRequest) -> RowPage:
    """Locks first, then leaders; a page holds one or the other."""
    kind, _, after = (asked.after or "lock/").partition("/")
    if kind not in ("lock", "leader"):
        raise InvalidInput('--after must be what the previous page printed: "lock/…" or "leader/…"')
    op = List(asked.namespace, kind=kind, limit=asked.limit, after=after or None)
    (listed,) = asked.ask(op)
    assert isinstance(listed, Listed)
    rows = [_lock(found) for found in listed.entities]
    following = None if listed.next is None else f"{kind}/{listed.next}"
    if following is None and kind == "lock":
        following = "leader/"
        if len(rows) < asked.limit:
            rest = PageRequest(asked.engine, asked.namespace, asked.limit - len(rows), following)
            more = locks(rest)
            rows, following = rows + more.rows, more.next
    return RowPage(("id", "what", "holder", "token", "granted", "until"), rows, following)


def _lock(found: Found) -> Row:
    lease = found.head.lease
    return {
        "id": found.entity.id,
        "what": found.entity.kind,
        "holder": lease.holder if lease else None,
        "token": lease.token if lease else None,
        "granted": moment_of(lease.granted) if lease else None,
        "until": moment_of(lease.until) if lease else None,
    }


def page_of(columns: tuple[str, ...], listed: Listed, more: Callable[[Found], Row]) -> RowPage:
    """Return a page with the columns of every entity and those of this kind."""
    rows = []
    for found in listed.entities:
        head = found.head
        row: Row = {"id": found.entity.id, "user": head.owner or None}
        times = {"created": moment_of(head.created), "updated": moment_of(head.updated)}
        rows.append(row | times | more(found))
    return RowPage(columns, rows, listed.next)


def holder_of(head: Head) -> str | None:
    return head.lease.holder if head.lease is not None else None


def moment_of(seconds: float | None) -> datetime | None:
    return moment(seconds) if seconds else None


def plain(rows: Iterable[Row]) -> list[Row]:
    """With times as text, for JSON."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value.isoformat() if isinstance(value, datetime) else to_builtins(value)
