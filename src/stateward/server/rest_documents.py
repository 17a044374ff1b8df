"""The REST API of documents: a user's, and those that agents share. The body is the document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from email.utils import format_datetime
from functools import partial
from typing import Annotated, Any, NamedTuple, NoReturn

from msgspec import Meta, Struct

from stateward.actions.arguments import Nothing
from stateward.actions.page import Page
from stateward.codec import MOST
from stateward.errors import StateConflictError
from stateward.kinds import SHARED, USER
from stateward.ops import List, Listed
from stateward.records import Document, DocumentVersion, moment
from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.server.rest import Limit, Whom, answer, etag, expected, linked, missing, whose
from stateward.server.route import MATCH, MERGE_PATCH, NONE_MATCH, RestCall, RestRoute, RouteDeed
from stateward.state.documents import DocumentHandle
from stateward.state.handle import Handle
from stateward.state.malformed import readable
from stateward.state.merge_patch import merge_patch
from stateward.state.refusals import refuse
from stateward.state.stored_document import document
from stateward.state.users import Documents

Version = Annotated[int, Meta(ge=0, le=MOST)]
TRIES = 10  # to replace whatever is there, while others do so too


class NamesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which documents, by name."""

    prefix: str = ""
    limit: Limit = 100
    after: str | None = None


class GetQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """As it is now; or was in a version, or at a time."""

    version: Version | None = None
    at: datetime | None = None


class DeleteQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """With `forget` its history goes too."""

    forget: bool = False


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How many versions, the newest first."""

    limit: Limit = 100


class SharedNamesQuery(NamesQuery, frozen=True, forbid_unknown_fields=True):
    """The query for documents that agents share; `user` owns them, if it is one user's."""

    user: str | None = None


class SharedGetQuery(GetQuery, frozen=True, forbid_unknown_fields=True):
    """The query for documents that agents share; `user` owns them, if it is one user's."""

    user: str | None = None


class SharedDeleteQuery(DeleteQuery, frozen=True, forbid_unknown_fields=True):
    """The query for documents that agents share; `user` owns them, if it is one user's."""

    user: str | None = None


class SharedHistoryQuery(HistoryQuery, frozen=True, forbid_unknown_fields=True):
    """The query for documents that agents share; `user` owns them, if it is one user's."""

    user: str | None = None


class DiffQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """From the version `old` to the version `new`; without that, to what it is now."""

    old: Version
    new: Version | None = None


class SharedDiffQuery(DiffQuery, frozen=True, forbid_unknown_fields=True):
    """The query for documents that agents share; `user` owns them, if it is one user's."""

    user: str | None = None


class DocumentDiff(Struct, frozen=True):
    """A JSON patch (RFC 6902), each operation of which also says what `was` there."""

    patch: list[dict[str, Any]]


class UndoBody(Struct, frozen=True, forbid_unknown_fields=True):
    """To which version, or time; neither: before its last change."""

    to: Version | None = None
    at: datetime | None = None


class NamedDocument(Struct, frozen=True):
    """A document in a listing."""

    name: str
    value: dict[str, Any]
    version: int
    etag: str
    updated_at: datetime | None


class PastVersion(Struct, frozen=True):
    """What a document was from a moment on; a `value` of null: it was removed."""

    value: dict[str, Any] | None
    version: int | None
    updated_at: datetime


def named_document(name: str, found: Document) -> NamedDocument:
    tag = etag(found.version, found.stamp)
    return NamedDocument(name, found.value, found.version, tag, found.updated_at)


def _documents(call: RestCall) -> Documents:
    if "user" in call.path:
        return call.store.user(call.path["user"])
    return call.store.shared(call.path["shared"], whose(call, call.query.user))


def _handle(call: RestCall) -> DocumentHandle:
    return _documents(call).document(call.path["name"])


def _shown(found: Document, status: int = 200) -> Reply:
    headers = {"etag": etag(found.version, found.stamp)}
    if found.updated:
        headers["last-modified"] = format_datetime(moment(found.updated), usegmt=True)
    return answer(found.value, status, headers)


async def _list(call: RestCall) -> Reply:
    query: NamesQuery = call.query
    documents = _documents(call)
    listed = await list_documents(documents.handle, query.prefix, query.after, query.limit)
    shown = [
        named_document(name, record)
        for name, value in listed.documents
        if (record := readable(documents.handle.entity, partial(document, value))) is not None
    ]
    return answer(Page(shown, listed.next), headers=linked(call, listed.next))


async def list_documents(handle: Handle, prefix: str, after: str | None, limit: int) -> Listed:
    """Return a page of the documents of a user, or of those that agents share, by name."""
    op = List(
        handle.entity.namespace,
        owner=handle.owner,
        within=handle.entity,
        prefix=prefix,
        after=after,
        limit=limit,
    )
    listed = (await handle.scope.execute((op,)))[0]
    if not isinstance(listed, Listed):
        refuse(listed, handle.entity)
    return listed


async def _get(call: RestCall) -> Reply:
    current = await _handle(call).get(at=call.query.at, version=call.query.version)
    if not current.exists:
        raise missing("document", call.path["name"])
    tags = call.headers.get(NONE_MATCH.lower())
    tag = etag(current.version, current.stamp)
    if tags is not None and (tags.strip() == "*" or tag in map(str.strip, tags.split(","))):
        return Reply(304, headers={"etag": tag})
    return _shown(current)


async def _expected(call: RestCall, handle: DocumentHandle) -> Document | None:
    """The version that a write is for; `If-Match: *` is whatever there is."""
    if call.headers.get(MATCH.lower(), "").strip() != "*":
        at = expected(call)
        return None if at is None else Document({}, at.version, at.stamp)
    current = await handle.get()
    if not current.exists:
        raise Refusal(412, f"there is no document {call.path['name']!r}")
    return current


async def _put(call: RestCall) -> Reply:
    handle = _handle(call)
    for left in reversed(range(TRIES)):
        expect = await _expected(call, handle)
        if expect is None:
            raise Refusal(
                428,
                "name the version to replace: If-Match with the ETag that you have read, "
                "If-Match: * for any version, or If-None-Match: * to create it",
            )
        try:
            written = await handle.put(call.body, expect=expect)
        except StateConflictError as error:
            if left and call.headers.get(MATCH.lower(), "").strip() == "*":
                continue
            await _refuse(handle, error)
        else:
            return _shown(written, 200 if expect.exists else 201)
    raise AssertionError("the last try returns or raises")


async def _refuse(handle: DocumentHandle, error: StateConflictError) -> NoReturn:
    """Another writer was faster: say what is there now."""
    now = await handle.get()
    headers = {"etag": etag(now.version, now.stamp)} if now.exists else {}
    raise Refusal(412, str(error), **headers) from error


async def _patch(call: RestCall) -> Reply:
    handle = _handle(call)
    if MATCH.lower() not in call.headers and NONE_MATCH.lower() not in call.headers:
        return _shown(await handle.patch(call.body))
    expect = await _expected(call, handle)
    now = await handle.get()
    same = expect is not None and (now.version, now.stamp) == (expect.version, expect.stamp)
    if expect is None or not same:
        await _refuse(handle, StateConflictError("the document is not at that version any more"))
    try:
        return _shown(await handle.put(merge_patch(now.value, call.body), expect=now))
    except StateConflictError as error:
        await _refuse(handle, error)


async def _delete(call: RestCall) -> Reply:
    handle = _handle(call)
    try:
        expect = await _expected(call, handle)
        await handle.delete(expect=expect, forget=call.query.forget)
    except StateConflictError as error:
        await _refuse(handle, error)
    return Reply(204)


async def _history(call: RestCall) -> Reply:
    limit: int = call.query.limit
    versions: AsyncIterator[DocumentVersion] = _handle(call).history(limit=limit)
    items = [PastVersion(of.value, of.version, of.updated_at) async for of in versions]
    return answer(Page(items, None))


async def _diff(call: RestCall) -> Reply:
    query: DiffQuery = call.query
    return answer(DocumentDiff(await _handle(call).diff(query.old, query.new)))


async def _undo(call: RestCall) -> Reply:
    body: UndoBody = call.body
    handle = _handle(call)
    try:
        restored = await handle.undo(to=body.to, at=body.at)
    except StateConflictError as error:
        await _refuse(handle, error)
    return _shown(restored) if restored.exists else Reply(204)


class _Queries(NamedTuple):
    """The types of the queries, which differ in whether they may name a user."""

    names: type[Struct]
    get: type[Struct]
    delete: type[Struct]
    history: type[Struct]
    diff: type[Struct]
    whom: type[Struct]


def _routes(kind: str, under: str, what: str, of: _Queries) -> tuple[RestRoute, ...]:
    """Return the routes of the documents of one kind of entity, below the path `under`."""
    one, one_of = f"{under}/{{name}}", f"one of {what}"
    value, versions = dict[str, Any], Page[PastVersion]
    put, patch = (RouteDeed(f"document {verb}", kind, kind) for verb in ("put", "patch"))
    delete = RouteDeed("document delete", kind, kind, ("forget",), makes_room=True)
    undo = RouteDeed("document undo", kind, kind, ("to", "at"))
    read = RouteDeed("document read", kind, kind, reads=True)
    writes = (USER,) if kind == USER else ()
    written = partial(RestRoute, one_users=kind == USER, writes=writes)
    return (
        RestRoute(
            *("GET", under, "read", _list, f"List {what} by name"),
            *(Page[NamedDocument], of.names),
            deed=read,
        ),
        RestRoute(
            *("GET", one, "read", _get, f"Get {one_of}, now or at an earlier time"),
            *(value, of.get),
            headers=(NONE_MATCH,),
            deed=read,
        ),
        written(
            *("PUT", one, "write", _put, f"Replace or create {one_of}"),
            *(value, of.whom, value),
            deed=put,
            headers=(MATCH, NONE_MATCH),
        ),
        written(
            *("PATCH", one, "write", _patch, f"Apply a JSON merge patch to {one_of}"),
            *(value, of.whom, value),
            takes=MERGE_PATCH,
            deed=patch,
            headers=(MATCH, NONE_MATCH),
        ),
        written(
            *("DELETE", one, "write", _delete, f"Remove {one_of}"),
            *(None, of.delete),
            status=204,
            deed=delete,
            headers=(MATCH, NONE_MATCH),
        ),
        RestRoute(
            *("GET", f"{one}/history", "read", _history, f"List the versions of {one_of}"),
            *(versions, of.history),
            deed=read,
        ),
        RestRoute(
            *("GET", f"{one}/diff", "read", _diff, f"Compare two versions of {one_of}"),
            *(DocumentDiff, of.diff),
            deed=read,
        ),
        written(
            *("POST", f"{one}/undo", "write", _undo, f"Restore an earlier version of {one_of}"),
            *(value, of.whom, UndoBody),
            empty=(204,),
            deed=undo,
        ),
    )


DOCUMENTS = (
    *_routes(
        USER,
        "/v1/users/{user}/documents",
        "a user's documents",
        _Queries(NamesQuery, GetQuery, DeleteQuery, HistoryQuery, DiffQuery, Nothing),
    ),
    *_routes(
        SHARED,
        "/v1/shared/{shared}/documents",
        "the documents that agents share",
        _Queries(
            SharedNamesQuery,
            SharedGetQuery,
            SharedDeleteQuery,
            SharedHistoryQuery,
            SharedDiffQuery,
            Whom,
        ),
    ),
)
