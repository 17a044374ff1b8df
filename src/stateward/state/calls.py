"""The user's own code: called, and failed in words."""

from __future__ import annotations

import inspect
from typing import Any

from stateward.codec import encode
from stateward.errors import InvalidInput, Permanent


async def settle(result: Any) -> Any:
    """What a function of the user's returned, awaited if it is to be awaited."""
    if inspect.isawaitable(result):  # async only
        return await result  # async only
    return result


def result_json(value: Any, what: str) -> str:
    """The result as it is stored; one that is not JSON is a mistake no retry can mend."""
    try:
        return encode({"value": value}, f"the result of {what}")
    except InvalidInput as error:
        raise Permanent(
            f"{error}; return plain JSON, so that another replica can use it"
        ) from error


def said(error: BaseException) -> dict[str, Any]:
    """An error as it is recorded: type and message, no traceback and no arguments."""
    return {
        "type": type(error).__name__,
        "message": str(error)[:2000].encode("utf-8", "replace").decode(),
        "permanent": isinstance(error, Permanent),
    }
