"""The door: the one place where it is decided who asks. No request passes without one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import Any

from msgspec.structs import replace

from stateward.engines.url import is_loopback
from stateward.errors import StatewardError
from stateward.layers.stack import Stack
from stateward.server.asker import Asker, DeviceRights, Quota
from stateward.server.keys import BEGIN, Keys
from stateward.server.problems import Refusal
from stateward.server.rates import Rates, RateSettings
from stateward.server.tokens import JwtSettings, Tokens
from stateward.world import World

# Headers that proxies add: whoever sends them asks for someone else.
ELSEWHERE = {
    *(
        b"forwarded",
        b"via",
        b"x-real-ip",
        b"x-client-ip",
        b"true-client-ip",
        b"x-cluster-client-ip",
    ),
    *(b"x-original-forwarded-for", b"x-envoy-external-address", b"fastly-client-ip", b"x-host"),
}
PROXIES = (b"x-forwarded-", b"cf-", b"x-proxy", b"x-envoy-", b"x-amzn-", b"x-azure-", b"cdn-")
LOOK_SECONDS = 1.0  # between two looks whether the credential of a stream is in force
OWN_PAGE = (b"same-origin", b"none")  # what browsers say of the dashboard's own requests
ANYBODY = Asker("anybody on this machine", "admin", is_credential=False)


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
        meter: Quota | None = None,
    ) -> None:
        self.rates = Rates(rates, world)
        self.keys = Keys(stack, world)
        self._tokens = None if jwt is None else Tokens(jwt, world)
        self._devices = devices
        self._meter = meter
        self._insecure_local = insecure_local

    async def asker(self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]) -> Asker:
        """Return the asker of a request. Raises refusals, and errors of the store with the keys."""
        asker = await self._known(scope, headers)
        if asker.user is not None:
            asker = replace(asker, rights=self._devices)
        if self._meter is not None:
            asker = replace(asker, meter=self._meter)
        self.rates.take(asker)
        return asker

    async def _known(
        self, scope: MutableMapping[str, Any], headers: Mapping[bytes, bytes]
    ) -> Asker:
        # Of two, whoever stands between may have checked the other one.
        if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
            raise Refusal(400, "a request has one Authorization header")
        if self.keys.lends and not _is_named_locally(headers):
            raise Refusal(421, "this is for programs on this machine, by its own name")
        kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if not kind and self._insecure_local and _is_local(scope):
            return ANYBODY
        asker, secret = None, secret.strip()
        if kind.lower() == "bearer" and secret:
            if self._tokens is not None and not secret.startswith(BEGIN):
                return await self._tokens.asker(secret)
            client = scope.get("client")
            asker = await self.keys.asker(secret, client[0] if client else "")
        if asker is None:
            raise Refusal(
                401,
                "this needs a key that is in force: stateward key create makes one; pass it as "
                "https://KEY@host, or as Authorization: Bearer KEY",
                **{"www-authenticate": "Bearer"},
            )
        return asker

    async def ended(self, asker: Asker, scope: MutableMapping[str, Any]) -> None:
        """Wait until the credential of a stream is in force no more, or permits less."""
        headers = dict(scope["headers"])
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                now = await self._known(scope, headers)
            except Refusal as error:
                if error.status == 401:
                    return
                continue
            except StatewardError:
                continue  # the store does not answer, and so has nothing for the stream either
            if (now.scope, now.namespaces, now.user) != (asker.scope, asker.namespaces, asker.user):
                return

    async def close(self) -> None:
        if self._tokens is not None:
            await self._tokens.close()


def is_forwarded(scope: MutableMapping[str, Any]) -> bool:
    """Return whether a proxy has sent the request, as far as proxies say so.

    nginx says nothing unless it is configured to, but speaks HTTP/1.0 then, as no client does.
    """
    if scope.get("http_version", "1.1") == "1.0":
        return True
    return any(name in ELSEWHERE or name.startswith(PROXIES) for name, _ in scope["headers"])


def _is_local(scope: MutableMapping[str, Any]) -> bool:
    """Whether the client is on this machine: neither behind a proxy here, nor someone else's page.

    A page of someone else, be it of another port, asks with its own origin; one that leads its
    name to this machine asks for that name. The dashboard's origin is the service's own.
    """
    client, headers = scope.get("client"), dict(scope["headers"])
    if is_forwarded(scope):
        return False
    host = headers.get(b"host", b"").decode("latin-1")
    own = f"{scope.get('scheme', 'http')}://{host}".encode("latin-1")
    if headers.get(b"origin", own) != own:
        return False
    if headers.get(b"sec-fetch-site", b"none") not in OWN_PAGE:
        return False
    return client is not None and is_loopback(client[0]) and _is_named_locally(headers)


def _is_named_locally(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether the request is for a name of this machine, as it calls itself."""
    host = headers.get(b"host", b"").decode("latin-1")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return is_loopback(name.strip("[]"))
