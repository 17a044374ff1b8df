"""The user's own functions, called in either colour."""

from __future__ import annotations

import inspect
from typing import Any


async def awaited(result: Any) -> Any:
    """What a function of the user's returned, awaited if it is to be awaited."""
    if inspect.isawaitable(result):  # async only
        return await result  # async only
    return result
