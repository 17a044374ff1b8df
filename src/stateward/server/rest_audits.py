"""The REST API of the audits whose reports are kept in the store."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from stateward.actions.page import Page
from stateward.audit.archive import before, changes
from stateward.audit.forms import schema
from stateward.audit.forms.baseline import Comparison
from stateward.audit.forms.page import html
from stateward.audit.report import Report
from stateward.errors import InvalidInput
from stateward.pages.document import policy
from stateward.records import AuditInfo, KeptAudit
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import answer, missing
from stateward.server.route import RestCall, Routes
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


AUDITS = Routes()


@AUDITS.route("GET /v1/audits", "read", Page[AuditInfo], AuditsQuery, one_users=False)
async def _list(call: RestCall) -> Reply:
    """List stored audits, newest first."""
    query: AuditsQuery = call.query
    return answer(Page(await call.store.audits.list(query.limit), None))


async def _read(call: RestCall) -> tuple[KeptAudit, Report]:
    id = call.path["audit"]
    audit = await call.store.audits.get(id)
    if audit is None:
        raise missing("audit", id)
    try:
        return audit, schema.from_json(audit.report)
    except InvalidInput as error:
        raise Refusal(
            404, f"the audit {id!r} is stored, but cannot be read here: {error}"
        ) from error


async def _since(call: RestCall, new: Report) -> tuple[AuditInfo | None, Comparison | None]:
    last = before(call.path["audit"], await call.store.audits.list())
    old = None if last is None else await call.store.audits.get(last.id)
    return last, changes(None if old is None else old.report, new)


@AUDITS.route("GET /v1/audits/{audit}", "read", AuditShown, one_users=False)
async def _show(call: RestCall) -> Reply:
    """Get an audit, and what changed since the previous one."""
    audit, report = await _read(call)
    last, changed = await _since(call, report)
    raw: Any = msgspec.Raw(audit.report)
    return answer(AuditShown(audit.info, raw, last, changed))


@AUDITS.route("GET /v1/audits/{audit}/report", "read", str, gives=HTML, one_users=False)
async def _report(call: RestCall) -> Reply:
    """Get the full report of an audit as an HTML page."""
    _, report = await _read(call)
    _, changed = await _since(call, report)
    return Reply(200, Body(html(report, changed).encode(), HTML), GUARDED)
