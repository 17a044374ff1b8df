"""A light look at the store beside an audit's load: it ends an audit that does harm."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from msgspec import Struct

import stateward
from stateward.audit.safety.headroom import too_full
from stateward.audit.safety.isolation import REGISTRY
from stateward.engine import CALL_SECONDS
from stateward.errors import StatewardError

EVERY = 0.25  # seconds between two looks
IN_A_ROW = 3  # slow ones that end an audit
SETTINGS_EVERY = 8  # looks between two questions for memory and replication lag


class Stop(Struct, frozen=True):
    """Limits whose excess ends an audit."""

    seconds: float = 2.0  # most for a probe's lookup, several times in a row
    lag_bytes: float = 64e6  # by which a replica of the store is behind


class Harm(Exception):
    """The audit must not continue: it would do harm."""


class Probe:
    """Repeated small read on a connection of its own."""

    def __init__(self, url: str, stop: Stop) -> None:
        self._url = url
        self._stop = stop
        self._looks = True
        self._using = asyncio.Lock()
        self._store = self._opened()

    def _opened(self) -> stateward.Store:
        # Its own deadline, and no breaker: each look finds out for itself.
        timeout = min(self._stop.seconds, CALL_SECONDS)
        policy = stateward.Policy(read_timeout=timeout, breaker_failures=1_000_000)
        return stateward.open(
            self._url, namespace=REGISTRY, spill=False, metrics=False, heartbeat=None, policy=policy
        )

    @contextlib.asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Let go of the store while the audit itself disturbs it, or measures its size."""
        self._looks = False
        async with self._using:
            await self._store.close()
        try:
            yield
        finally:
            self._store = self._opened()
            self._looks = True

    def _is_away(self) -> bool:
        return not self._looks

    async def watch(self) -> str:
        """Wait until the audit has to end, and say why."""
        slow, looks = 0, 0
        while True:
            await asyncio.sleep(EVERY)
            if self._is_away():
                slow = 0
                continue
            looks += 1
            took = await self._look()
            slow = slow + 1 if took > self._stop.seconds and not self._is_away() else 0
            if slow >= IN_A_ROW:
                return (
                    f"{slow} lookups in a row of the audit's own probe took more than "
                    f"{self._stop.seconds:g} s, or failed"
                )
            if looks % SETTINGS_EVERY == 0 and not self._is_away():
                harm = await self.harm()
                if harm:
                    return harm

    async def beside(self, work: Coroutine[Any, Any, None]) -> str:
        """Do the work while watching the store; return why the work was ended early, or ""."""
        working, watching = asyncio.create_task(work), asyncio.create_task(self.watch())
        try:
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return await watching
            await working
            return ""
        except Harm as harm:
            return str(harm)
        finally:
            working.cancel()
            watching.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def close(self) -> None:
        async with self._using:
            await self._store.close()

    async def refuse_harm(self) -> None:
        """Raise if the store must not be loaded just now."""
        harm = await self.harm()
        if harm:
            raise Harm(harm)

    async def _look(self) -> float:
        began = time.monotonic()
        try:
            async with self._using:
                await self._store.user("probe").get()
        except StatewardError:
            return float("inf")
        return time.monotonic() - began

    async def harm(self) -> str:
        """Say why the store must not be loaded just now, or return an empty text."""
        try:
            async with self._using, asyncio.timeout(self._stop.seconds):
                settings = (await self._store.describe()).settings
        except (StatewardError, TimeoutError):
            return ""  # the probe itself shows whether it answers
        lag = settings.get("replication_lag_bytes") or 0
        if lag > self._stop.lag_bytes:
            return (
                f"a replica of the store is {lag / 1e6:,.0f} MB behind, more than "
                f"{self._stop.lag_bytes / 1e6:,.0f} MB"
            )
        return too_full(settings)
