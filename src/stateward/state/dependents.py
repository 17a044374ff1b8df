"""The dependents of a workflow: its children and effects, which are kept and deleted with it.

A dependent has no expiry of its own while its owner may need it: a child until the parent has
ended, an effect until its workflow has. Then it expires with its owner, and it is deleted with its
owner. A question is withdrawn when its workflow ends. All belong to the owner's user, with whom
they are erased; a backup or a copy has them as it has every entity. An unknown effect is the
exception: it is neither deleted nor does it expire before it is decided.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec.structs import replace

from stateward.codec import decode
from stateward.kinds import WORKFLOW
from stateward.ops import Drop, Fetched, SetHead, StatusIn
from stateward.state.effects import drop_effects, keep_effects
from stateward.state.handle import Handle
from stateward.state.loose_ends import OPEN, LooseEnds
from stateward.state.refusals import stored
from stateward.state.workflow_record import ACTIVE, META


def loose_ends(fetched: Fetched) -> LooseEnds:
    """Return what hangs on a workflow, by its fetched documents."""
    documents = fetched.documents
    return LooseEnds(documents[OPEN].json if OPEN in documents else None)


async def keep_dependents(handle: Handle, loose: LooseEnds, retain: float) -> None:
    """Keep what hangs on a workflow for so many seconds from now; 0: until it ends again."""
    async for child, fetched in _children(handle, loose):
        head = fetched.head
        if head.status != ACTIVE:  # or it sees, when it ends, that its parent waits no more
            await keep_dependents(child, loose_ends(fetched), retain)
            await child.commit_if((StatusIn((head.status,)),), SetHead(retain=retain))
    if loose.effects:
        await keep_effects(handle.scope, handle.entity, retain)


async def delete_with_dependents(handle: Handle, loose: LooseEnds) -> None:
    """Remove an ended workflow, its children and its effects."""
    async for child, fetched in _children(handle, loose):
        await delete_with_dependents(child, loose_ends(fetched))
    stored(await handle.commit((Drop(),)), handle.entity)
    await drop_effects(handle.scope, handle.entity)


async def _children(handle: Handle, loose: LooseEnds) -> AsyncIterator[tuple[Handle, Fetched]]:
    """Yield the existing children; the id may be that of another workflow, which is left out."""
    scope = handle.scope
    children: list[dict[str, Any]] = [*loose.children.values(), *loose.ended.values()]
    for child in children:
        theirs = replace(handle, entity=scope.entity(WORKFLOW, child["id"]))
        fetched = await theirs.fetch(documents=(META, OPEN))
        if META not in fetched.documents:
            continue
        if decode(fetched.documents[META].json).get("parent") == handle.entity.id:
            yield theirs, fetched
