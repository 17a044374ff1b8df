"""The tools that change something. All of it is in the operations log."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from stateward.codec import MOST as HIGHEST
from stateward.errors import NotYoursError, StateConflictError
from stateward.kinds import QUESTION, USER
from stateward.mcp.arguments import Name, Number, Owner
from stateward.mcp.document_reads import UserDocument, user_document
from stateward.mcp.tool import ToolCall, Tools
from stateward.server.rest import ChangeMade
from stateward.server.route import RouteDeed
from stateward.state.merge_patch import merge_patch
from stateward.state.questions import answer as answer_question

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


class AnswerQuestion(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to an open question."""

    question: Annotated[
        str, Meta(min_length=1, description="The id of the question, as list_questions shows it.")
    ]
    value: Annotated[
        Any, Meta(description="The answer as JSON, in the form that the question asks for.")
    ]


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


@CHANGES.tool(
    AnswerQuestion,
    ChangeMade,
    "Answer what a workflow asks and waits for, e.g. an approval. Of several answers the first "
    "counts; `changed` is false if the question is no longer open. The workflow continues "
    "immediately, and this cannot be undone: answer only what the person you work for decided.",
    RouteDeed("question answer", QUESTION, "question"),
)
async def _answer_question(call: ToolCall) -> ChangeMade:
    given: AnswerQuestion = call.given
    scope = call.store.sections["workflows"]
    by = call.caller.asker.user
    try:
        return ChangeMade(await answer_question(scope, given.question, given.value, by=by))
    except NotYoursError:  # as if it were not there
        return ChangeMade(False)


WRITES = tuple(CHANGES)
