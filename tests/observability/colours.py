"""Both colours of a store behind one face, so that a test is written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from stateward.ops import Check, Commit, Entity, Write

Open = Callable[..., Any]


async def ok(answer: Any) -> Any:
    """The answer of a call, whichever colour gave it."""
    return await answer if inspect.isawaitable(answer) else answer


async def commit(
    store: Any, entity: Entity, writes: tuple[Write, ...], checks: tuple[Check, ...] = ()
) -> Any:
    """The outcome of one commit on an entity of the store."""
    scope = store._scope
    asked = Commit(entity, scope.world.new_op(), writes, checks)
    return (await ok(scope.execute((asked,))))[0]


async def collect(listing: Any) -> list[Any]:
    """Everything an iterator of either colour gives."""
    if hasattr(listing, "__aiter__"):
        return [item async for item in listing]
    return list(listing)


async def enter(block: Any) -> Any:
    """`with` and `async with`, begun."""
    return await block.__aenter__() if hasattr(block, "__aenter__") else block.__enter__()


async def leave(block: Any) -> None:
    if hasattr(block, "__aexit__"):
        await block.__aexit__(None, None, None)
    else:
        block.__exit__(None, None, None)
