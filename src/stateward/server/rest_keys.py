"""The REST API of keys: what one's own permits, and, for administrators, who may ask at all."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from stateward.actions.page import Page
from stateward.codec import check_id
from stateward.errors import StateConflictError
from stateward.kinds import API_KEY
from stateward.ops import Applied, Commit, Fetch, Fetched, Listed
from stateward.records import moment
from stateward.server.asker import OWN_NAMESPACE
from stateward.server.keys import (
    DAY,
    DOCUMENT,
    KeyRecord,
    addresses_of,
    key_entity,
    new_key,
    page_of_keys,
    record_of,
    records_of,
    rotated_key,
    storing,
    used_of,
    usual_lifetime,
)
from stateward.server.reply import Reply
from stateward.server.rest import Limit, answer, linked, missing
from stateward.server.route import RestCall, Routes


class KeysQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Some of the keys, by id."""

    limit: Limit = 100
    after: str | None = None


class KeyBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A new key and its purpose; `namespaces` null: every one. `days`: how long it is in force.

    Without, keys of one user, operators and administrators end after 90 days, unless `forever`.
    """

    scope: Literal["read", "write", "operate", "admin"]
    namespaces: Annotated[list[str], Meta(min_length=1, max_length=1000)] | None
    user: str | None = None
    days: Annotated[float, Meta(gt=0, lt=36_500)] | None = None
    forever: bool = False
    note: Annotated[str, Meta(max_length=1000)] = ""
    rate: Annotated[float, Meta(ge=0.001, le=1_000_000)] | None = None  # requests in a second
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class RotateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """For how long the old secret is in force beside the new one, and when the new one ends."""

    overlap_hours: Annotated[float, Meta(ge=0, le=720)] = 24.0
    days: Annotated[float, Meta(gt=0, lt=36_500)] | None = None  # default: as long as before


class KeyShown(Struct, frozen=True):
    """A key, without its secret, which is not stored."""

    id: str
    scope: str
    namespaces: tuple[str, ...] | None
    user: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    note: str
    rate: float | None
    burst: int | None
    last_used_at: datetime | None = None  # to the hour
    last_used_from: str | None = None  # the latest new address; not of keys of one user
    former_until: datetime | None = None  # the secret before the last is in force until then


class OwnKey(Struct, frozen=True):
    """What the key of this request permits; `namespaces` null: all; `user` null: all users."""

    name: str  # the key's id, or the subject of the token
    scope: str
    namespaces: list[str] | None
    user: str | None
    expires_at: datetime | None


class KeyMade(Struct, frozen=True):
    """A new key in full, returned only once."""

    key: str
    about: KeyShown


def _shown(record: KeyRecord) -> KeyShown:
    expires, revoked = record.expires, record.revoked
    return KeyShown(
        record.id,
        record.scope,
        record.namespaces,
        record.user,
        moment(record.created),
        None if expires is None else moment(expires),
        None if revoked is None else moment(revoked),
        record.note,
        record.rate,
        record.burst,
        former_until=None if record.former_until is None else moment(record.former_until),
    )


KEYS = Routes()


@KEYS.route("GET /v1/key", "read", OwnKey, anywhere=True)
async def _own(call: RestCall) -> Reply:
    """Get the permissions of the key that makes the request."""
    asker = call.asker
    namespaces = None if asker.namespaces is None else sorted(asker.namespaces)
    expires = None if asker.expires is None else moment(asker.expires)
    return answer(OwnKey(asker.name, asker.scope, namespaces, asker.user, expires))


@KEYS.route("GET /v1/keys", "admin", Page[KeyShown], KeysQuery, one_users=False)
async def _list(call: RestCall) -> Reply:
    """List keys by id."""
    query: KeysQuery = call.query
    op = replace(page_of_keys(query.after), limit=query.limit)
    listed = (await call.store.sections["workflows"].execute((op,)))[0]
    assert isinstance(listed, Listed)
    shown = []
    for record, each in zip(records_of(listed), listed.entities, strict=True):
        used, addresses = used_of(each.documents), addresses_of(each.documents)
        at = None if used is None else moment(used)
        last = addresses[-1] if addresses else None
        shown.append(replace(_shown(record), last_used_at=at, last_used_from=last))
    return answer(Page(shown, listed.next), headers=linked(call, listed.next))


@KEYS.logged("key create", "scope", kind=API_KEY, name="", namespace=OWN_NAMESPACE)
@KEYS.route("POST /v1/keys", "admin", KeyMade, body=KeyBody, status=201, one_users=False)
async def _create(call: RestCall) -> Reply:
    """Create a key; it is shown only in this response."""
    body: KeyBody = call.body
    scope = call.store.sections["workflows"]
    for namespace in body.namespaces or ():
        check_id(namespace, "a namespace")
    if body.user is not None:
        check_id(body.user, "a user")
    lifetime = None if body.forever else usual_lifetime(body.scope, body.user)
    secret, record = new_key(
        scope.world,
        body.scope,
        body.namespaces,
        user=body.user,
        lifetime=lifetime if body.days is None else body.days * DAY,
        note=body.note,
        rate=body.rate,
        burst=body.burst,
    )
    await _store(call, storing(record, 0, scope.world.new_op()))
    made = answer(KeyMade(secret, _shown(record)), 201)
    return made._replace(told={"key": record.id})


@KEYS.logged("key revoke", kind=API_KEY, namespace=OWN_NAMESPACE)
@KEYS.route("POST /v1/keys/{key}/revoke", "admin", KeyShown, one_users=False)
async def _revoke(call: RestCall) -> Reply:
    """Revoke a key; it is refused within five seconds."""
    world = call.store.sections["workflows"].world
    record, version = await _read(call)
    if record.revoked is None:
        record = replace(record, revoked=world.now())
        await _store(call, storing(record, version, world.new_op()))
    return answer(_shown(record))


@KEYS.logged("key rotate", "overlap_hours", kind=API_KEY, namespace=OWN_NAMESPACE)
@KEYS.route("POST /v1/keys/{key}/rotate", "admin", KeyMade, body=RotateBody, one_users=False)
async def _rotate(call: RestCall) -> Reply:
    """Give a key a new secret; the old one stays in force for a while."""
    body: RotateBody = call.body
    world = call.store.sections["workflows"].world
    record, version = await _read(call)
    lifetime = None if body.days is None else body.days * DAY
    secret, record = rotated_key(record, world, body.overlap_hours * 3600.0, lifetime)
    await _store(call, storing(record, version, world.new_op()))
    return answer(KeyMade(secret, _shown(record)))


async def _read(call: RestCall) -> tuple[KeyRecord, int]:
    scope, id = call.store.sections["workflows"], call.path["key"]
    entity = key_entity(check_id(id, "a key's id"))
    fetched = (await scope.execute((Fetch(entity, documents=(DOCUMENT,)),)))[0]
    value = fetched.documents.get(DOCUMENT) if isinstance(fetched, Fetched) else None
    if value is None:
        raise missing("key", id)
    return record_of(value.json), value.version


async def _store(call: RestCall, commit: Commit) -> None:
    outcome = (await call.store.sections["workflows"].execute((commit,)))[0]
    if not isinstance(outcome, Applied):
        raise StateConflictError(
            "this key was changed at the same time; try again", current=outcome
        )
