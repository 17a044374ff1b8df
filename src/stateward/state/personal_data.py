"""All that belongs to one user, of whatever kind: exported to a file, or erased for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any

from stateward.codec import decode, encode
from stateward.engine import GRACE
from stateward.errors import EntityBusy, StateConflictError, StoreFull
from stateward.files import WholeFile
from stateward.kinds import ERASED, ERASED_ALL, FORK, REMEMBERING, THREAD, WORKFLOW, erasure_of
from stateward.layers.gather import gather
from stateward.layers.layer import Execute
from stateward.ops import (
    Check,
    Commit,
    Conflict,
    Drop,
    Entity,
    Entry,
    Fetch,
    Fetched,
    Found,
    List,
    Log,
    Outcome,
    Put,
    Sweep,
    Swept,
    Value,
)
from stateward.records import ErasureReceipt, Exported, moment
from stateward.state.handle import Handle, tell_of, tell_of_erasure
from stateward.state.loose_ends import OPEN, open_as, opened_by
from stateward.state.past import read_record
from stateward.state.refusals import refuse, stored
from stateward.state.scope import Scope

EXPORT_FORMAT = 1
PASSES = 100  # a user who writes faster than this erases is told so
ROOM = 0.05  # seconds that a full store, or who has a lock, is given to make room


async def belongings(scope: Scope, user: str, *, expired: bool = False) -> AsyncIterator[Found]:
    """Every entity that the user owns, by kind and id; on request also what has expired."""
    wanted = List(scope.namespace, owner=user, expired=expired)
    async for page in scope.pages(wanted, here=True):
        for found in page.entities:
            yield found


async def erased_at(scope: Scope, user: str) -> float | None:
    """When this user was last erased, by the engine's clock; None: never."""
    mark = Handle(scope, erasure_of(scope.namespace, user))
    erased = (await mark.fetch(documents=(ERASED,))).documents.get(ERASED)
    return None if erased is None else erased.updated


async def erase(scopes: Sequence[Scope], user: str) -> ErasureReceipt:
    """From every engine concurrently, each with its own mark: it may be restored on its own."""
    receipts = await gather([_erasing(scope, user) for scope in scopes])
    removed: Counter[str] = Counter()
    for receipt in receipts:
        removed.update(receipt.removed)
    return ErasureReceipt(
        user,
        max(receipt.at for receipt in receipts),
        dict(removed),
        min(receipt.remembered_until for receipt in receipts),
        _replica(scopes),
    )


def _erasing(scope: Scope, user: str) -> Callable[[], Coroutine[Any, Any, ErasureReceipt]]:
    return lambda: _erase(scope, user)


def _replica(scopes: Sequence[Scope]) -> str | None:
    """The replica whose own state is among this: others have more of it."""
    return next((s.stack.replica for s in scopes if s.stack.replica is not None), None)


async def _erase(scope: Scope, user: str) -> ErasureReceipt:
    """Mark first, then drop, then remove physically: a failure at any point can be repeated."""
    removed: Counter[str] = Counter()
    execute: Execute = scope.execute_here
    if scope.stack.breaker != "closed":
        execute = scope.stack.execute_past_breaker  # by a full store, perhaps: see below
    try:
        at = await _mark(scope, user, ERASED, execute)
    except StoreFull:
        # It takes only what makes room, and then perhaps the mark; its refusals may have opened
        # the breaker, which must not keep room from being made. What came back in between goes
        # below.
        execute = scope.stack.execute_past_breaker
        removed += await _remove(scope, user, execute)
        at = await _mark_late(scope, user, ERASED, execute)
    removed += await _remove(scope, user, execute)
    await _mark_late(scope, user, ERASED_ALL, execute)
    tell_of_erasure(scope, user)
    return ErasureReceipt(user, moment(at), dict(+removed), moment(at + GRACE))


async def _mark_late(scope: Scope, user: str, name: str, execute: Execute) -> float:
    """The mark after there is room for it, which some stores make a little later."""
    world = scope.world
    end = world.monotonic() + scope.stack.policy.write_timeout
    while True:
        try:
            return await _mark(scope, user, name, execute)
        except StoreFull as error:
            execute = scope.stack.execute_past_breaker
            if world.monotonic() + ROOM > end:
                raise StoreFull(
                    f"everything of the user {user!r} is removed, but the store has no room to "
                    "record that, and writes in flight could bring some of it back: make room, "
                    "and erase again "
                    f"({error})"
                ) from error
            await world.pause(ROOM)


async def _mark(scope: Scope, user: str, name: str, execute: Execute) -> float:
    """Note on the mark of this erasure how far it is; returns when."""
    mark = erasure_of(scope.namespace, user)
    put = Put(name, encode({"erased": True}, "the mark"))
    commit = Commit(mark, scope.world.new_op(), (put,))
    return stored((await execute((commit,)))[0], mark).at


async def _remove(scope: Scope, user: str, execute: Execute) -> Counter[str]:
    """Drop all that there is of the user, and sweep; how many of each kind."""
    removed: Counter[str] = Counter()
    for _ in range(PASSES):
        found = [item async for item in belongings(scope, user, expired=True)]
        if not found:
            break
        # A fork that was on its way is forbidden before its intent goes: see `forks.py`.
        intents = [item.entity for item in found if item.entity.kind == FORK]
        copies = [each._replace(kind=kind) for each in intents for kind in (THREAD, WORKFLOW)]
        # So is what a workflow is about to open: see `loose_ends.py`.
        workflows = [item.entity for item in found if item.entity.kind == WORKFLOW]
        opening = await _opening(scope, workflows, execute)
        opened = [each for value in opening.values() for each in opened_by(scope.namespace, value)]
        await _drop(scope, user, [*copies, *opened], execute)
        entities = [item.entity for item in found]
        as_read = {each: open_as(opening.get(each)) for each in workflows}
        outcomes = await _drop(scope, user, entities, execute, as_read)
        for entity, dropped in zip(entities, outcomes, strict=True):
            if isinstance(dropped, Conflict):
                continue  # it opens something just now: the next pass finds what
            stored(dropped, entity)
            tell_of(scope, entity, Drop())
            removed[entity.kind] += entity.kind != FORK
    else:
        raise StateConflictError(
            f"the user {user!r} keeps writing while being erased; stop their agents and erase again"
        )
    await _sweep(scope, user, execute)
    return removed


async def _sweep(scope: Scope, user: str, execute: Execute) -> None:
    """Remove physically what was dropped, however often somebody else has locked some of it."""
    world = scope.world
    end = None
    while True:
        swept = (await execute((Sweep(),)))[0]
        assert isinstance(swept, Swept)
        if swept.more:
            continue
        if not swept.locked:
            return
        if end is None:
            end = world.monotonic() + scope.stack.policy.write_timeout
        elif world.monotonic() > end:
            raise EntityBusy(
                f"everything of the user {user!r} is deleted, but not all of it is removed from "
                "the disk: another program holds a lock on some of it; look for a long "
                "transaction, end it, and erase again"
            )
        await world.pause(ROOM)


async def _opening(
    scope: Scope, workflows: Sequence[Entity], execute: Execute
) -> dict[Entity, Value]:
    """What workflows say that they have open elsewhere."""
    found: dict[Entity, Value] = {}
    for start in range(0, len(workflows), scope.capabilities.page):
        page = workflows[start : start + scope.capabilities.page]
        outcomes = await execute([Fetch(entity, None, None, (OPEN,)) for entity in page])
        for entity, outcome in zip(page, outcomes, strict=True):
            if isinstance(outcome, Fetched) and OPEN in outcome.documents:
                found[entity] = outcome.documents[OPEN]
    return found


async def _drop(
    scope: Scope,
    user: str,
    entities: Sequence[Entity],
    execute: Execute,
    as_read: Mapping[Entity, Check] | None = None,
) -> list[Outcome]:
    """What became of each; one of another's is not dropped, nor one that is not `as_read`."""
    read = as_read or {}
    outcomes: list[Outcome] = []
    for start in range(0, len(entities), scope.capabilities.page):
        page = entities[start : start + scope.capabilities.page]
        drops = [
            Commit(
                entity,
                scope.world.new_op(),
                (Drop(),),
                (read[entity],) if entity in read else (),
                owner=user,
            )
            for entity in page
        ]
        outcomes += await execute(drops)
    return outcomes


async def export(scopes: Sequence[Scope], user: str, path: str) -> Exported:
    """One line that says what this is, then one line an entity or message."""
    counts: Counter[str] = Counter()
    world, namespace = scopes[0].world, scopes[0].namespace
    file = await world.offload(WholeFile, path)
    try:
        head = {"stateward_export": EXPORT_FORMAT, "namespace": namespace, "user": user}
        file.write_line(encode(head, "the export"))
        for scope in scopes:
            async for found in belongings(scope, user):
                if found.entity.kind == FORK:
                    continue
                async for line in entity_lines(scope, found):
                    counts[line["is"]] += 1
                    file.write_line(encode(line, "the export"))
        await world.offload(file.finish)
    except BaseException:
        file.abandon()
        raise
    replica = _replica(scopes)
    return Exported(
        path, counts["entity"], counts["message"], counts["document"], replica, counts["version"]
    )


async def entity_lines(scope: Scope, found: Found) -> AsyncIterator[dict[str, Any]]:
    """What an export says of an entity: itself, its documents, its messages or their versions."""
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
    fetched = await _fetch(scope, Fetch(entity, head.owner, all_documents=True))
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
        log = Log(after=after, upto=head.version, first=scope.capabilities.page, whole=True)
        page = await _fetch(scope, Fetch(entity, head.owner, log))
        for entry in page.entries:
            if not entry.body:
                continue  # removed
            if entity.kind in REMEMBERING:
                yield _version(entry)
                continue
            message = {
                "is": "message",
                "version": entry.seq,
                "at": moment(entry.at).isoformat(),
                "key": entry.key,
                "message": decode(entry.body),
            }
            yield message if entry.note is None else message | {"saw": decode(entry.note)}
        if not page.entries:
            return
        after = page.entries[-1].seq


def _version(entry: Entry) -> dict[str, Any]:
    """What a document was: without a value, it was removed."""
    said = read_record(entry)
    value = {} if said.json is None else {"value": decode(said.json)}
    at = moment(said.at).isoformat()
    return {"is": "version", "name": said.document, "at": at, "stamp": said.stamp} | value


async def _fetch(scope: Scope, fetch: Fetch) -> Fetched:
    """What lies here, though another replica may have the right to it by now."""
    outcome = (await scope.execute_here((fetch,)))[0]
    if not isinstance(outcome, Fetched):
        refuse(outcome, fetch.entity)
    return outcome
