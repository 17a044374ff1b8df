"""The primary of a service, wherever the sentinels say that it is now."""

from __future__ import annotations

from typing import Any

from stateward.engines.redis.client.pool import Pool
from stateward.engines.redis.client.server import Address
from stateward.engines.redis.client.topology import OneServer, ask_once
from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.failures import Demoted, not_for_us
from stateward.errors import AccessRefused, StoreUnavailable


class SentinelServer(OneServer):
    """One server whose address comes from sentinels, which are asked whenever in doubt."""

    async def _look(self, deadline: float | None) -> None:
        failure: StoreUnavailable | None = None
        addresses: set[Address] = set()
        for sentinel in self._server.addresses:
            try:
                address, _ = await self._ask_sentinel(sentinel, deadline=deadline)
                if address in addresses:
                    continue
                addresses.add(address)
                if address != self._pool.address:
                    old, self._pool = self._pool, Pool(self._server, address)
                    self.name = str(address)
                    await old.close()
                await self._check_role(sentinel, deadline)
            except StoreUnavailable as error:
                failure = error
                continue
            self._sure = True
            return
        assert failure is not None
        raise failure

    async def _check_role(self, sentinel: Address, deadline: float | None) -> None:
        """Check that the address is a primary's: a sentinel may name an old one when cut off."""
        (role,) = await self._ask(self._pool, ("ROLE",), deadline=deadline)
        if isinstance(role, list) and role[0] != b"master":  # an error: the user may not ask
            failure = Demoted(
                f"the sentinel {sentinel} names {self.name} as the primary, which is a replica; "
                "a failover may be under way"
            )
            self.doubt(failure)
            raise failure

    async def _ask_sentinel(
        self, sentinel: Address, *more: Command, deadline: float | None = None
    ) -> tuple[Address, list[Any]]:
        """Return the primary, and the replies to other commands."""
        server, service = self._server.of_sentinels(), self._server.service
        first = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
        try:
            reply, *others = await ask_once(server, sentinel, first, *more, deadline=deadline)
        except AccessRefused as error:
            raise not_for_us(error, sentinel) from error.__cause__
        if reply is None:
            raise StoreUnavailable(f"the sentinel {sentinel} knows no primary called {service!r}")
        return Address(reply[0].decode(), int(reply[1])), others

    # async only: begin
    async def _others(self, asked: Address) -> list[Address]:
        """Return the addresses of the primary and its replicas."""
        more = ("SENTINEL", "REPLICAS", self._server.service)
        primary, (replicas,) = await self._ask_sentinel(asked, more)
        fields = [dict(zip(flat[::2], flat[1::2], strict=True)) for flat in replicas]
        return [primary, *(Address(each[b"ip"].decode(), int(each[b"port"])) for each in fields)]

    # async only: end
