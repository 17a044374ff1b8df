"""The window of a thread in another shape."""

from __future__ import annotations

from typing import Any

from stateward.shapes import Shape, Translation, translate
from stateward.state.window_record import Window


def translated(window: Window, shape: Shape) -> Translation:
    """A window that was loaded with its entries: what is lost has the numbers of the thread.

    A summary stands behind the system messages that the thread begins with, as one of them.
    """
    messages: list[dict[str, Any]] = list(window.messages)
    numbers = [entry.version for entry in window.entries]
    if window.summary is not None:
        messages.insert(window.pinned, {"role": "system", "content": window.summary})
        numbers.insert(window.pinned, 0)
    return translate(messages, shape, numbers)
