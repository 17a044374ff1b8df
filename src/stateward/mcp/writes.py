"""The tools that change something. All of it is in the operations log."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from stateward.actions.table import ACTIONS
from stateward.codec import MOST as HIGHEST
from stateward.errors import StateConflictError
from stateward.kinds import USER
from stateward.mcp.action_tools import tools_of
from stateward.mcp.arguments import Name, Number, Owner
from stateward.mcp.document_reads import UserDocument, user_document
from stateward.mcp.tool import ToolCall, Tools
from stateward.server.route import RouteDeed
from stateward.state.merge_patch import merge_patch

IfVersion = Annotated[
    Annotated[int, Meta(ge=0, le=HIGHEST)] | None,
    Meta(
        description="Only if the document is still at this version (0: only if there is none yet); "
        "pass the one you have read."
    ),
]


class PatchDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of one document."""

    user: Owner = None
    name: Name
    patch: Annotated[
        dict[str, Any],
        Meta(
            description="A JSON merge patch (RFC 7396): only what changes. Objects are merged, "
            "null removes a field, anything else replaces it."
        ),
    ]
    if_version: IfVersion = None


class UndoDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which document, and to which version."""

    user: Owner = None
    name: Name
    to: Annotated[
        Number | None, Meta(description="To this version; else to before its last change.")
    ] = None


CHANGES = Tools()


@CHANGES.tool(
    PatchDocument,
    UserDocument,
    "Change fields of a user's document, or create it. Send only what changes.",
    RouteDeed("document patch", USER, "user", ("name",)),
)
async def _patch_document(call: ToolCall) -> UserDocument:
    given: PatchDocument = call.given
    user = call.user
    handle = call.store.user(user).document(given.name)
    if given.if_version is None:
        return user_document(user, given.name, await handle.patch(given.patch))
    now = await handle.get()
    if now.version != given.if_version:
        raise StateConflictError(
            f"the document {given.name!r} is at version {now.version}, not {given.if_version}: "
            "read it again before you decide"
        )
    changed = merge_patch(now.value, given.patch)
    return user_document(user, given.name, await handle.put(changed, expect=now))


@CHANGES.tool(
    UndoDocument,
    UserDocument,
    "Restore a user's document to what it was before its last change, or to an earlier "
    "version. That creates a new version: nothing is lost.",
    RouteDeed("document undo", USER, "user", ("name", "to")),
)
async def _undo_document(call: ToolCall) -> UserDocument:
    given: UndoDocument = call.given
    user = call.user
    restored = await call.store.user(user).document(given.name).undo(to=given.to)
    return user_document(user, given.name, restored)


WRITES = (*CHANGES, *tools_of(ACTIONS, reads=False))
