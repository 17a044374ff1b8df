"""Options that adapters of conversations share: which part of the history a run gets to see."""

from __future__ import annotations

from typing import TypedDict

from stateward.context.compaction import Compaction, check_compaction
from stateward.context.tokens import Count
from stateward.context.window import Bounds
from stateward.errors import InvalidInput


class WindowOptions(TypedDict, total=False):
    """Bounds of the window that a run gets to see, as `Thread.load` takes them."""

    last: int | None
    turns: int | None
    max_tokens: int | None
    count: Count | None
    summarize: Compaction | None


def checked_window(
    last: int | None = None,
    turns: int | None = None,
    max_tokens: int | None = None,
    count: Count | None = None,
    summarize: Compaction | None = None,
) -> WindowOptions:
    """Return these bounds, or raise `InvalidInput` before anything is loaded."""
    Bounds.of(last, turns, max_tokens, count, "raise")
    check_compaction(summarize, None, None)
    return WindowOptions(
        last=last, turns=turns, max_tokens=max_tokens, count=count, summarize=summarize
    )


def check_conflict(conflict: str) -> str:
    """Return what happens to a run behind which someone else has written, or `InvalidInput`."""
    if conflict not in ("raise", "append"):
        raise InvalidInput(f'conflict= is "raise" or "append", not {conflict!r}')
    return conflict
