"""A memory of the user's own: `module:factory`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, Self

from stateward.audit.targets.target import AuditTarget, cleaned
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

    async def clear(self) -> str:
        return await cleaned(self)
