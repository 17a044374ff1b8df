"""Actions on documents: a user's, and those that agents share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from stateward.actions.action import ActionCall, Actions, Handler, Mcp, Missing, Rest
from stateward.actions.arguments import ID, After, Arguments, Fields, Id, InHeader, Limit, User
from stateward.actions.page import Page
from stateward.actions.versions import etag
from stateward.bounds import Text
from stateward.codec import ID_BYTES, MOST
from stateward.errors import StateConflictError
from stateward.kinds import SHARED, USER
from stateward.ops import List, Listed
from stateward.records import Document
from stateward.state.documents import DocumentHandle
from stateward.state.malformed import readable
from stateward.state.merge_patch import merge_patch
from stateward.state.refusals import refuse
from stateward.state.stored_document import document
from stateward.state.users import Documents

TRIES = 10  # to replace whatever is there, while others do so too
LIST_SHOWS = "list_documents shows what there is"

Owner = Annotated[str, ID, "The id of the user whose documents are meant."]
DocumentName = Annotated[str, ID, "The name of the document, e.g. profile or preferences."]
Version = Annotated[int, Meta(ge=0, le=MOST)]
Match = InHeader("If-Match")

# Fields of arguments: name, type and default.
PREFIX = ("prefix", Annotated[str, Text(0, ID_BYTES), "Only those whose name begins so."], "")
NAME = ("name", DocumentName)
LIMIT, AFTER = ("limit", Limit, 100), ("after", After, None)
EXPECTED = (
    (
        "if_version",
        Annotated[
            Version | None,
            Match,
            "Only if the document is still at this version (0: only if there is none yet); pass "
            "the one you have read.",
        ],
        None,
    ),
    ("if_stamp", Annotated[str | None, Text(0, ID_BYTES), Match], None),
    ("any_version", Annotated[bool, Match], False),  # whichever: only if there is one
)


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


class DocumentDiff(Struct, frozen=True):
    """A JSON patch (RFC 6902), each operation of which also says what `was` there."""

    patch: list[dict[str, Any]]


def named_document(name: str, stored: Document) -> NamedDocument:
    tag = etag(stored.version, stored.stamp)
    return NamedDocument(name, stored.value, stored.version, tag, stored.updated_at)


def documents_of(call: ActionCall) -> Documents:
    """Return the documents of the user, or of the agents, that a request is about."""
    if hasattr(call.arguments, "shared"):
        return call.store.shared(call.arguments.shared, call.whose)
    return call.store.user(call.arguments.user)


def document_of(call: ActionCall) -> DocumentHandle:
    """Return the handle of the document that a request is about."""
    return documents_of(call).document(call.arguments.name)


async def _list(call: ActionCall) -> Page[NamedDocument]:
    asked, handle = call.arguments, documents_of(call).handle
    op = List(
        handle.entity.namespace,
        owner=handle.owner,
        within=handle.entity,
        prefix=asked.prefix,
        after=asked.after,
        limit=asked.limit,
    )
    listed = (await handle.scope.execute((op,)))[0]
    if not isinstance(listed, Listed):
        refuse(listed, handle.entity)
    shown = [
        named_document(name, record)
        for name, value in listed.documents
        if (record := readable(handle.entity, partial(document, value))) is not None
    ]
    return Page(shown, listed.next)


async def _read(call: ActionCall) -> NamedDocument:
    asked = call.arguments
    stored = await document_of(call).get(at=asked.at, version=asked.version)
    if not stored.exists:
        raise Missing("document", asked.name, LIST_SHOWS)
    return named_document(asked.name, stored)


async def _history(call: ActionCall) -> Page[PastVersion]:
    versions = document_of(call).history(limit=call.arguments.limit)
    return Page([PastVersion(of.value, of.version, of.updated_at) async for of in versions], None)


async def _diff(call: ActionCall) -> DocumentDiff:
    return DocumentDiff(await document_of(call).diff(call.arguments.old, call.arguments.new))


async def _expected(call: ActionCall) -> Document | None:
    """Return the version that a change is for; None: for any, also for none."""
    asked = call.arguments
    if asked.any_version:
        current: Document = await document_of(call).get()
        if not current.exists:
            raise StateConflictError(f"there is no document {asked.name!r}")
        return current
    return None if asked.if_version is None else Document({}, asked.if_version, asked.if_stamp)


async def _put(call: ActionCall) -> NamedDocument:
    asked = call.arguments
    for left in reversed(range(TRIES if asked.any_version else 1)):
        expect = await _expected(call)
        try:
            stored = await document_of(call).put(asked.value, expect=expect)
        except StateConflictError:
            if not left:
                raise
        else:
            return named_document(asked.name, stored)
    raise AssertionError("the last try returns or raises")


async def _patch(call: ActionCall) -> NamedDocument:
    asked, handle = call.arguments, document_of(call)
    expect = await _expected(call)
    if expect is None:
        return named_document(asked.name, await handle.patch(asked.patch))
    now = await handle.get()
    is_same_stamp = expect.stamp is None or expect.stamp == now.stamp
    if now.version != expect.version or not is_same_stamp:
        raise StateConflictError(
            f"the document {asked.name!r} is at version {now.version}, not {expect.version}: "
            "read it again before you decide"
        )
    changed = merge_patch(now.value, asked.patch)
    return named_document(asked.name, await handle.put(changed, expect=now))


async def _delete(call: ActionCall) -> None:
    await document_of(call).delete(expect=await _expected(call), forget=call.arguments.forget)


async def _undo(call: ActionCall) -> NamedDocument:
    """Return the restored document; if it was missing then, with version 0."""
    asked = call.arguments
    return named_document(asked.name, await document_of(call).undo(to=asked.to, at=asked.at))


class DocumentVerb(NamedTuple):
    """An action on documents; `{}` stands for whose they are."""

    name: str
    handler: Handler
    purpose: str
    asked: str  # method, and path below that of one document
    fields: tuple[Any, ...] = ()
    doc: str = ""  # of the arguments
    result: Any = NamedDocument
    body: str = ""
    mcp: Mcp | None = None
    logs: tuple[str, ...] = ("name",)


LIST = DocumentVerb(
    *("list", _list, "List {} by name", "GET "),
    (PREFIX, LIMIT, AFTER),
    "Which documents, by name.",
    Page[NamedDocument],
    mcp=Mcp(
        "list_documents",
        "List what is remembered about a user across conversations: JSON documents by name, "
        "such as a profile or preferences.",
    ),
    logs=(),
)
READS = (
    DocumentVerb(
        *("show", _read, "Get one of {}, now or at an earlier time", "GET "),
        (
            NAME,
            (
                "version",
                Annotated[Version | None, "As it was in this version; else as it is now."],
                None,
            ),
            ("at", Annotated[datetime | None, "As it was at this time, with time zone."], None),
        ),
        "As it is now; or was in a version, or at a time.",
        mcp=Mcp(
            "read_document",
            "Read one document of a user: the current version, an earlier one, or the one at a "
            "time.",
        ),
    ),
    DocumentVerb(
        *("history", _history, "List the versions of one of {}", "GET /history"),
        *((NAME, LIMIT), "How many versions, the newest first.", Page[PastVersion]),
    ),
    DocumentVerb(
        *("diff", _diff, "Compare two versions of one of {}", "GET /diff"),
        (NAME, ("old", Version), ("new", Version | None, None)),
        "From the version `old` to the version `new`; without that, to what it is now.",
        DocumentDiff,
    ),
)
CHANGES = (
    DocumentVerb(
        *("put", _put, "Replace or create one of {}", "PUT "), (NAME, ("value", Fields), *EXPECTED)
    ),
    DocumentVerb(
        *("patch", _patch, "Apply a JSON merge patch to one of {}", "PATCH "),
        (
            NAME,
            (
                "patch",
                Annotated[
                    Fields,
                    "A JSON merge patch (RFC 7396): only what changes. Objects are merged, null "
                    "removes a field, anything else replaces it.",
                ],
            ),
            *EXPECTED,
        ),
        "A change of one document.",
        mcp=Mcp(
            "patch_document",
            "Change fields of a user's document, or create it. Send only what changes.",
            without=("if_stamp", "any_version"),
        ),
    ),
    DocumentVerb(
        *("delete", _delete, "Remove one of {}", "DELETE "),
        (NAME, ("forget", bool, False), *EXPECTED),
        "With `forget` its history goes too.",
        None,
        logs=("name", "forget"),
    ),
    DocumentVerb(
        *("undo", _undo, "Restore an earlier version of one of {}", "POST /undo"),
        (
            NAME,
            (
                "to",
                Annotated[
                    Version | None, "To this version; else to before its last change, or to a time."
                ],
                None,
            ),
            ("at", Annotated[datetime | None, "To this time, with time zone."], None),
        ),
        "To which version, or time; neither: before its last change.",
        body="UndoBody",
        mcp=Mcp(
            "undo_document",
            "Restore a user's document to what it was before its last change, or to an earlier "
            "version. That creates a new version: nothing is lost.",
        ),
        logs=("name", "to", "at"),
    ),
)


def _rows(noun: str, kind: str, under: str, what: str) -> Actions:
    """Return the rows for the documents of one kind of entity, below the path `under`."""
    rows, is_users = Actions(noun, kind=kind, before=(), role="agent"), kind == USER
    whose: tuple[Any, ...] = (("user", Owner),) if is_users else (("shared", Id),)
    owner = () if is_users else (("user", User, None),)

    def arguments(verb: str, fields: tuple[Any, ...], doc: str) -> type[Struct]:
        return msgspec.defstruct(
            f"{noun}_{verb}",
            [*whose, *fields, *owner],
            bases=(Arguments,),
            namespace={"__doc__": doc},
            frozen=True,
            kw_only=True,
        )

    def added(verb: DocumentVerb, make: Callable[..., Any], **options: Any) -> None:
        handler: Any = partial(verb.handler)
        handler.__doc__ = verb.purpose.format(what)
        method, _, path = verb.asked.partition(" ")
        if verb.mcp is not None and is_users:
            options["mcp"] = verb.mcp
        below = f"{under}/{{name}}{path}" if NAME in verb.fields else under
        rest = Rest(f"{method} {below}", verb.body, writes=(USER,) if is_users else ())
        taken = arguments(verb.name, verb.fields, verb.doc)
        make(verb.name, taken, verb.result, about=kind, rest=rest, logs=verb.logs, **options)(
            handler
        )

    def listing(verb: str, taken: type[Struct], _: Any, **options: Any) -> Any:
        return rows.list(taken, NamedDocument, lambda it: it.name, verb, unlogged="", **options)

    read: dict[str, Any] = {"right": "documents.read", "log": "document read"}
    added(LIST, listing, for_one_user=True, **read)
    for verb in READS:
        added(verb, rows.read, for_one_user=True, **read)
    for verb in CHANGES:
        right, log = f"documents.{verb.name}", f"document {verb.name}"
        added(verb, rows.change, right=right, log=log, for_one_user=is_users)
    return rows


DOCUMENTS = _rows("document", USER, "/v1/users/{user}/documents", "a user's documents")
SHARED_DOCUMENTS = _rows(
    "shared", SHARED, "/v1/shared/{shared}/documents", "the documents that agents share"
)
