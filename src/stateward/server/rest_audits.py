"""The REST API of the audits whose reports are kept in the store."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from stateward.audit.archive import before, changes
from stateward.audit.forms import schema
from stateward.audit.forms.baseline import Comparison
from stateward.audit.forms.html.document import policy
from stateward.audit.forms.html.page import html
from stateward.audit.report import Report
from stateward.errors import InvalidInput
from stateward.records import AuditInfo, KeptAudit
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import Page, answer, missing
from stateward.server.route import RestCall, RestRoute
from stateward.state.audits import MOST
from stateward.wire import Body

HTML = "text/html; charset=utf-8"
# What a report says was said by whatever was audited: its page is no one's origin, so that even a
# script that came through could neither ask the service nor send anything anywhere.
GUARDED = {
    "content-security-policy": f"sandbox allow-scripts; {policy()}; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class AuditsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many."""

    limit: Annotated[int, Meta(ge=1, le=MOST)] = MOST


class AuditShown(Struct, frozen=True):
    """An audit in full, and what changed since the last one before it of the same title."""

    info: AuditInfo
    report: dict[str, Any]  # as report.schema.json says
    before: AuditInfo | None
    changes: Comparison | None


async def _list(call: RestCall) -> Reply:
    query: AuditsQuery = call.query
    return answer(Page(await call.store.audits.list(query.limit), None))


async def _read(call: RestCall) -> tuple[KeptAudit, Report]:
    id = call.path["audit"]
    kept = await call.store.audits.get(id)
    if kept is None:
        raise missing("audit", id)
    try:
        return kept, schema.from_json(kept.report)
    except InvalidInput as error:
        raise Refusal(
            404, f"the audit {id!r} is stored, but cannot be read here: {error}"
        ) from error


async def _since(call: RestCall, new: Report) -> tuple[AuditInfo | None, Comparison | None]:
    last = before(call.path["audit"], await call.store.audits.list())
    old = None if last is None else await call.store.audits.get(last.id)
    return last, changes(None if old is None else old.report, new)


async def _show(call: RestCall) -> Reply:
    kept, report = await _read(call)
    last, changed = await _since(call, report)
    raw: Any = msgspec.Raw(kept.report)
    return answer(AuditShown(kept.info, raw, last, changed))


async def _report(call: RestCall) -> Reply:
    _, report = await _read(call)
    _, changed = await _since(call, report)
    return Reply(200, Body(html(report, changed).encode(), HTML), GUARDED)


AUDITS = (
    RestRoute(
        "GET",
        "/v1/audits",
        "read",
        _list,
        "List stored audits, newest first",
        Page[AuditInfo],
        AuditsQuery,
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/audits/{audit}",
        "read",
        _show,
        "Get an audit, and what changed since the previous one",
        AuditShown,
        one_users=False,
    ),
    RestRoute(
        "GET",
        "/v1/audits/{audit}/report",
        "read",
        _report,
        "Get the full report of an audit as an HTML page",
        str,
        gives=HTML,
        one_users=False,
    ),
)
