"""Log lines, as a test reads them."""

from __future__ import annotations

import io
import json
from typing import Any


class Log:
    """What was logged, as the lines of a file."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]
