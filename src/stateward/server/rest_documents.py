"""Routes of documents: the body is the document, and its version an ETag."""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import format_datetime
from functools import partial
from typing import Any

from stateward.actions.action import Action, Actions
from stateward.actions.carry_out import carry_out
from stateward.actions.documents import DOCUMENTS as OF_USERS
from stateward.actions.documents import SHARED_DOCUMENTS, NamedDocument, document_of
from stateward.errors import StateConflictError
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import answer, etag, expected
from stateward.server.rest_actions import asked_of, routes_of
from stateward.server.route import MATCH, MERGE_PATCH, NONE_MATCH, RestCall, RestRoute


def _shown(of: NamedDocument, status: int = 200) -> Reply:
    headers = {"etag": of.etag}
    if of.updated_at is not None:
        headers["last-modified"] = format_datetime(of.updated_at, usegmt=True)
    return answer(of.value, status, headers)


async def _get(row: Action, call: RestCall) -> Reply:
    current: NamedDocument = await carry_out(row, asked_of(call, row), call.log)
    tags = call.headers.get(NONE_MATCH.lower())
    if tags is not None and (
        tags.strip() == "*" or current.etag in map(str.strip, tags.split(","))
    ):
        return Reply(304, headers={"etag": current.etag})
    return _shown(current)


def _expected(call: RestCall) -> dict[str, Any]:
    """Return the version that the headers name; `If-Match: *` is whatever there is."""
    if call.headers.get(MATCH.lower(), "").strip() == "*":
        return {"any_version": True}
    at = expected(call)
    return {} if at is None else {"if_version": at.version, "if_stamp": at.stamp}


async def _changed(row: Action, call: RestCall, **given: Any) -> Any:
    """Make a change; if another writer was faster, refuse with the version that there is now."""
    asked = asked_of(call, row, **given)
    try:
        return await carry_out(row, asked, call.log)
    except StateConflictError as error:
        now = await document_of(asked).get()
        headers = {"etag": etag(now.version, now.stamp)} if now.exists else {}
        raise Refusal(412, str(error), **headers) from error


async def _put(row: Action, call: RestCall) -> Reply:
    expect = _expected(call)
    if not expect:
        raise Refusal(
            428,
            "name the version to replace: If-Match with the ETag that you have read, "
            "If-Match: * for any version, or If-None-Match: * to create it",
        )
    written = await _changed(row, call, value=call.body, **expect)
    return _shown(written, 201 if expect.get("if_version") == 0 else 200)


async def _patch(row: Action, call: RestCall) -> Reply:
    return _shown(await _changed(row, call, patch=call.body, **_expected(call)))


async def _delete(row: Action, call: RestCall) -> Reply:
    await _changed(row, call, **_expected(call))
    return Reply(204)


async def _undo(row: Action, call: RestCall) -> Reply:
    restored: NamedDocument = await _changed(row, call)
    return _shown(restored) if restored.version else Reply(204)


def _routes(rows: Actions) -> Iterator[RestRoute]:
    """Yield the routes of rows, of which those of one document have its version in headers."""
    routes = {
        row.name.partition(" ")[2]: route for row, route in zip(rows, routes_of(rows), strict=True)
    }
    value, matches = dict[str, Any], (MATCH, NONE_MATCH)
    for verb, answer_with, more in (
        ("show", _get, {"headers": (NONE_MATCH,)}),
        ("put", _put, {"headers": matches, "body": value}),
        ("patch", _patch, {"headers": matches, "body": value, "takes": MERGE_PATCH}),
        ("delete", _delete, {"headers": matches, "output": None}),
        ("undo", _undo, {"empty": (204,)}),
    ):
        given: dict[str, Any] = {"output": value, **more}
        routes[verb] = routes[verb]._replace(answer=partial(answer_with, rows[verb]), **given)
    yield from routes.values()


DOCUMENTS = (*_routes(OF_USERS), *_routes(SHARED_DOCUMENTS))
