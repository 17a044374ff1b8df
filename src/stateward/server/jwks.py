"""The public keys of whoever issues tokens: a JSON Web Key Set, from a URL or a file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from stateward.errors import InvalidInput
from stateward.server.outbound import LARGEST_ANSWER, Unfetched, check_address, exchange
from stateward.world import World

if TYPE_CHECKING:
    from jwt import PyJWK

MOST_KEYS = 100
DISCOVERY = "/.well-known/openid-configuration"  # below the issuer
DANGER = "an attacker in between could forge any token"
# What a key can have signed. Nothing else is ever taken: neither "none", nor a shared secret.
BY_KEY: dict[tuple[str | None, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
ALGORITHMS = tuple(name for names in BY_KEY.values() for name in names)

logger = logging.getLogger("stateward.service")


class DiscoveredAt(Struct, frozen=True):
    """The issuer whose keys are where its OpenID Connect configuration says."""

    issuer: str

    @property
    def configuration(self) -> str:
        """The address of its configuration."""
        return self.issuer.rstrip("/") + DISCOVERY

    async def keys_at(self) -> str:
        """Return the address of its keys. Raises `Unfetched`."""
        text = await exchange(self.configuration)
        try:
            stated = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unfetched(f"its configuration is not a JSON object: {error}") from error
        where, issuer = stated.get("jwks_uri"), stated.get("issuer")
        if issuer != self.issuer or not isinstance(where, str):
            raise Unfetched("its configuration is another issuer's, or names no jwks_uri")
        try:
            check_address(where, "jwks_uri", DANGER)
        except InvalidInput as error:
            raise Unfetched(str(error)) from error
        return where


class KeySet(Struct, frozen=True):
    """Keys by their id and by the algorithm that each is for."""

    keys: Mapping[tuple[str | None, str], PyJWK]
    ids: frozenset[str | None]

    def find(self, id: str | None, algorithm: str) -> PyJWK | None:
        """The key of that id, for that algorithm. Without an id: the only one that there is."""
        if id is None and len(self.ids) == 1:
            (id,) = self.ids
        return self.keys.get((id, algorithm))


class JwksSource:
    """Where keys come from, and the last ones that were there.

    They are fetched again when they are `refresh` seconds old, while the old ones still serve, and
    when a token names one that is not among them; but not within `pause` seconds of the last time,
    whatever tokens say. If that fails, the last ones stay in force.
    """

    def __init__(
        self,
        where: str | DiscoveredAt,
        algorithms: Sequence[str],
        world: World,
        *,
        refresh: float = 300.0,
        pause: float = 10.0,
    ) -> None:
        self._where = where
        self._algorithms = frozenset(algorithms)
        self._world = world
        self._refresh = refresh
        self._pause = pause
        self._fetched = self._tried = -1e9  # when, by the clock that only goes forward
        self._text = b""
        self._fetch: asyncio.Task[None] | None = None
        self._failing = False
        self.current: KeySet | None = None  # another object whenever the keys have changed
        if isinstance(where, DiscoveredAt):
            check_address(where.configuration, "issuer", DANGER)
        else:
            check_source(where)

    async def find(self, id: str | None, algorithm: str) -> PyJWK | None:
        """The key of a token; None: there is none. Raises `Unfetched` if there never were any."""
        self.renew()
        keys = self.current
        if keys is None or (id is not None and id not in keys.ids):
            await self._again()
        if self.current is None:
            raise Unfetched("no keys could be fetched yet")
        return self.current.find(id, algorithm)

    def renew(self) -> None:
        """Begin to fetch keys that are old, and do not wait for it."""
        if self.current is not None and self._world.monotonic() - self._fetched >= self._refresh:
            self._begin()

    async def close(self) -> None:
        if self._fetch is not None:
            self._fetch.cancel()
            await asyncio.wait([self._fetch])

    async def _again(self) -> None:
        self._begin()
        if self._fetch is not None:  # whoever it was begun for, it is waited for by all
            await asyncio.shield(self._fetch)

    def _begin(self) -> None:
        now = self._world.monotonic()
        if self._fetch is None and now - self._tried >= self._pause:
            self._tried = now
            self._fetch = asyncio.get_running_loop().create_task(self._renewed())
            self._fetch.add_done_callback(self._ended)

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._fetch = None

    async def _renewed(self) -> None:
        try:
            text = await self._read()
            if text != self._text:
                self.current, self._text = key_set_of(text, self._algorithms), text
            self._fetched, self._failing = self._world.monotonic(), False
        except (Unfetched, OSError, TimeoutError) as error:
            if not self._failing:  # once, until it works again
                place = self._where
                if isinstance(place, DiscoveredAt):
                    place = place.configuration
                source, why = place.partition("?")[0], f"{type(error).__name__}: {error}"
                logger.error("token_keys_unavailable", extra={"source": source, "error": why})
            self._failing = True

    async def _read(self) -> bytes:
        if isinstance(self._where, DiscoveredAt):
            return await exchange(await self._where.keys_at())
        if "://" in self._where:
            return await exchange(self._where)
        return await self._world.offload(_read_file, self._where)


def check_source(where: str) -> None:
    """Refuse a source that no one should trust: who can change the keys can make any token."""
    if "://" in where:
        check_address(where, "jwks", DANGER)
    elif not Path(where).is_file():
        raise InvalidInput(f"jwks is a URL or a file, and there is no file {where!r}")


def _read_file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        data = file.read(LARGEST_ANSWER + 1)
    if len(data) > LARGEST_ANSWER:
        raise Unfetched(f"the file has more than {LARGEST_ANSWER:,} bytes")
    return data


def key_set_of(text: bytes, algorithms: frozenset[str]) -> KeySet:
    """The keys in a key set that can be used. Raises `Unfetched` if there is none."""
    try:
        listed = msgspec.json.decode(text, type=dict[str, Any]).get("keys")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unfetched(f"it is not a JSON object: {error}") from error
    if not isinstance(listed, list) or len(listed) > MOST_KEYS:
        raise Unfetched(f"it has no list of at most {MOST_KEYS} keys")
    keys: dict[tuple[str | None, str], PyJWK] = {}
    for each in listed:
        if isinstance(each, dict):
            keys |= _usable(each, algorithms)
    if not keys:
        raise Unfetched("it has no key that could verify a signature")
    return KeySet(keys, frozenset(id for id, _ in keys))


def _usable(stated: dict[str, Any], algorithms: frozenset[str]) -> dict[Any, PyJWK]:
    """A public key, once for each algorithm that it may have signed with."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    id, use, ops = stated.get("kid"), stated.get("use", "sig"), stated.get("key_ops", ["verify"])
    shape = stated.get("kty"), stated.get("crv")
    if not all(part is None or isinstance(part, str) for part in (id, *shape)):
        return {}
    fitting = set(BY_KEY.get(shape, ())) & algorithms
    if stated.get("alg") is not None:
        fitting = {name for name in fitting if name == stated["alg"]}
    if use != "sig" or not isinstance(ops, list) or "verify" not in ops or "d" in stated:
        return {}  # for encryption; or a private key, which has no business there
    try:
        return {(id, name): PyJWK(stated, name) for name in fitting}
    except (PyJWTError, ValueError, TypeError):
        return {}
