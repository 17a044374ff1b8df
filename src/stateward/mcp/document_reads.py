"""Tools that read users' documents."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from stateward.actions.action import Missing
from stateward.mcp.arguments import After, Limit, Name, Number, Owner
from stateward.mcp.size import MOST, ToolPage, page_of, short
from stateward.mcp.tool import ToolCall, Tools
from stateward.records import Document
from stateward.server.rest_documents import list_documents as documents_by_name
from stateward.state.stored_document import document


class ListDocuments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose documents."""

    user: Owner = None
    prefix: Annotated[str, Meta(description="Only those whose name begins with this.")] = ""
    limit: Limit = 20
    after: After = None


class ReadDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which document, now or as it was."""

    user: Owner = None
    name: Name
    version: Annotated[
        Number | None, Meta(description="As it was in this version; else as it is now.")
    ] = None
    at: Annotated[datetime | None, Meta(description="As it was at this time, with time zone.")] = (
        None
    )


class UserDocument(Struct, frozen=True):
    """A document of a user. `version` counts its changes; pass it as `if_version` to a change."""

    user: str
    name: str
    value: dict[str, Any]
    version: int
    updated_at: datetime | None


def user_document(user: str, name: str, found: Document) -> UserDocument:
    """As much of it as there is room for."""
    return short(_document(user, name, found), MOST)


def _document(user: str, name: str, found: Document) -> UserDocument:
    return UserDocument(user, name, found.value, found.version, found.updated_at)


DOCUMENT_READS = Tools()


@DOCUMENT_READS.tool(
    ListDocuments,
    ToolPage[UserDocument],
    "List what is remembered about a user across conversations: JSON documents by name, such "
    "as a profile or preferences.",
)
async def list_documents(call: ToolCall) -> ToolPage[UserDocument]:
    given: ListDocuments = call.given
    user = call.user
    handle = call.store.user(user).handle
    listed = await documents_by_name(handle, given.prefix, given.after, given.limit)
    documents = [_document(user, name, document(value)) for name, value in listed.documents]
    return page_of(documents, given.limit, lambda it: it.name, more=listed.next is not None)


@DOCUMENT_READS.tool(
    ReadDocument,
    UserDocument,
    "Read one document of a user: the current version, an earlier one, or the one at a time.",
)
async def read_document(call: ToolCall) -> UserDocument:
    given: ReadDocument = call.given
    user = call.user
    stored = await call.store.user(user).get(given.name, at=given.at, version=given.version)
    if not stored.exists:
        raise Missing("document", given.name, "list_documents shows what there is")
    return user_document(user, given.name, stored)
