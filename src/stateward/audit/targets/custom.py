"""A memory of the user's own: `module:factory`."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib import import_module
from typing import Any, Self

from msgspec.structs import replace

from stateward.audit.safety.limits import AbandonedThreads
from stateward.audit.targets.memory import Memory
from stateward.audit.targets.target import AuditTarget, BackupProcedure, cleaned
from stateward.errors import InvalidInput


class CustomTarget(AuditTarget, frozen=True):
    """Whatever the factory makes of a namespace, and of a URL if there is one."""

    @classmethod
    def named(cls, named: str | None, folder: str, namespace: str, url: str | None) -> Self | None:
        _, colon, factory = (named or "").partition(":")
        if named is None or not colon or not factory.isidentifier():
            return None
        return cls(named, namespace, folder, url=url)

    def connect(self) -> Any:
        module, _, name = self.name.partition(":")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            factory = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise InvalidInput(f"{self.name} cannot be imported: {error}") from error
        return factory(self.namespace) if self.url is None else factory(self.namespace, self.url)

    @property
    def may_keep_files(self) -> bool:
        return self.url is None

    def backup(self) -> BackupProcedure | None:
        """Return a backup by the memory's own methods, restored under another name."""
        if not self._is_drilled:
            return None
        folder = os.path.join(self.folder, "drill")
        os.makedirs(folder, exist_ok=True)

        def save() -> str:
            asyncio.run(_done(self, "backup", folder))
            return "entity"

        def put_back() -> dict[str, Any]:
            copy = self._copy
            asyncio.run(_done(copy, "restore", folder))
            return {"namespace": copy.namespace}

        return BackupProcedure(save, put_back, "its own backup and restore")

    def tenant(self) -> Self:
        return replace(self, namespace=f"{self.namespace}-tenant")

    @property
    def _is_drilled(self) -> bool:
        memory = self.connect()
        return all(hasattr(memory, method) for method in ("backup", "restore"))

    @property
    def _copy(self) -> Self:
        return replace(self, namespace=f"{self.namespace}-restored")

    async def clear(self) -> str:
        if self._is_drilled:
            await cleaned(self._copy)
        return await cleaned(self)


async def _done(target: AuditTarget, method: str, folder: str) -> None:
    asyncio.get_running_loop().set_default_executor(AbandonedThreads())
    memory = Memory(target.connect())
    await memory.call("open")
    await memory.call(method, folder)
    await memory.call("close")
