"""The door: the one place where it is decided who asks. No request passes without one."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from msgspec.structs import replace

from stateward.engines.url import is_loopback
from stateward.layers.stack import Stack
from stateward.server.asker import Asker, DeviceRights
from stateward.server.keys import BEGIN, Keys
from stateward.server.problems import Refusal
from stateward.server.rates import Rates, RateSettings
from stateward.server.tokens import JwtSettings, Tokens
from stateward.world import World

ELSEWHERE = {b"forwarded", b"x-forwarded-for"}  # headers of who is not on this machine
OWN_PAGE = (b"same-origin", b"none")  # what browsers say of the dashboard's own requests
ANYBODY = Asker("anybody on this machine", "admin")


class Door:
    """Tells by key or by token who asks, and lets in as many of their requests as they may ask."""

    def __init__(
        self,
        stack: Stack,
        world: World,
        *,
        insecure_local: bool,
        jwt: JwtSettings | None,
        rates: RateSettings,
        devices: DeviceRights,
    ) -> None:
        self.rates = Rates(rates, world)
        self.keys = Keys(stack, world)
        self._tokens = None if jwt is None else Tokens(jwt, world)
        self._devices = devices
        self._insecure_local = insecure_local

    async def asker(self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> Asker:
        """Return the asker of a request. Raises refusals, and errors of the store with the keys."""
        asker = await self._known(scope, headers)
        if asker.user is not None:
            asker = replace(asker, rights=self._devices)
        self.rates.take(asker)
        return asker

    async def _known(
        self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]
    ) -> Asker:
        # Of two, whoever stands between may have checked the other one.
        if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
            raise Refusal(400, "a request has one Authorization header")
        kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if not kind and self._insecure_local and _is_local(scope):
            return ANYBODY
        asker, secret = None, secret.strip()
        if kind.lower() == "bearer" and secret:
            if self._tokens is not None and not secret.startswith(BEGIN):
                return await self._tokens.asker(secret)
            asker = await self.keys.asker(secret)
        if asker is None:
            raise Refusal(
                401,
                "this needs a key that is in force: stateward key create makes one; pass it as "
                "https://KEY@host, or as Authorization: Bearer KEY",
                **{"www-authenticate": "Bearer"},
            )
        return asker

    async def close(self) -> None:
        if self._tokens is not None:
            await self._tokens.close()


def _is_local(scope: MutableMapping[str, Any]) -> bool:
    """Whether the client is on this machine: neither behind a proxy here, nor someone else's page.

    A page of someone else, be it of another port, asks with its own origin; one that leads its
    name to this machine asks for that name. The dashboard's origin is the service's own.
    """
    client, headers = scope.get("client"), dict(scope["headers"])
    if not headers.keys().isdisjoint(ELSEWHERE):
        return False
    host = headers.get(b"host", b"").decode("latin-1")
    own = f"{scope.get('scheme', 'http')}://{host}".encode("latin-1")
    if headers.get(b"origin", own) != own:
        return False
    if headers.get(b"sec-fetch-site", b"none") not in OWN_PAGE:
        return False
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return client is not None and is_loopback(client[0]) and is_loopback(name.strip("[]"))
