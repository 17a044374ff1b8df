"""The REST API of the operations log: what was done by hand, newest first."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from msgspec import Struct
from msgspec.structs import asdict

from stateward.actions.page import Page
from stateward.codec import encode
from stateward.records import LoggedOperation
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import LINES, Limit, answer, before_number, linked
from stateward.server.route import RestCall, Routes
from stateward.state.operation_record import exported, heading, target_of
from stateward.state.operations_log import OperationsLog


class LogQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which entries, the newest first; `target` is KIND/ID, and shows those of the page."""

    target: str | None = None
    limit: Limit = 100
    after: str | None = None


class VerifyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`head` is what an earlier check has answered: it finds what was cut off or rewritten."""

    head: str | None = None


class LogCheck(Struct, frozen=True):
    """Whether the log is intact, as `OperationsLog.verify` returns it."""

    ok: bool
    entries: int
    base: int
    head: str
    problems: tuple[str, ...]
    unended: tuple[int, ...]
    confirmed: int  # up to this entry, a head that was compared with confirms it; 0: none was


OPERATIONS_LOG = Routes()


@OPERATIONS_LOG.route(
    "GET /v1/operations-log", "operate", Page[LoggedOperation], LogQuery, one_users=False
)
async def _list(call: RestCall) -> Reply:
    """List manual changes, newest first."""
    query: LogQuery = call.query
    upto = before_number(query.after)
    target = None if query.target is None else _target(query.target)
    read = call.store.operations.entries(upto=upto, last=query.limit)
    entries = [entry async for entry in read]
    following = str(entries[0].number) if len(entries) == query.limit else None
    shown = [entry for entry in reversed(entries) if target in (None, entry.target)]
    return answer(Page(shown, following), headers=linked(call, following))


def _target(text: str) -> str:
    kind, slash, id = text.partition("/")
    if not slash:
        raise Refusal(400, "target is KIND/ID, e.g. thread/s-abc123 or user/u-42")
    return text if id.startswith("sha256:") else target_of(kind, id)


@OPERATIONS_LOG.route(
    "GET /v1/operations-log/verify", "operate", LogCheck, VerifyQuery, one_users=False
)
async def _verify(call: RestCall) -> Reply:
    """Check the operations log for tampering."""
    check = await call.store.operations.verify(call.query.head)
    return answer(LogCheck(ok=check.ok, **asdict(check)))


@OPERATIONS_LOG.route("GET /v1/operations-log/export", "operate", str, gives=LINES, one_users=False)
async def _export(call: RestCall) -> Reply:
    """Export the operations log with its hashes, one JSON object per line."""
    lines = _lines(call.store.operations, call.store.sections["workflows"].namespace)
    return Reply(200, headers={"content-type": LINES}, events=lines)


async def _lines(log: OperationsLog, namespace: str) -> AsyncGenerator[bytes, None]:
    yield encode(heading(namespace), "the export").encode() + b"\n"
    async for entry in log.stored_entries():
        yield encode(exported(entry), "the export").encode() + b"\n"
