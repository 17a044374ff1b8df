"""All that belongs to one user, of whatever kind: exported to a file, or erased for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from holdfast.codec import decode, encode
from holdfast.engine import GRACE
from holdfast.erasure import MARK, mark_of
from holdfast.errors import StateConflictError
from holdfast.files import WholeFile
from holdfast.ops import (
    Commit,
    Drop,
    Fetch,
    Fetched,
    Found,
    List,
    Listed,
    Log,
    Put,
    Sweep,
    Swept,
)
from holdfast.records import Exported, Receipt, moment
from holdfast.state.scope import Scope, stored

EXPORT_FORMAT = 1
PASSES = 100  # a user who writes faster than this erases is told so


async def belongings(scope: Scope, user: str, *, expired: bool = False) -> AsyncIterator[Found]:
    """Every entity that the user owns, by kind and id; on request also what has expired."""
    after: str | None = None
    while True:
        page = List(
            scope.namespace,
            owner=user,
            expired=expired,
            after=after,
            limit=scope.capabilities.page,
        )
        listed = (await scope.execute((page,)))[0]
        assert isinstance(listed, Listed)
        for found in listed.entities:
            yield found
        if listed.next is None:
            return
        after = listed.next


async def erased_at(scope: Scope, user: str) -> float | None:
    """When this user was last erased, by the engine's clock; None: never.

    Whoever replays or restores what was written before must leave it out.
    """
    fetched = await scope.fetch(Fetch(mark_of(scope.namespace, user), documents=(MARK,)))
    mark = fetched.documents.get(MARK)
    return None if mark is None else mark.updated


async def erase(scope: Scope, user: str) -> Receipt:
    """Mark first, then drop, then remove physically: a failure at any point can be repeated."""
    mark = mark_of(scope.namespace, user)
    outcome = await scope.commit(mark, (Put(MARK, encode({"erased": True}, "the mark")),))
    at = stored(outcome, mark).at
    removed: Counter[str] = Counter()
    for _ in range(PASSES):
        found = [item async for item in belongings(scope, user, expired=True)]
        if not found:
            break
        for start in range(0, len(found), scope.capabilities.page):
            page = found[start : start + scope.capabilities.page]
            drops = [
                Commit(item.entity, scope.world.new_id(), (Drop(),), owner=user) for item in page
            ]
            for item, dropped in zip(page, await scope.execute(drops), strict=True):
                stored(dropped, item.entity)
                removed[item.entity.kind] += 1
    else:
        raise StateConflictError(
            f"the user {user!r} keeps writing while being erased; stop their agents and erase again"
        )
    more = True
    while more:
        swept = (await scope.execute((Sweep(),)))[0]
        assert isinstance(swept, Swept)
        more = swept.more
    return Receipt(user, moment(at), dict(removed), moment(at + GRACE))


async def export(scope: Scope, user: str, path: str) -> Exported:
    """One line that says what this is, then one line an entity or message."""
    counts: Counter[str] = Counter()
    file = await scope.world.offload(WholeFile, path)
    try:
        head = {"holdfast_export": EXPORT_FORMAT, "namespace": scope.namespace, "user": user}
        file.write_line(encode(head, "the export"))
        async for found in belongings(scope, user):
            async for line in _lines(scope, found):
                counts[line["is"]] += 1
                file.write_line(encode(line, "the export"))
        await scope.world.offload(file.finish)
    except BaseException:
        file.abandon()
        raise
    return Exported(path, counts["entity"], counts["message"], counts["document"])


async def _lines(scope: Scope, found: Found) -> AsyncIterator[dict[str, Any]]:
    entity, head = found.entity, found.head
    yield {
        "is": "entity",
        "kind": entity.kind,
        "id": entity.id,
        "status": head.status,
        "version": head.version,
        "created_at": moment(head.created).isoformat(),
        "updated_at": moment(head.updated).isoformat(),
    }
    fetched = await scope.fetch(Fetch(entity, head.owner, all_documents=True))
    for name, value in fetched.documents.items():
        yield {
            "is": "document",
            "name": name,
            "version": value.version,
            "updated_at": moment(value.updated).isoformat(),
            "value": decode(value.json),
        }
    after = 0
    while True:
        log = Log(after=after, upto=head.version, first=scope.capabilities.page, details=True)
        page: Fetched = await scope.fetch(Fetch(entity, head.owner, log))
        for entry in page.entries:
            yield {
                "is": "message",
                "version": entry.seq,
                "at": moment(entry.at).isoformat(),
                "key": entry.key,
                "message": decode(entry.body),
            }
        if not page.entries:
            return
        after = page.entries[-1].seq
