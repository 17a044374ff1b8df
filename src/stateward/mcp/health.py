"""The tool that shows the health of the store."""

from __future__ import annotations

from msgspec import Struct

from stateward.mcp.tool import ToolCall


class NoArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing need be said."""


class HealthAnswer(Struct, frozen=True):
    """Whether the store answers, and how it is set up; `latency` is in seconds."""

    ok: bool
    engine: str | None
    version: str | None
    durability: str | None
    bytes: int | None
    latency: float | None
    breaker: str
    alarms: list[str]


async def health(call: ToolCall) -> HealthAnswer:
    it, asker = await call.store.health(), call.caller.asker
    is_tenants = asker.is_credential and asker.namespaces is not None
    return HealthAnswer(
        *(
            it.ok,
            it.engine,
            it.version,
            it.durability,
            None if is_tenants else it.bytes,
            it.latency,
            it.breaker,
        ),
        list(it.alarms),
    )
