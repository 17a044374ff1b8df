"""Base of the memories of all frameworks."""

from __future__ import annotations

from typing import Any

from stateward.audit.targets.frameworks.sandbox import sandbox
from stateward.audit.targets.memory import UNAVAILABLE, Json
from stateward.audit.targets.target import AuditTarget


class FrameworkMemory:
    """A framework's store in its sandbox."""

    unavailable: tuple[type[BaseException], ...] = UNAVAILABLE

    def __init__(self, target: AuditTarget) -> None:
        self.target = target
        self.sandbox: Any = sandbox(target.url or "", target.namespace)

    async def describe(self) -> Json:
        description: Json = await self.sandbox.describe()
        return description
