"""Everything that belongs to one user: exported to a file, or erased permanently."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from stateward.codec import decode, encode
from stateward.engine import GRACE
from stateward.errors import EntityBusy, SchemaError, StateConflictError, StoreFull
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
    Op,
    Outcome,
    Put,
    Sweep,
    Swept,
    Value,
)
from stateward.records import ErasureReceipt, Exported, moment
from stateward.state.document_record import read_record
from stateward.state.handle import Handle, tell_of, tell_of_erasure
from stateward.state.loose_ends import OPEN, opened_by
from stateward.state.malformed import readable
from stateward.state.refusals import refuse, stored
from stateward.state.scope import Scope
from stateward.state.stored_document import document_at

EXPORT_FORMAT = 1
PASSES = 100  # after which the user is considered to write faster than this erases
ROOM = 0.05  # seconds between attempts while a store is full, or rows are locked


async def belongings(scope: Scope, user: str, *, expired: bool = False) -> AsyncIterator[Found]:
    """Yield every entity that the user owns, by kind and id; with `expired`, also expired ones."""
    wanted = List(scope.namespace, owner=user, expired=expired)
    async for page in scope.pages(wanted, here=True):
        for entity in page.entities:
            yield entity


async def erased_at(scope: Scope, user: str) -> float | None:
    """Return when this user was last erased, by the engine's clock; None: never."""
    mark = Handle(scope, erasure_of(scope.namespace, user))
    erased = (await mark.fetch(documents=(ERASED,))).documents.get(ERASED)
    return None if erased is None else erased.updated


async def erase(scopes: Sequence[Scope], user: str) -> ErasureReceipt:
    """Erase from every engine concurrently, each with a mark of its own: backups are separate."""
    receipts = await gather([partial(_erase, scope, user) for scope in scopes])
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


def _replica(scopes: Sequence[Scope]) -> str | None:
    """Return the replica whose own state is included; other replicas have more."""
    return next((s.stack.replica for s in scopes if s.stack.replica is not None), None)


async def _erase(scope: Scope, user: str) -> ErasureReceipt:
    """Mark first, then drop, then remove physically: after any failure it can be repeated."""
    removed: Counter[str] = Counter()
    execute: Execute = scope.execute_here
    if scope.stack.breaker != "closed":
        execute = scope.stack.execute_past_breaker  # a full store may have opened it: see below
    try:
        at = await _mark(scope, user, ERASED, execute)
    except StoreFull:
        # A full store accepts only what makes room, and then perhaps the mark; its refusals may
        # have opened the breaker, which must not keep room from being made. Anything written in
        # between is removed below.
        execute = scope.stack.execute_past_breaker
        removed += await _remove(scope, user, execute)
        at = await _mark_late(scope, user, ERASED, execute)
    removed += await _remove(scope, user, execute)
    await _mark_late(scope, user, ERASED_ALL, execute)
    tell_of_erasure(scope, user)
    return ErasureReceipt(user, moment(at), dict(+removed), moment(at + GRACE))


async def _mark_late(scope: Scope, user: str, name: str, execute: Execute) -> float:
    """Write the mark once there is room for it, which some stores make a little later."""
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
                    f"and erase again ({error})"
                ) from error
            await world.pause(ROOM)


async def _mark(scope: Scope, user: str, name: str, execute: Execute) -> float:
    """Record how far this erasure is; return the time of the record."""
    mark = erasure_of(scope.namespace, user)
    put = Put(name, encode({"erased": True}, "the mark"))
    commit = Commit(mark, scope.world.new_op(), (put,))
    return stored((await execute((commit,)))[0], mark).at


async def _remove(scope: Scope, user: str, execute: Execute) -> Counter[str]:
    """Drop everything of the user, and sweep; return how many entities of each kind."""
    removed: Counter[str] = Counter()
    for _ in range(PASSES):
        entities = [each.entity async for each in belongings(scope, user, expired=True)]
        if not entities:
            break
        # A fork in progress is forbidden before its intent is dropped: see `forks.py`.
        intents = [entity for entity in entities if entity.kind == FORK]
        copies = [each._replace(kind=kind) for each in intents for kind in (THREAD, WORKFLOW)]
        # So is what a workflow is about to open: see `loose_ends.py`.
        workflows = [entity for entity in entities if entity.kind == WORKFLOW]
        opening = await _opening(scope, workflows, execute)
        opened = [each for value in opening.values() for each in opened_by(scope.namespace, value)]
        forbid = partial(_dropping, scope, user, {})
        await _for_each([*copies, *opened], forbid, scope, execute)
        unchanged = {each: document_at(OPEN, opening.get(each)) for each in workflows}
        drop = partial(_dropping, scope, user, unchanged)
        outcomes = await _for_each(entities, drop, scope, execute)
        for entity, dropped in zip(entities, outcomes, strict=True):
            if isinstance(dropped, Conflict):
                continue  # it opens something just now: the next pass reads what
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
    """Remove physically what was dropped; retry while other programs have locked some of it."""
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
    """Return the documents in which workflows record what they have open."""

    def fetch(entity: Entity) -> Fetch:
        return Fetch(entity, None, None, (OPEN,))

    outcomes = await _for_each(workflows, fetch, scope, execute)
    return {
        entity: outcome.documents[OPEN]
        for entity, outcome in zip(workflows, outcomes, strict=True)
        if isinstance(outcome, Fetched) and OPEN in outcome.documents
    }


def _dropping(scope: Scope, user: str, checks: Mapping[Entity, Check], entity: Entity) -> Commit:
    check = (checks[entity],) if entity in checks else ()
    return Commit(entity, scope.world.new_op(), (Drop(),), check, owner=user)


async def _for_each(
    entities: Sequence[Entity], op: Callable[[Entity], Op], scope: Scope, execute: Execute
) -> list[Outcome]:
    """Execute one operation for each entity, a page at a time."""
    page = scope.capabilities.page
    outcomes: list[Outcome] = []
    for start in range(0, len(entities), page):
        outcomes += await execute([op(entity) for entity in entities[start : start + page]])
    return outcomes


async def export(scopes: Sequence[Scope], user: str, path: str) -> Exported:
    """Write a line that describes the export, then one for each entity, document and message."""
    counts: Counter[str] = Counter()
    world, namespace = scopes[0].world, scopes[0].namespace
    with await world.offload(WholeFile, path) as file:
        head = {"stateward_export": EXPORT_FORMAT, "namespace": namespace, "user": user}
        file.write_line(encode(head, "the export"))
        for scope in scopes:
            async for owned in belongings(scope, user):
                if owned.entity.kind == FORK:
                    continue
                async for line in entity_lines(scope, owned):
                    counts[line["is"]] += 1
                    file.write_line(encode(line, "the export"))
        await world.offload(file.finish)
    replica = _replica(scopes)
    return Exported(
        path, counts["entity"], counts["message"], counts["document"], replica, counts["version"]
    )


async def entity_lines(scope: Scope, listed: Found) -> AsyncIterator[dict[str, Any]]:
    """Yield the lines of an export for an entity: itself, its documents, messages or versions."""
    entity, head = listed.entity, listed.head
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
            **_decoded("value", value.json),
        }
    after = 0
    while True:
        log = Log(after=after, upto=head.version, first=scope.capabilities.page, whole=True)
        page = await _fetch(scope, Fetch(entity, head.owner, log))
        for entry in page.entries:
            if not entry.body:
                continue  # removed
            if entity.kind in REMEMBERING:
                version = readable(entity, partial(_version, entry))
                yield version or {"is": "version", "stamp": entry.stamp, "malformed": entry.body}
                continue
            message = {
                "is": "message",
                "version": entry.seq,
                "at": moment(entry.at).isoformat(),
                "key": entry.key,
                **_decoded("message", entry.body),
            }
            yield message if entry.note is None else message | _decoded("saw", entry.note)
        if not page.entries:
            return
        after = page.entries[-1].seq


def _decoded(name: str, text: str) -> dict[str, Any]:
    """Return what is stored under its name; the text itself if it cannot be decoded."""
    try:
        return {name: decode(text)}
    except SchemaError:
        return {"malformed": text}


def _version(entry: Entry) -> dict[str, Any]:
    """Return the line for a version of a document; without a value: it was removed."""
    record = read_record(entry)
    value = {} if record.json is None else {"value": decode(record.json)}
    at = moment(record.at).isoformat()
    return {"is": "version", "name": record.document, "at": at, "stamp": record.stamp} | value


async def _fetch(scope: Scope, fetch: Fetch) -> Fetched:
    """Fetch what is stored here, even if another replica has the right to it by now."""
    outcome = (await scope.execute_here((fetch,)))[0]
    if not isinstance(outcome, Fetched):
        refuse(outcome, fetch.entity)
    return outcome
