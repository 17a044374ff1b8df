"""API keys: made here, shown once, and kept in the store as digests."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stateward.errors import InvalidInput, StatewardError
from stateward.kinds import API_KEY
from stateward.layers.stack import Stack
from stateward.ops import Commit, DocumentAt, Entity, Fetch, Fetched, List, Listed, Put, Value
from stateward.server.asker import OWN_NAMESPACE, SCOPES, Asker
from stateward.server.rates import rate_of
from stateward.world import World

DOCUMENT, USED, FROM = "key", "used", "from"
BEGIN = "sw."  # of every key
REMEMBERED_SECONDS = 4.0  # that a key is not looked up again: a revoked one lives so much longer
ENDED_SECONDS = 60.0  # between two lines about a key that has ended
USED_SECONDS = 3600.0  # between two notes in the store that a key is used
MOST_REMEMBERED = 10_000
MOST_ADDRESSES = 50  # that are remembered of a key
AGAIN_SECONDS = 0.1  # after which a key is looked up again if its secret is another
PERSONS = ("operate", "admin")  # scopes of operators and administrators
PERSONS_DAYS = 90.0  # that keys of people are in force unless said otherwise
DAY = 86_400.0
LONGEST = 200  # characters: what is longer is no key

logger = logging.getLogger("stateward.security")


class KeyRecord(Struct, frozen=True, omit_defaults=True):
    """A key as it is stored: all but the secret itself."""

    id: str
    digest: str
    scope: str
    created: float
    namespaces: tuple[str, ...] | None = None
    user: str | None = None
    expires: float | None = None
    revoked: float | None = None
    note: str = ""
    rate: float | None = None  # requests in a second; None: as the service allows everybody
    burst: int | None = None
    rotated: float | None = None  # when it got the secret that it has
    former: str | None = None  # the digest of the secret before
    former_until: float | None = None

    @property
    def is_persons(self) -> bool:
        """Return whether it is an operator's or an administrator's, as far as its scope tells."""
        return self.scope in PERSONS

    def matches(self, secret: str) -> bool:
        """Return whether that is its secret, or the one that it had before."""
        digest = digest_of_key(secret)
        is_former = self.former is not None and compare_digest(self.former, digest)
        return compare_digest(self.digest, digest) or is_former

    def ends(self, secret: str) -> float | None:
        """Return until when one of its secrets is in force; None: until it is revoked."""
        if compare_digest(self.digest, digest_of_key(secret)):
            return self.expires
        until = self.former_until or 0.0
        return until if self.expires is None else min(until, self.expires)

    def is_good(self, secret: str, now: float) -> bool:
        """Whether that is its secret, and it is still in force."""
        ends = self.ends(secret)
        return self.matches(secret) and self.revoked is None and (ends is None or now < ends)

    def asker(self, secret: str) -> Asker:
        """Return who asks with this secret."""
        namespaces = None if self.namespaces is None else frozenset(self.namespaces)
        rate, expires = rate_of(self.rate, self.burst), self.ends(secret)
        return Asker(self.id, self.scope, namespaces, self.user, rate=rate, expires=expires)


def digest_of_key(secret: str) -> str:
    """A key has 192 random bits: no one guesses it, so no slow digest is needed."""
    return sha256(secret.encode()).hexdigest()


def new_key(
    world: World,
    scope: str,
    namespaces: Sequence[str] | None = None,
    *,
    user: str | None = None,
    lifetime: float | None = None,
    note: str = "",
    rate: float | None = None,
    burst: int | None = None,
) -> tuple[str, KeyRecord]:
    """A key in full, which nothing remembers, and what is stored of it."""
    rate_of(rate, burst)
    if scope not in SCOPES:
        raise InvalidInput(f"no scope {scope!r}; use one of: {', '.join(SCOPES)}")
    id, now = world.new_id(), world.now()
    secret = f"{BEGIN}{id}.{world.new_id()}{world.new_id()}"
    expires = None if lifetime is None else now + lifetime
    record = KeyRecord(
        id,
        digest_of_key(secret),
        scope,
        now,
        None if namespaces is None else tuple(namespaces),
        user,
        expires,
        None,
        note,
        rate,
        burst,
    )
    return secret, record


def usual_lifetime(scope: str, user: str | None) -> float | None:
    """Return for how long a key is in force by default: those of people end, agents' do not."""
    return PERSONS_DAYS * DAY if user is not None or scope in PERSONS else None


def rotated_key(
    record: KeyRecord, world: World, overlap: float, lifetime: float | None = None
) -> tuple[str, KeyRecord]:
    """Return a new secret of a key, and its record, in which the old one is in force for a while.

    It expires after `lifetime`, by default as long after now as it did after its last secret was
    made. Raises `InvalidInput` for a key that has ended.
    """
    now = world.now()
    if record.revoked is not None or (record.expires is not None and record.expires <= now):
        raise InvalidInput(f"the key {record.id} has ended: create a new one")
    if not 0 <= overlap <= 30 * DAY:
        raise InvalidInput("the old secret is in force for at most 30 days beside the new one")
    if lifetime is None and record.expires is not None:
        lifetime = record.expires - (record.rotated or record.created)
    secret = f"{BEGIN}{record.id}.{world.new_id()}{world.new_id()}"
    until = now + overlap
    return secret, replace(
        record,
        digest=digest_of_key(secret),
        expires=None if lifetime is None else now + lifetime,
        rotated=now,
        former=record.digest,
        former_until=until if record.expires is None else min(until, record.expires),
    )


def key_entity(id: str) -> Entity:
    return Entity(OWN_NAMESPACE, API_KEY, id)


def storing(record: KeyRecord, version: int, op: str) -> Commit:
    """Return the commit that stores a key over the version that was read."""
    put = Put(DOCUMENT, msgspec.json.encode(record).decode())
    return Commit(key_entity(record.id), op, (put,), (DocumentAt(DOCUMENT, version),))


def page_of_keys(after: str | None) -> List:
    """Return the operation that lists a page of all keys."""
    return List(OWN_NAMESPACE, API_KEY, documents=(DOCUMENT, USED, FROM), after=after)


def records_of(listed: Listed) -> list[KeyRecord]:
    return [record_of(each.documents[DOCUMENT].json) for each in listed.entities]


def used_of(documents: Mapping[str, Value]) -> float | None:
    """Return when a key was last used, to the hour."""
    value = documents.get(USED)
    return None if value is None else msgspec.json.decode(value.json, type=float)


def addresses_of(documents: Mapping[str, Value]) -> list[str]:
    """Return the addresses that a key was used from, the latest new one last."""
    value = documents.get(FROM)
    return [] if value is None else msgspec.json.decode(value.json, type=list[str])


def record_of(text: str) -> KeyRecord:
    return msgspec.json.decode(text, type=KeyRecord)


class Keys:
    """Finds out who asks. What it found is remembered for a few seconds."""

    def __init__(self, stack: Stack, world: World) -> None:
        self._stack = stack
        self._world = world
        self._found: OrderedDict[str, tuple[float, KeyRecord | None]] = OrderedDict()
        self._used: dict[str, float] = {}  # when that was stored
        self._from: dict[str, list[str]] = {}  # addresses
        self._ended: dict[str, float] = {}  # when that was logged
        self.counts: Counter[tuple[str, str]] = Counter()  # of events, by scope
        self._lent: dict[str, KeyRecord] = {}

    async def asker(self, secret: str, address: str = "") -> Asker | None:
        """Return the asker of a key; None if it is unknown or not in force. Raises store errors."""
        parts = secret.split(".") if len(secret) <= LONGEST else []
        if len(parts) != 3 or parts[0] != "sw" or not parts[1]:
            return None
        record = await self._record(parts[1])
        if record is not None and not record.matches(secret):  # it may be rotated meanwhile
            record = await self._record(parts[1], AGAIN_SECONDS)
        if record is None or not record.matches(secret):
            return None
        if not record.is_good(secret, self._world.now()):
            self._note_end(record)
            return None
        await self._note_use(record, address)
        return record.asker(secret)

    def knows(self, id: str) -> bool:
        """Return whether there is such a key, as far as it was looked up lately."""
        _, record = self._found.get(id, (0.0, None))
        return record is not None or id in self._lent

    def _note_end(self, record: KeyRecord) -> None:
        """Log that a key is used that has ended, once in a while."""
        self.counts["ended", record.scope] += 1
        now = self._world.monotonic()
        if now - self._ended.get(record.id, float("-inf")) >= ENDED_SECONDS:
            self._ended[record.id] = now
            why = "expired, or replaced" if record.revoked is None else "revoked"
            logger.warning("ended_key_used", extra={"key": record.id, "of": record.id, "why": why})

    async def _note_use(self, record: KeyRecord, address: str) -> None:
        """Remember in the store, about once an hour, that the key is used, and from where.

        Users' devices change their addresses: those of keys of one user are not remembered.
        """
        id, now = record.id, self._world.now()
        if id in self._lent:
            return
        addresses = self._from.setdefault(id, [])
        is_new = bool(address) and record.user is None and address not in addresses
        if not is_new and now - self._used.get(id, 0.0) < USED_SECONDS:
            return
        self._used[id] = now
        writes = [Put(USED, msgspec.json.encode(now).decode())]
        if is_new:
            if addresses:
                self.counts["new_address", record.scope] += 1
                fields = {"key": id, "address": address, "scope": record.scope, "of": id}
                level = logging.WARNING if record.is_persons else logging.INFO
                logger.log(level, "key_used_from_new_address", extra=fields)
            addresses = self._from[id] = [*addresses, address][-MOST_ADDRESSES:]
            writes.append(Put(FROM, msgspec.json.encode(addresses).decode()))
        with suppress(StatewardError):  # the request itself is answered all the same
            commit = Commit(key_entity(id), self._world.new_op(), tuple(writes))
            await self._stack.execute([commit])

    @property
    def lends(self) -> bool:
        """Return whether there is a key that ends with this process."""
        return bool(self._lent)

    def lend(self, record: KeyRecord) -> None:
        """Know a key that is in no store, and ends with this process."""
        self._lent[record.id] = record

    async def _record(self, id: str, age: float = REMEMBERED_SECONDS) -> KeyRecord | None:
        if id in self._lent:
            return self._lent[id]
        now = self._world.monotonic()
        looked_up, record = self._found.get(id, (-REMEMBERED_SECONDS, None))
        if now - looked_up < age:
            return record
        read = Fetch(key_entity(id), documents=(DOCUMENT, USED, FROM))
        outcome = (await self._stack.execute([read]))[0]
        value = outcome.documents.get(DOCUMENT) if isinstance(outcome, Fetched) else None
        record = None if value is None else record_of(value.json)
        if record is not None and isinstance(outcome, Fetched):
            self._used[id] = max(self._used.get(id, 0.0), used_of(outcome.documents) or 0.0)
            self._from[id] = addresses_of(outcome.documents) or self._from.get(id, [])
        self._found[id] = now, record
        self._found.move_to_end(id)
        if len(self._found) > MOST_REMEMBERED:
            self._found.popitem(last=False)
        return record
