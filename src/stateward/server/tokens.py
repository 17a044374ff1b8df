"""JSON Web Tokens: who asks, as someone else's login service vouches for it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.server.asker import OWN_NAMESPACE, SCOPES, Asker
from stateward.server.jwks import ALGORITHMS, DiscoveredAt, JwksSource
from stateward.server.outbound import Unfetched
from stateward.server.problems import Refusal
from stateward.world import World

LONGEST_TOKEN = 8192  # characters
MOST_REMEMBERED = 10_000
MOST_NAMESPACES = 100
TYPES = ("jwt", "at+jwt")  # of access tokens: RFC 9068, and what most issuers write
FOR_OTHERS = {"nonce", "at_hash", "c_hash", "events"}  # claims of tokens for a login, or a logout
UNTRUSTED = "its key, its algorithm or its signature is none that this service trusts"


class JwtSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tokens are taken, and what their claims mean."""

    audience: str
    jwks: str | None = None  # a URL or a file; None: by discovery at the issuer
    issuer: str | None = None
    algorithms: tuple[str, ...] = ALGORITHMS
    leeway: float = 30.0  # seconds that the clocks of two machines may differ
    namespace_claim: str = "namespace"
    namespace: str | None = None  # of all tokens, whatever they say
    user_claim: str = "sub"  # "": tokens are not one user's
    scope_claim: str = "scope"
    scope_prefix: str = "stateward:"
    refresh_seconds: float = 300.0
    pause_seconds: float = 10.0
    longest_seconds: float = 86_400.0  # that a token may still be valid: none can be revoked

    def __post_init__(self) -> None:
        unknown = [name for name in self.algorithms if name not in ALGORITHMS]
        if unknown or not self.algorithms:
            raise InvalidInput(
                f"algorithms of tokens are among {', '.join(ALGORITHMS)}"
                f"{f', not {unknown[0]!r}' if unknown else ''}"
            )
        if not self.audience or not (self.jwks or self.issuer):
            raise InvalidInput("tokens need an audience, and jwks or an issuer")
        if not 0 <= self.leeway <= 300:
            raise InvalidInput(f"leeway is in seconds from 0 to 300, not {self.leeway:g}")
        if not 1 <= self.pause_seconds <= self.refresh_seconds <= 86_400:
            raise InvalidInput(
                "pause_seconds is at least 1 and at most refresh_seconds, which is at most 86400"
            )
        if not 60 <= self.longest_seconds <= 31_622_400:
            raise InvalidInput(
                f"longest_seconds is from 60 to 31622400, not {self.longest_seconds:g}"
            )
        if self.namespace is not None:
            check_id(self.namespace, "a namespace")
        elif not self.namespace_claim:
            raise InvalidInput("set namespace_claim, or the namespace of all tokens")
        if not self.scope_claim:
            raise InvalidInput("set scope_claim: a token without a scope permits nothing")


class Tokens:
    """Finds out who asks with a token. What was verified is remembered until it expires."""

    def __init__(self, settings: JwtSettings, world: World) -> None:
        try:
            import jwt  # noqa: F401 - to say so before anybody asks
            from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: F401
        except ImportError as error:
            raise InvalidInput(
                "tokens need PyJWT and cryptography: pip install 'stateward[jwt]'"
            ) from error
        self._settings = settings
        self._world = world
        self._source = JwksSource(
            settings.jwks or DiscoveredAt(settings.issuer or ""),
            settings.algorithms,
            world,
            refresh=settings.refresh_seconds,
            pause=settings.pause_seconds,
        )
        self._verified: OrderedDict[bytes, tuple[float, Asker]] = OrderedDict()
        self._by = self._source.current  # the keys that they were verified with

    async def asker(self, token: str) -> Asker:
        """Return the asker that a token vouches for. Raises a refusal that does not show the token.

        What is wrong with its claims is told to those alone whose token has a good signature.
        """
        source = self._source
        source.renew()
        if self._by is not source.current:  # a key may have been withdrawn
            self._verified.clear()
            self._by = source.current
        digest = sha256(token.encode()).digest()
        verified = self._verified.get(digest)
        if verified is None:
            verified = await self._verify(token)
            if self._by is source.current:
                self._verified[digest] = verified
                if len(self._verified) > MOST_REMEMBERED:
                    self._verified.popitem(last=False)
        until, asker = verified
        if until <= self._world.now():
            self._verified.pop(digest, None)
            _refuse("it has expired: get a new one")
        return asker

    async def close(self) -> None:
        await self._source.close()

    async def _verify(self, token: str) -> tuple[float, Asker]:
        """Until when it holds, and for whom."""
        import jwt

        if len(token) > LONGEST_TOKEN or token.count(".") != 2 or not token.isascii():
            _refuse("it is not a JSON Web Token")
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            id, algorithm = header.get("kid"), header.get("alg")
            if algorithm not in settings.algorithms:
                _refuse(UNTRUSTED)
            type = str(header.get("typ") or "JWT").lower().removeprefix("application/")
            if type not in TYPES:
                _refuse("it is not an access token")
            key = await self._source.find(id, algorithm)
            if key is None:
                _refuse(UNTRUSTED)
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway,
                options={
                    "require": ["exp", "aud", "sub", *(["iss"] if settings.issuer else [])],
                    "enforce_minimum_key_length": True,
                },
            )
            if not FOR_OTHERS.isdisjoint(claims):
                _refuse("it is not an access token")
            until = int(claims["exp"]) + settings.leeway
            if until - settings.leeway > self._world.now() + settings.longest_seconds:
                _refuse("it is valid for longer than this service allows")
            return until, replace(self._asker_of(claims), expires=until)
        except Unfetched as error:
            raise Refusal(
                503,
                "the service cannot fetch the keys for verifying tokens; its log says why",
                **{"retry-after": str(max(1, round(settings.pause_seconds)))},
            ) from error
        except jwt.ExpiredSignatureError:
            _refuse("it has expired: get a new one")
        except jwt.ImmatureSignatureError:
            _refuse("it is not valid yet: do the clocks agree?")
        except (jwt.InvalidAudienceError, jwt.InvalidIssuerError):
            _refuse("it was issued for another service, or by another issuer")
        except jwt.MissingRequiredClaimError as error:
            _refuse(f"it lacks the claim {error.claim}")
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            _refuse(UNTRUSTED)

    def _asker_of(self, claims: Mapping[str, Any]) -> Asker:
        settings = self._settings
        try:
            name = claims["sub"]
            user = None
            if settings.user_claim:
                user = check_id(claims.get(settings.user_claim), "a user")
            spaces = settings.namespace or claims.get(settings.namespace_claim)
            listed = spaces if isinstance(spaces, list) else [spaces]
            namespaces = frozenset(check_id(each, "a namespace") for each in listed)
            if not 0 < len(listed) <= MOST_NAMESPACES or OWN_NAMESPACE in namespaces:
                raise InvalidInput("namespaces that no token can be for")
            asker = Asker(name, self._scope_of(claims), namespaces, user, by_token=True)
            check_id(asker.who, "who does it")
            return asker
        except InvalidInput:
            _refuse("a claim that identifies the user is missing or invalid")

    def _scope_of(self, claims: Mapping[str, Any]) -> str:
        """The highest of those that it has: each permits what those before it do."""
        claim = claims.get(self._settings.scope_claim)
        words = claim.split() if isinstance(claim, str) else claim
        prefix = self._settings.scope_prefix
        for scope in reversed(SCOPES):
            if isinstance(words, list) and prefix + scope in words:
                return scope
        _refuse("it has no scope of this service")


def _refuse(why: str) -> NoReturn:
    raise Refusal(
        401,
        f"this token is not accepted: {why}",
        **{"www-authenticate": 'Bearer error="invalid_token"'},
    ) from None
