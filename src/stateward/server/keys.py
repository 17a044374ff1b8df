"""API keys: made here, shown once, and kept in the store as digests."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest

import msgspec
from msgspec import Struct

from stateward.errors import InvalidInput, StatewardError
from stateward.kinds import API_KEY
from stateward.layers.stack import Stack
from stateward.ops import Commit, DocumentAt, Entity, Fetch, Fetched, List, Listed, Put, Value
from stateward.server.asker import OWN_NAMESPACE, SCOPES, Asker
from stateward.server.rates import rate_of
from stateward.world import World

DOCUMENT, USED = "key", "used"
BEGIN = "sw."  # of every key
REMEMBERED_SECONDS = 4.0  # that a key is not looked up again: a revoked one lives so much longer
ENDED_SECONDS = 60.0  # between two lines about a key that has ended
USED_SECONDS = 3600.0  # between two notes in the store that a key is used
MOST_REMEMBERED = 10_000
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

    def is_good(self, secret: str, now: float) -> bool:
        """Whether that is its secret, and it is still in force."""
        matches = compare_digest(self.digest, digest_of_key(secret))
        return matches and self.revoked is None and (self.expires is None or now < self.expires)

    @property
    def asker(self) -> Asker:
        namespaces = None if self.namespaces is None else frozenset(self.namespaces)
        rate = rate_of(self.rate, self.burst)
        return Asker(self.id, self.scope, namespaces, self.user, rate=rate, expires=self.expires)


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


def key_entity(id: str) -> Entity:
    return Entity(OWN_NAMESPACE, API_KEY, id)


def storing(record: KeyRecord, version: int, op: str) -> Commit:
    """Return the commit that stores a key over the version that was read."""
    put = Put(DOCUMENT, msgspec.json.encode(record).decode())
    return Commit(key_entity(record.id), op, (put,), (DocumentAt(DOCUMENT, version),))


def page_of_keys(after: str | None) -> List:
    """Return the operation that lists a page of all keys."""
    return List(OWN_NAMESPACE, API_KEY, documents=(DOCUMENT, USED), after=after)


def records_of(listed: Listed) -> list[KeyRecord]:
    return [record_of(each.documents[DOCUMENT].json) for each in listed.entities]


def used_of(documents: Mapping[str, Value]) -> float | None:
    """Return when a key was last used, to the hour."""
    value = documents.get(USED)
    return None if value is None else msgspec.json.decode(value.json, type=float)


def record_of(text: str) -> KeyRecord:
    return msgspec.json.decode(text, type=KeyRecord)


class Keys:
    """Finds out who asks. What it found is remembered for a few seconds."""

    def __init__(self, stack: Stack, world: World) -> None:
        self._stack = stack
        self._world = world
        self._found: OrderedDict[str, tuple[float, KeyRecord | None]] = OrderedDict()
        self._used: dict[str, float] = {}  # when that was stored
        self._ended: dict[str, float] = {}  # when that was logged
        self._lent: dict[str, KeyRecord] = {}

    async def asker(self, secret: str) -> Asker | None:
        """Return the asker of a key; None if it is unknown or not in force. Raises store errors."""
        parts = secret.split(".") if len(secret) <= LONGEST else []
        if len(parts) != 3 or parts[0] != "sw" or not parts[1]:
            return None
        record = await self._record(parts[1])
        if record is None or not compare_digest(record.digest, digest_of_key(secret)):
            return None
        if not record.is_good(secret, self._world.now()):
            self._note_end(record)
            return None
        await self._note_use(record.id)
        return record.asker

    def knows(self, id: str) -> bool:
        """Return whether there is such a key, as far as it was looked up lately."""
        _, record = self._found.get(id, (0.0, None))
        return record is not None or id in self._lent

    def _note_end(self, record: KeyRecord) -> None:
        """Log that a key is used that has ended, once in a while."""
        now = self._world.monotonic()
        if now - self._ended.get(record.id, float("-inf")) >= ENDED_SECONDS:
            self._ended[record.id] = now
            why = "expired" if record.revoked is None else "revoked"
            logger.warning("ended_key_used", extra={"key": record.id, "of": record.id, "why": why})

    async def _note_use(self, id: str) -> None:
        """Remember in the store, about once an hour, that the key is used."""
        now = self._world.now()
        if id in self._lent or now - self._used.get(id, 0.0) < USED_SECONDS:
            return
        self._used[id] = now
        put = Put(USED, msgspec.json.encode(now).decode())
        with suppress(StatewardError):  # the request itself is answered all the same
            await self._stack.execute([Commit(key_entity(id), self._world.new_op(), (put,))])

    @property
    def lends(self) -> bool:
        """Return whether there is a key that ends with this process."""
        return bool(self._lent)

    def lend(self, record: KeyRecord) -> None:
        """Know a key that is in no store, and ends with this process."""
        self._lent[record.id] = record

    async def _record(self, id: str) -> KeyRecord | None:
        if id in self._lent:
            return self._lent[id]
        now = self._world.monotonic()
        looked_up, record = self._found.get(id, (-REMEMBERED_SECONDS, None))
        if now - looked_up < REMEMBERED_SECONDS:
            return record
        read = Fetch(key_entity(id), documents=(DOCUMENT, USED))
        outcome = (await self._stack.execute([read]))[0]
        value = outcome.documents.get(DOCUMENT) if isinstance(outcome, Fetched) else None
        record = None if value is None else record_of(value.json)
        if record is not None and isinstance(outcome, Fetched):
            self._used[id] = max(self._used.get(id, 0.0), used_of(outcome.documents) or 0.0)
        self._found[id] = now, record
        self._found.move_to_end(id)
        if len(self._found) > MOST_REMEMBERED:
            self._found.popitem(last=False)
        return record
